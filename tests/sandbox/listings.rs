//! The shipped guest in the real sandbox, a simulated Hetzner Cloud on loopback, and a fault in one HTTP exchange of a
//! listing: nothing wrong may be concluded from it, and the nodes must reach the same end as without it.
//!
//! On the real clock, since sockets know no other: every wait is for an event, and nothing is asserted about time. The
//! cloud has three pages of servers. A case is one fault, one page, and how often: new nodes and the periodic pass over
//! initialised ones read the list concurrently, and the second fault meets the reader that the first did not.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use ccm_controllers::{Metrics, Pace};
use ccm_core::cloud::{Address, AddressType, Instance, Lookup};
use ccm_core::safety::permit::Mode;
use ccm_core::well_known::UNINITIALIZED_TAINT;
use ccm_fixtures::TOKEN;
use ccm_fixtures::kubernetes::node;
use ccm_host::grant::{Credential, Secret};
use ccm_host::{GuestConfig, Module, Provider};
use ccm_scenarios::cloud::Answered;
use ccm_scenarios::laws::{self, Record};
use ccm_scenarios::nodes::essence;
use ccm_scenarios::replay;
use ccm_scenarios::settings::Configuration;
use ccm_sim::cluster::Cluster;
use ccm_sim::hetzner::{Fault, Hetzner, Options, ServerSpec, Trouble};
use ccm_tests::controllers::{create, run_one};
use ccm_tests::harness::trial;
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use libtest_mimic::{Failed, Trial};
use tokio::time::Instant;

use crate::host::HOST;

/// Timeout of a test's waits, longer than a busy machine needs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Nodes that are initialised before the fault.
const KNOWN: [&str; 4] = ["known-1", "known-2", "known-3", "known-4"];
/// Nodes that join during the fault.
const NEW: [&str; 4] = ["new-1", "new-2", "new-3", "new-4"];
/// A new node without a server.
const FOREIGN_NODE: &str = "laptop";
/// Pages of the list, of 50 servers each.
const PAGES: u64 = 3;
const FILLERS: usize = 110;
/// Time between two passes over initialised nodes.
const PASS: Duration = Duration::from_millis(300);

/// The fault of a play.
#[derive(Debug, Clone)]
struct Case {
    trouble: Trouble,
    page: u64,
    times: u32,
}

/// The faults by name.
fn troubles() -> Vec<(&'static str, Trouble)> {
    let refuse = |status, code: &str| Trouble::Refuse {
        status,
        code: code.to_owned(),
    };
    let page = |content_type: &str, body: &str| Trouble::Foreign {
        status: 200,
        content_type: content_type.to_owned(),
        body: body.as_bytes().to_vec(),
    };
    vec![
        ("500", refuse(500, "server_error")),
        ("503", refuse(503, "unavailable")),
        (
            "429",
            Trouble::TooManyRequests {
                retry_after: Some("1".to_owned()),
            },
        ),
        ("reset before", Trouble::ResetBefore),
        ("reset after", Trouble::ResetAfter),
        ("slow", Trouble::SlowAfter(Duration::from_millis(300))),
        ("truncated", Trouble::Truncated),
        ("cut", Trouble::Cut),
        (
            "malformed JSON",
            page("application/json", "{\"servers\": [{]}"),
        ),
        (
            "an HTML page",
            page("text/html", "<html>please log in</html>"),
        ),
        ("an empty list", Trouble::EmptyList),
        ("half a page", Trouble::PartialPage),
        (
            "a page that is its own next one",
            Trouble::NextPageIsThisPage,
        ),
    ]
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(name, trouble): (&'static str, Trouble)| {
        let name = format!("listings::{name} in place of a page");
        trial(name.clone(), move || in_place_of_a_page(&name, &trouble))
    };
    troubles().into_iter().map(trial).collect()
}

/// The cases of a fault by the names that replay them.
fn cases(trouble: &Trouble) -> Vec<(String, Case)> {
    let every = (1..=PAGES).flat_map(|page| [(page, 1), (page, 2)]);
    every
        .map(|(page, times)| {
            let case = Case {
                trouble: trouble.clone(),
                page,
                times,
            };
            (format!("page:{page}x{times}"), case)
        })
        .collect()
}

fn play(case: Option<Case>) -> Result<String, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(World::play(case))
}

/// The final state of the nodes without a fault. The same for every case: the simulator counts its IDs and addresses.
static UNDISTURBED: LazyLock<Result<String, String>> =
    LazyLock::new(|| play(None).map_err(|failed| failed.message().unwrap_or_default().to_owned()));

fn in_place_of_a_page(name: &str, trouble: &Trouble) -> Result<(), Failed> {
    let undisturbed = UNDISTURBED.as_ref()?;
    for (word, case) in replay::chosen(name, cases(trouble), 1)? {
        let again = replay::again("sandbox", name, &word);
        let end = play(Some(case)).map_err(|failed| {
            format!("{word}: {}\n{again}", failed.message().unwrap_or_default())
        })?;
        if end != *undisturbed {
            let text = format!(
                "{word}: the nodes end as\n{end}\nand without it as\n{undisturbed}\n{again}"
            );
            return Err(text.into());
        }
    }
    Ok(())
}

/// One cloud, one cluster, one provider.
struct World {
    cloud: Hetzner,
    cluster: Cluster,
    nodes: Api<Node>,
    about: String,
}

impl World {
    /// Plays one case, and returns the final state of the nodes.
    async fn play(case: Option<Case>) -> Result<String, Failed> {
        let world = World::make(format!("{case:?}")).await?;
        world.register(&KNOWN).await;
        world
            .manage_until("the known nodes are initialised", async || {
                world.are_initialised(&KNOWN).await
            })
            .await?;
        world.cloud.clear_requests();
        let (page, times) = case
            .as_ref()
            .map_or((PAGES, 1), |case| (case.page, case.times));
        if let Some(case) = case {
            let fault = Fault::new(case.trouble)
                .method(Method::GET)
                .path("/servers");
            world.cloud.inject(fault.page(page).times(times));
        }
        world.register(&NEW).await;
        world.register(&[FOREIGN_NODE]).await;
        let times = usize::try_from(times)?;
        // Both readers have met the fault, and have read the whole list after it.
        world
            .manage_until("everything went wrong, and then well", async || {
                let pages = world.pages();
                let met = pages.iter().enumerate().filter(|(_, one)| **one == page);
                let Some((last, _)) = met.take(times).nth(times - 1) else {
                    return false;
                };
                let whole = pages[last + 1..]
                    .iter()
                    .filter(|one| **one == PAGES)
                    .count();
                whole >= 2 && world.are_initialised(&NEW).await
            })
            .await?;
        world.check()?;
        Ok(world.end().await)
    }

    /// Runs the controllers until a condition holds.
    async fn manage_until(&self, what: &str, is_so: impl AsyncFn() -> bool) -> Result<(), Failed> {
        let mut settings = Configuration::default().settings(Pace::REAL);
        settings.node.status_update_frequency = PASS;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let controllers = run_one(
            self.cluster.client_as("ccm"),
            Arc::new(self.load().await?),
            settings,
            Metrics::default(),
            async {
                // Dropped means the same as sent.
                let _ = stopped.await;
            },
        );
        let watching = async {
            let result = self.until(what, is_so).await;
            drop(stop);
            result
        };
        let (ended, result) = tokio::join!(controllers, watching);
        ended.map_err(|error| self.failed(error))?;
        result
    }

    async fn make(about: String) -> Result<World, Failed> {
        let cloud = Hetzner::start(Options {
            rate_limit: None,
            ..Options::new(TOKEN)
        })
        .await?;
        let mut names: Vec<String> = (1..=FILLERS)
            .map(|number| format!("other-{number}"))
            .collect();
        // One of each on the first page, and more than there are pages on the others: so the whole list is read.
        let places = [0, 60, 105, 110];
        for (place, (known, new)) in places.into_iter().zip(KNOWN.into_iter().zip(NEW)) {
            names.insert(place, known.to_owned());
            names.insert(place + 1, new.to_owned());
        }
        cloud.add_servers(names.into_iter().map(ServerSpec::named));
        let cluster = Cluster::new();
        cluster.keep_writes();
        let nodes = Api::all(cluster.client_as("kubelet"));
        Ok(World {
            cloud,
            cluster,
            nodes,
            about,
        })
    }

    async fn load(&self) -> Result<Provider, Failed> {
        let module = Module {
            source: "hcloud.wasm".to_owned(),
            wasm: Bytes::from_static(embedded_guests::HCLOUD),
        };
        let inspection = ccm_host::inspect(&module.source, &module.wasm)?;
        let mut grants = inspection.manifest.as_grants();
        for target in &mut grants.targets {
            target.endpoint = self.cloud.endpoint().parse()?;
            target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
        }
        // Every look-up is sent to the cloud, so that the fault meets the intended one.
        let never_kept = ("HCLOUD_SERVER_CACHE_MAX_AGE".to_owned(), "0".to_owned());
        let config = GuestConfig {
            schemes: Vec::new(),
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: Vec::new(),
            values: [never_kept].into(),
        };
        Ok(HOST.load(module, grants, config).await?)
    }

    /// The requested pages, in order.
    fn pages(&self) -> Vec<u64> {
        let requests = self.cloud.requests();
        let lists = requests
            .iter()
            .filter(|request| request.path.starts_with("/servers?"));
        lists.map(|request| request.page.unwrap_or(1)).collect()
    }

    async fn register(&self, names: &[&str]) {
        for name in names {
            create(&self.nodes, node(name).uninitialized()).await;
        }
    }

    async fn are_initialised(&self, names: &[&str]) -> bool {
        for name in names {
            let node = self.nodes.get(name).await.expect("a node stays");
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            if taints.iter().any(|taint| taint.key == UNINITIALIZED_TAINT) {
                return false;
            }
        }
        true
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) -> Result<(), Failed> {
        let deadline = Instant::now() + TIMEOUT;
        while !is_so().await {
            if Instant::now() > deadline {
                return Err(self.failed(format_args!("not within {TIMEOUT:?}: {what}")));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    fn failed(&self, why: impl fmt::Display) -> Failed {
        let requests: Vec<String> = self
            .cloud
            .requests()
            .iter()
            .map(|request| format!("{} {} {:?}", request.method, request.path, request.status))
            .collect();
        format!("{}: {why}; requests:\n{}", self.about, requests.join("\n")).into()
    }

    /// Nothing wrong was concluded: no law is broken, no Event says that a machine is gone, a known node is as it was
    /// before the fault, and the cloud was only read.
    fn check(&self) -> Result<(), Failed> {
        let writes: Vec<_> = self
            .cluster
            .writes()
            .into_iter()
            .filter(|write| write.request.identity == "ccm")
            .collect();
        let broken = laws::broken(&Record::of(
            writes.clone(),
            self.known_answers(),
            Mode::Enforce,
        ));
        if !broken.is_empty() {
            return Err(self.failed(broken.join("\n")));
        }
        // Its addresses, and the rest: the two writes of its initialisation.
        for name in KNOWN {
            let count = writes
                .iter()
                .filter(|write| write.request.name == name)
                .count();
            if count != 2 {
                return Err(self.failed(format_args!("{name} was written {count} times")));
            }
        }
        let is_honest = |request: &ccm_sim::hetzner::Request| {
            request.method == Method::GET && request.authorized && !request.write
        };
        if !self.cloud.requests().iter().all(is_honest) {
            return Err(self.failed("more than reading was tried"));
        }
        Ok(())
    }

    /// The cloud's true answers about every server, as far as the laws need them.
    fn known_answers(&self) -> Vec<Answered> {
        let start = Instant::now() - TIMEOUT * 100;
        let servers = self.cloud.server_ids().into_iter();
        servers
            .filter_map(|id| self.cloud.server(id))
            .map(|server| {
                let address = server["public_net"]["ipv4"]["ip"]
                    .as_str()
                    .unwrap_or_default();
                let instance = Instance {
                    addresses: vec![Address {
                        address_type: AddressType::ExternalIp,
                        address: address.to_owned(),
                    }],
                    ..Instance::default()
                };
                Answered {
                    at: start,
                    call: 0,
                    node: server["name"].as_str().unwrap_or_default().to_owned(),
                    lookup: Lookup::Found(Box::new(instance)),
                    complete: true,
                    is_fresh: false,
                    stored: None,
                }
            })
            .collect()
    }

    async fn end(&self) -> String {
        let nodes = self.nodes.list(&ListParams::default()).await;
        let nodes = nodes.expect("the in-memory API server answers");
        let texts = nodes.into_iter().map(|node| {
            let node = serde_json::to_value(node).expect("nodes are JSON");
            format!("{:#}", essence(&node))
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
