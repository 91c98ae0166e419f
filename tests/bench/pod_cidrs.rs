//! The cost of finding a node's pod CIDRs, as ratios taken in one run: the last of 15 000 nodes against the first, a
//! range that is nearly full against an empty one, and against upstream's search from block to block. Asserts nothing
//! about time; the tests of `ccm-core` check the results.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ccm_core::ipam::{CidrSet, Holder, IpamEffect, IpamOutcome, Memory, decide};
use ccm_core::node::object::PrunedNode;
use ccm_core::reconciliation::effect::{Decision, EventOutcome, Performed, When};
use ccm_core::settings::{IpamSettings, OtherAllocatorRules, PodNetwork};
use serde_json::json;

/// The nodes of a large cluster.
const NODES: usize = 15_000;
/// Number of nodes that are measured together; the median of such groups counts: one is too fast for a clock.
const GROUP: usize = 50;
/// Number of groups at the beginning that are compared with as many at the end.
const GROUPS: usize = 20;

/// A range, and the mask of a node's block.
struct Range(&'static str, u8);

const RANGES: [&[Range]; 3] = [
    &[Range("10.0.0.0/8", 24)],
    &[Range("fd00::/48", 64)],
    &[Range("10.0.0.0/8", 24), Range("fd00::/48", 64)],
];

fn main() -> anyhow::Result<()> {
    println!("One node's pod CIDRs: from what is known of it to what is to be written, and back.");
    println!("Ratios of medians over groups of {GROUP} nodes.\n");
    for ranges in RANGES {
        measure(ranges)?;
    }
    println!();
    search(&RANGES[0][0])
}

fn memory(ranges: &[Range]) -> anyhow::Result<Memory> {
    let mut families = Vec::new();
    for Range(cidr, node_mask) in ranges {
        families.push(PodNetwork {
            cluster_cidr: cidr.parse()?,
            node_mask: *node_mask,
        });
    }
    Ok(Memory::new(&IpamSettings {
        families,
        service_cidrs: Vec::new(),
        concurrent_syncs: NonZeroUsize::MIN,
        settle: Duration::ZERO,
        other_allocator: OtherAllocatorRules::default(),
    })?)
}

fn node(name: &str, pod_cidrs: &[String]) -> anyhow::Result<Arc<PrunedNode>> {
    let node = json!({
        "metadata": { "name": name, "uid": format!("{name}-uid") },
        "spec": { "podCIDR": pod_cidrs.first(), "podCIDRs": pod_cidrs },
    });
    Ok(Arc::new(serde_json::from_value(node)?))
}

/// New nodes, and how long each group of them took until it had its pod CIDRs.
fn arrive(memory: &mut Memory, count: usize) -> anyhow::Result<Vec<Duration>> {
    let nodes = (0..count).map(|number| node(&format!("new-{number}"), &[]));
    let nodes: Vec<Arc<PrunedNode>> = nodes.collect::<anyhow::Result<_>>()?;
    let groups = nodes.chunks(GROUP).map(|group| {
        let began = Instant::now();
        group.iter().try_for_each(|node| serve(memory, node))?;
        Ok(began.elapsed())
    });
    groups.collect()
}

/// A reconciliation with an API server that accepts everything.
fn serve(memory: &mut Memory, new: &Arc<PrunedNode>) -> anyhow::Result<()> {
    black_box(memory.see(new));
    let Some(mut facts) = memory.begin(new.clone()) else {
        return Ok(());
    };
    while let Decision::Do(effects) = decide(&facts) {
        for effect in &effects {
            let outcome = match effect {
                IpamEffect::Patch(_, patch) => {
                    let written = node(new.name(), &patch.pod_cidrs)?;
                    IpamOutcome::Node(Ok(Some(Box::new(PrunedNode::clone(&written)))))
                }
                _ => IpamOutcome::Event(EventOutcome::Recorded),
            };
            facts.absorb(effect, Performed::Ended(outcome));
        }
    }
    memory.conclude(&facts, &When::AwaitChange);
    Ok(())
}

/// A memory of nodes that have 99 of 100 blocks, evenly spread; and the time to take in one node.
fn nearly_full(ranges: &[Range]) -> anyhow::Result<(Memory, Duration)> {
    let mut full = memory(ranges)?;
    let sets = full.allocator().families().to_vec();
    let size = sets.iter().map(CidrSet::size).min().unwrap_or_default();
    let taken = (0..size).filter(|index| index % 100 != 99).map(|index| {
        let blocks = sets.iter().filter_map(|set| set.block(index));
        let blocks: Vec<String> = blocks.map(|block| block.to_string()).collect();
        node(&format!("old-{index}"), &blocks)
    });
    let taken: Vec<Arc<PrunedNode>> = taken.collect::<anyhow::Result<_>>()?;
    let began = Instant::now();
    for node in &taken {
        full.see(node);
    }
    let each = began.elapsed() / u32::try_from(taken.len())?;
    Ok((full, each))
}

fn measure(ranges: &[Range]) -> anyhow::Result<()> {
    let names: Vec<String> = ranges
        .iter()
        .map(|Range(cidr, mask)| format!("{cidr} in /{mask}"))
        .collect();
    println!("{}", names.join(" and "));
    let mut empty = memory(ranges)?;
    let groups = arrive(&mut empty, NODES)?;
    let first = median(&groups[..GROUPS]);
    let last = median(&groups[groups.len() - GROUPS..]);
    println!(
        "  the {NODES}th node against the first           {:>8.2}",
        ratio(last, first)
    );
    let (mut full, each) = nearly_full(ranges)?;
    let free = full
        .allocator()
        .families()
        .iter()
        .map(|set| set.size() - set.used())
        .min();
    let free = free.unwrap_or_default() / GROUP * GROUP;
    let late = median(&arrive(&mut full, free)?);
    println!(
        "  in a range that is 99 % full against an empty one {:>5.2}   ({free} nodes)",
        ratio(late, first)
    );
    let group = u32::try_from(GROUP)?;
    println!(
        "  to hear at the start of a node that has its own   {:>5.2}",
        ratio(each * group, first)
    );
    println!(
        "  (the first ones took {:?} each on this machine, in this build)",
        first / group
    );
    Ok(())
}

/// The worst case: the only free block is the one that is found last.
fn search(Range(cidr, mask): &Range) -> anyhow::Result<()> {
    const TIMES: u32 = 2_000;
    let holder = Holder::Node {
        name: "a".into(),
        uid: "a".into(),
    };
    let mut empty = CidrSet::new(cidr.parse()?, *mask)?;
    let mut full = empty.clone();
    for index in 0..full.size() - 1 {
        if let Some(block) = full.block(index) {
            full.occupy(&block, &holder);
        }
    }
    let mut plain = vec![true; full.size()];
    if let Some(last) = plain.last_mut() {
        *last = false;
    }
    let time = |set: &mut CidrSet| {
        let began = Instant::now();
        for _ in 0..TIMES {
            if let Some(allocated) = set.allocate(&holder) {
                set.release(black_box(&allocated.block), &holder);
            }
        }
        began.elapsed() / TIMES
    };
    let (without, with) = (time(&mut empty), time(&mut full));
    let began = Instant::now();
    for _ in 0..TIMES / 10 {
        black_box(black_box(&plain).iter().position(|is_used| !is_used));
    }
    let one_by_one = began.elapsed() / (TIMES / 10);
    println!(
        "One free block of {} in {cidr}, behind all others",
        full.size()
    );
    println!(
        "  to take and free it against one of an empty range {:>5.2}",
        ratio(with, without)
    );
    println!(
        "  to look at every block before it instead          {:>5.2}",
        ratio(one_by_one, without)
    );
    Ok(())
}

fn median(groups: &[Duration]) -> Duration {
    let mut groups = groups.to_vec();
    groups.sort_unstable();
    groups.get(groups.len() / 2).copied().unwrap_or_default()
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64().max(f64::MIN_POSITIVE)
}
