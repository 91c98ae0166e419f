//! A model of kube-controller-manager: its election, and its allocation of pod CIDRs.

use super::*;

/// One kube-controller-manager: reads nodes late, and gives the first block that it believes free.
pub(super) struct Controller {
    pub(super) identity: String,
    pub(super) allocates: bool,
    pub(super) has_election: bool,
    pub(super) is_leader: bool,
    pub(super) tries_at: u64,
    /// The record of the Lease that it saw last, and when it first saw that record.
    pub(super) seen: Option<(LeaseSpec, u64)>,
    pub(super) lists_at: Option<u64>,
    pub(super) late: Late,
    /// The pod CIDRs that it believes the nodes have.
    pub(super) nodes: BTreeMap<String, Option<IpNet>>,
    pub(super) serves_at: u64,
}

impl World {
    pub(super) fn elect(&mut self, index: usize) {
        let now = self.now;
        let controller = &mut self.controllers[index];
        if !controller.has_election || now < controller.tries_at {
            return;
        }
        controller.tries_at = now + 2_000;
        let record = self.lease.clone().unwrap_or_default();
        if controller.seen.as_ref().map(|(seen, _)| seen) != Some(&record) {
            controller.seen = Some((record.clone(), now));
        }
        let holder = record.holder_identity.clone().unwrap_or_default();
        let since = controller.seen.as_ref().map_or(now, |(_, since)| *since);
        let is_ours = holder == controller.identity;
        if !is_ours && !holder.is_empty() && now <= since + 15_000 {
            return;
        }
        let acquired = match is_ours {
            true => record.acquire_time,
            false => Some(MicroTime(wall(now))),
        };
        self.lease = Some(LeaseSpec {
            holder_identity: Some(controller.identity.clone()),
            lease_duration_seconds: Some(15),
            acquire_time: acquired,
            renew_time: Some(MicroTime(wall(now))),
            ..LeaseSpec::default()
        });
        if !is_ours {
            controller.is_leader = true;
            let starts = 2_000 + self.up_to(3_000);
            self.controllers[index].lists_at = Some(now + starts);
        }
    }

    pub(super) fn control(&mut self, index: usize) {
        let now = self.now;
        let block =
            |node: &Arc<PrunedNode>| pod_cidrs(node).first().map(|text| text.parse().unwrap());
        let controller = &mut self.controllers[index];
        if let Some(at) = controller.lists_at.filter(|at| *at <= now) {
            controller.lists_at = None;
            controller.late.changes.clear();
            let nodes = self.api.nodes.iter();
            controller.nodes = nodes
                .map(|(name, node)| (name.clone(), block(node)))
                .collect();
            controller.serves_at = at;
        }
        if !controller.is_leader || !controller.allocates || controller.serves_at == 0 {
            return;
        }
        for (name, node) in controller.late.arrived(now) {
            match node {
                Some(node) => {
                    let has = block(&node);
                    let known = controller.nodes.entry(name).or_default();
                    *known = has.or(*known);
                }
                None => drop(controller.nodes.remove(&name)),
            }
        }
        if now < controller.serves_at {
            return;
        }
        // Thirty workers take the nodes in any order.
        let waits = controller.nodes.iter().filter(|(_, has)| has.is_none());
        let waits: Vec<String> = waits.map(|(name, _)| name.clone()).collect();
        let pick = usize::try_from(self.up_to(1_000)).unwrap();
        let Some(name) = pick
            .checked_rem(waits.len())
            .map(|pick| waits[pick].clone())
        else {
            return;
        };
        let controller = &mut self.controllers[index];
        let used: BTreeSet<IpNet> = controller.nodes.values().flatten().copied().collect();
        let range: IpNet = "10.0.0.0/24".parse().unwrap();
        let free = range
            .subnets(31)
            .unwrap()
            .find(|one| !used.contains(one))
            .unwrap();
        controller.nodes.insert(name.clone(), Some(free));
        let patch = PodCidrsPatch {
            uid: name.clone(),
            pod_cidrs: vec![free.to_string()],
        };
        let (pause, takes) = (self.up_to(600), self.up_to(500));
        self.controllers[index].serves_at = now + pause;
        self.writes
            .push((now + takes, Writer::Allocator(KCM.to_owned()), name, patch));
    }
}
