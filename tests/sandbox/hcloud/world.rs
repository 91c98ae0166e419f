//! The set-up of these tests: both simulated clouds, Robot behind TLS with a private authority, the real host, and the
//! shipped guest between them. Asserts nothing about the guest's answers.

use bytes::Bytes;
use ccm_core::cloud::{CloudNode, FindReply, Lookup, ProviderError, Readiness};
use ccm_core::cloud_provider::CloudProvider as _;
pub(crate) use ccm_fixtures::TOKEN;
use ccm_fixtures::objects::ready_node;
use ccm_host::grant::{Credential, Grants, Secret, TargetGrant};
use ccm_host::{GuestConfig, LoadError, Module, Provider};
use ccm_sim::hetzner::{self, Hetzner};
use ccm_sim::robot::{self, Robot};
use ccm_tests::authority;
use http::Method;

use crate::host::HOST;
use crate::permits::reads;

pub(crate) const PASSWORD: &str = "a-password-that-no-guest-sees";
const USER: &str = "#ws+user";
/// The value of `--cluster-cidr`.
const CLUSTER_CIDR: &str = "10.244.0.0/16";

/// Both clouds, and what a test needs to load the guest before them.
pub(crate) struct World {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) cloud: Hetzner,
    pub(crate) robot: Robot,
}

impl World {
    pub(crate) fn new() -> World {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (cloud, robot) = runtime.block_on(async {
            let cloud = Hetzner::start(hetzner::Options::new(TOKEN)).await.unwrap();
            let robot = Robot::start(robot::Options {
                tls: Some(authority::issue("robot").unwrap()),
                ..robot::Options::new(USER, PASSWORD)
            });
            (cloud, robot.await.unwrap())
        });
        World {
            runtime,
            cloud,
            robot,
        }
    }

    /// Grants of everything that the guest requests, with Robot or without.
    fn grants(&self, token: &str, password: Option<&str>) -> Grants {
        let inspection = ccm_host::inspect("hcloud", embedded_guests::HCLOUD).unwrap();
        let grant = |target: &ccm_host::manifest::Target| -> Option<TargetGrant> {
            let (endpoint, credential, authority) = match (target.name.as_str(), password) {
                ("api", _) => {
                    let token = Secret::new(token.to_owned());
                    (self.cloud.endpoint(), Credential::Bearer(token), None)
                }
                ("robot", Some(password)) => {
                    let user = USER.to_owned();
                    let password = Secret::new(password.to_owned());
                    // An address as endpoint grants exactly that address.
                    let endpoint = format!("https://{}", self.robot.address());
                    let authority = self.robot.ca_pem();
                    (endpoint, Credential::Basic { user, password }, authority)
                }
                _ => return None,
            };
            Some(TargetGrant {
                endpoint: endpoint.parse().unwrap(),
                credential,
                ca_pem: authority.map(str::to_owned),
                ..target.as_grant()
            })
        };
        Grants {
            targets: inspection
                .manifest
                .targets
                .iter()
                .filter_map(grant)
                .collect(),
            annotation_prefixes: Vec::new(),
        }
    }

    /// The guest with Robot's password or without, and these values of its configuration.
    pub(crate) fn load(
        &self,
        password: Option<&str>,
        values: &[(&str, &str)],
    ) -> Result<Provider, LoadError> {
        self.load_with(TOKEN, password, values)
    }

    /// As `load`, with a token of the test's choice.
    pub(crate) fn load_with(
        &self,
        token: &str,
        password: Option<&str>,
        values: &[(&str, &str)],
    ) -> Result<Provider, LoadError> {
        let module = Module {
            source: "embedded:hcloud".to_owned(),
            wasm: Bytes::from_static(embedded_guests::HCLOUD),
        };
        let values = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let config = GuestConfig {
            schemes: Vec::new(),
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: vec![CLUSTER_CIDR.to_owned()],
            values: values.collect(),
        };
        let load = HOST.load(module, self.grants(token, password), config);
        self.runtime.block_on(load)
    }

    pub(crate) fn find(&self, provider: &Provider, nodes: &[CloudNode]) -> FindReply {
        self.try_find(provider, nodes).unwrap()
    }

    pub(crate) fn try_find(
        &self,
        provider: &Provider,
        nodes: &[CloudNode],
    ) -> Result<FindReply, ProviderError> {
        self.runtime.block_on(provider.find(nodes, reads()))
    }

    pub(crate) fn find_fresh(&self, provider: &Provider, nodes: &[CloudNode]) -> FindReply {
        self.try_find_fresh(provider, nodes).unwrap()
    }

    pub(crate) fn try_find_fresh(
        &self,
        provider: &Provider,
        nodes: &[CloudNode],
    ) -> Result<FindReply, ProviderError> {
        self.runtime.block_on(provider.find_fresh(nodes, reads()))
    }

    /// The number of lists requested of Robot.
    pub(crate) fn lists(&self) -> usize {
        self.robot.count(&Method::GET, "/server")
    }
}

/// A node that is ready.
pub(crate) fn node(name: &str, provider_id: Option<String>) -> CloudNode {
    ready_node(name, provider_id.as_deref())
}

/// The same node after its kubelet has stopped reporting.
pub(crate) fn silent(node: CloudNode) -> CloudNode {
    CloudNode {
        readiness: Readiness::Unknown,
        ..node
    }
}

/// The look-ups in short form, such as `hcloud://1`.
pub(crate) fn brief(reply: &FindReply) -> Vec<String> {
    let show = |lookup: &Lookup| match lookup {
        Lookup::Found(instance) => instance.provider_id.clone(),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(_) => "unknown".to_owned(),
    };
    reply.lookups.iter().map(show).collect()
}
