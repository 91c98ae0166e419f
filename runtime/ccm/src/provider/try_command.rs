//! `ccm provider try`: lets a module answer for nodes and Services that no cluster has, in the real sandbox and through
//! the real egress, and shows its requests, the writes that the manager would make, and the refusals. Without
//! `--allow-changes` nothing is changed at the cloud.

pub(super) mod objects;
mod reconciliation;
mod report;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::node::Looked;
use ccm_core::node::cloud_node::cloud_node;
use ccm_core::node::index::{Clashes, NodeIndex};
use ccm_core::node::object::PrunedNode;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_host::Provider;
use ccm_host::egress::now;
use ccm_host::limits::CALL_CEILING;
use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use super::Verdict;
use super::arguments::{DocumentForm, Try};
use super::configured_providers::Inputs;
use super::loadable::{ClusterProperties, Loadable};
use super::observed_calls::ObservedCalls;
use super::terminal::Screen;
use crate::config::LoadBalancerConfig;
use report::{CallGroup, Report};

use objects::{NodeArgument, pruned, read_service};

/// Calls the module, and shows the result.
pub(super) async fn run(options: &Try, screen: Screen) -> anyhow::Result<Verdict> {
    let services = options.service.iter().map(|path| read_service(path));
    let services: Vec<Service> = services.collect::<Result<_, _>>()?;
    anyhow::ensure!(
        !services.is_empty() || !options.subject.node.is_empty(),
        "there is nothing to ask about: --node or --service names something"
    );
    let cluster = ClusterProperties {
        name: options.subject.cluster_name.clone(),
        cidrs: options.subject.cluster_cidr.clone(),
    };
    let (module, entry) = (&options.module, &options.entry);
    let loadable = Loadable::find(module, entry, cluster, Inputs::Used, screen).await?;
    let observed = Arc::new(ObservedCalls::default());
    let bar = screen.busy("compiling and starting");
    let provider = loadable.load(Some(observed.clone())).await?;
    drop(bar);
    let tried = TriedModule {
        schemes: loadable.owned_schemes().to_vec(),
        mode: match options.subject.allow_changes {
            true => Mode::Enforce,
            false => Mode::Plan,
        },
        provider,
        observed,
        pending_timeout: options.subject.timeout,
        load_balancers: loadable
            .config()
            .map(|config| config.load_balancers.clone())
            .unwrap_or_default(),
    };
    let _bar = screen.busy("asking the module");
    let mut groups = Vec::new();
    let nodes = options.subject.node.iter().map(NodeArgument::object);
    let nodes: Vec<Value> = nodes.collect();
    let mut reached = Vec::new();
    if !nodes.is_empty() {
        let (group, initialised) = tried.nodes(nodes).await;
        groups.push(group);
        reached = initialised;
    }
    for service in services {
        groups.push(tried.service(service, &reached).await);
    }
    let report = Report::new(&loadable, &tried.provider, tried.mode, groups);
    let is_yes = report.served;
    let text = match options.output {
        DocumentForm::Text => report.text(),
        DocumentForm::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        DocumentForm::Yaml => serde_saphyr::to_string(&report)?,
    };
    Ok(Verdict { text, is_yes })
}

/// A loaded module, and the changes that it may make.
struct TriedModule {
    provider: Provider,
    observed: Arc<ObservedCalls>,
    schemes: Vec<String>,
    mode: Mode,
    /// Time limit of a pending Service.
    pending_timeout: Duration,
    /// What the entry says about load balancers, as for `run`.
    load_balancers: LoadBalancerConfig,
}

impl TriedModule {
    fn permit(&self, changes: u32) -> Arc<Permit> {
        Arc::new(Permit::new(
            now().after(CALL_CEILING),
            self.mode,
            changes,
            Arc::new(Tenure::unlimited()),
            self.observed.clone(),
        ))
    }

    /// Looks all nodes up in one call, as the manager does, and reconciles each. Returns the changed nodes.
    async fn nodes(&self, objects: Vec<Value>) -> (CallGroup, Vec<PrunedNode>) {
        let before = self.observed.count();
        let nodes: Vec<PrunedNode> = objects.iter().map(pruned).collect();
        let looked = self.look_up(&nodes).await;
        let ended = objects.into_iter().zip(looked);
        let ended = ended.map(|(object, looked)| self.reconcile_node(object, looked));
        let (after, objects) = ended.unzip();
        let calls = self.observed.since(before);
        (CallGroup { calls, objects }, after)
    }

    async fn look_up(&self, nodes: &[PrunedNode]) -> Vec<Result<Looked, ProviderError>> {
        if !self.provider.capabilities().instances {
            let why = "the module does not know machines";
            return vec![Err(ProviderError::Unsupported(why.to_owned())); nodes.len()];
        }
        let asked: Vec<_> = nodes.iter().map(cloud_node).collect();
        // A look-up changes nothing, in every mode.
        let reply = match self.provider.find(&asked, self.permit(0)).await {
            Ok(reply) => reply,
            Err(error) => return vec![Err(error); nodes.len()],
        };
        let mut index = NodeIndex::default();
        nodes.iter().for_each(|node| index.apply(node));
        index.answered(&self.ownership(), &asked, &reply, now());
        let looked = reply.lookups.iter().enumerate().map(|(at, lookup)| {
            let events = reply.events.iter().filter(|(node, _)| *node == at);
            let clashes = match lookup {
                ccm_core::cloud::Lookup::Found(instance) => {
                    index.clashes(&asked[at].name, instance)
                }
                _ => Clashes::default(),
            };
            Ok(Looked {
                lookup: lookup.clone(),
                events: events.map(|(_, event)| event.clone()).collect(),
                complete: reply.complete,
                clashes,
            })
        });
        looked.collect()
    }

    /// Reconciles one Service until nothing is pending.
    async fn service(&self, service: Service, nodes: &[PrunedNode]) -> CallGroup {
        let before = self.observed.count();
        let reconciled = self.reconcile_service(service, nodes).await;
        CallGroup {
            calls: self.observed.since(before),
            objects: vec![reconciled],
        }
    }
}
