//! The controllers' settings in a script. Knows no world.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_controllers::{Controllers, LeaseName, Pace, Settings};
use ccm_core::safety::brake::{Allowance, Allowances, Brake};
use ccm_core::safety::permit::Mode;
use ccm_core::settings::{
    Adoption, IngressRules, IpamSettings, LifecycleRules, LifecycleSettings, NodeSettings,
    OtherAllocatorRules, PodNetwork, RouteSettings, ServiceRules, ServiceSettings,
};
use ipnet::IpNet;

use crate::script::Line;
use crate::world::seconds;

/// The address of the API server.
const API_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// The settings that a script can change.
#[derive(Debug, Clone)]
pub struct Configuration {
    pub(crate) mode: Mode,
    pub(crate) allowances: Allowances,
    controllers: Controllers,
    pub(crate) rules: LifecycleRules,
    services: ServiceSettings,
    pub(crate) service_rules: ServiceRules,
    pub(crate) routes: RouteSettings,
    node_masks: Vec<u8>,
    service_cidrs: Vec<IpNet>,
    monitor_period: Duration,
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            mode: Mode::Enforce,
            allowances: Allowances::default(),
            controllers: Controllers {
                node: true,
                node_lifecycle: false,
                service: false,
                route: false,
                node_ipam: false,
            },
            rules: LifecycleRules::default(),
            // One Service after another, so that a transcript has one order.
            services: ServiceSettings {
                concurrent_syncs: NonZeroUsize::MIN,
                // A script that needs it sets the interval.
                drift_check: None,
                ..ServiceSettings::default()
            },
            service_rules: service_rules(),
            routes: RouteSettings {
                // One after another, so that a transcript has one order.
                concurrent_syncs: NonZeroUsize::MIN,
                ..RouteSettings::default()
            },
            node_masks: Vec::new(),
            service_cidrs: Vec::new(),
            monitor_period: Duration::from_secs(5),
        }
    }
}

/// A cluster with the usual ranges.
fn service_rules() -> ServiceRules {
    let known = |text: &str| network(text).expect("a network");
    ServiceRules {
        ingress: IngressRules {
            refused: vec![known("10.0.0.0/16"), known("10.244.0.0/16")],
            api_server: vec![API_SERVER],
            allowed: Vec::new(),
        },
        ..ServiceRules::default()
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| format!("{text:?} is no network"))
}

impl Configuration {
    /// `plan`, `controllers …` and `setting …`: see `README.md`.
    pub(crate) fn apply(&mut self, line: &Line) -> Result<(), String> {
        if let word @ ("plan" | "observe") = line.word(0)? {
            self.mode = if word == "plan" {
                Mode::Plan
            } else {
                Mode::Observe
            };
            return Ok(());
        }
        if line.word(0)? == "controllers" {
            let named = |name: &str| line.words.iter().skip(1).any(|word| word == name);
            self.controllers = Controllers {
                node: named("node"),
                node_lifecycle: named("node-lifecycle"),
                service: named("service"),
                route: named("route"),
                node_ipam: named("node-ipam"),
            };
            return Ok(());
        }
        for (key, value) in line.pairs(1)? {
            match key {
                "delete-last-node" => self.rules.delete_last_node = value == "true",
                // Settings that operators cannot make: for clients with a deliberate defect.
                "not-ready" => self.rules.not_ready = seconds(value)?,
                "min-age" => self.rules.min_age = seconds(value)?,
                "confirm-after" => self.rules.confirm_after = seconds(value)?,
                "monitor-period" => self.monitor_period = seconds(value)?,
                "brake" => self.brake(value)?,
                "class" => drop(self.service_rules.classes.insert(value.to_owned())),
                "default" => self.service_rules.is_default = value == "true",
                "adoption" => {
                    self.service_rules.adoption = match value {
                        "true" => Adoption::Orphaned,
                        "unowned" => Adoption::Unowned,
                        _ => Adoption::Never,
                    }
                }
                "ingress" => self.service_rules.ingress.allowed.push(network(value)?),
                "workers" => {
                    let count = value.parse().map_err(|_| format!("no number: {value:?}"))?;
                    self.services.concurrent_syncs = count;
                }
                "drift-check" => self.services.drift_check = Some(seconds(value)?),
                "confirm-removal" => self.service_rules.confirm_removal = seconds(value)?,
                "cluster-cidr" => self.routes.cluster_cidrs.push(network(value)?),
                "node-mask" => {
                    let mask = value.parse().map_err(|_| format!("no mask: {value:?}"))?;
                    self.node_masks.push(mask);
                }
                "service-cidr" => self.service_cidrs.push(network(value)?),
                "resync" => self.routes.resync = seconds(value)?,
                "route-workers" => {
                    let count = value.parse().map_err(|_| format!("no number: {value:?}"))?;
                    self.routes.concurrent_syncs = count;
                }
                other => return Err(format!("no setting is called {other:?}")),
            }
        }
        Ok(())
    }

    /// The value of `setting brake`: `NAME:LEAST:PERCENT:MOST`.
    fn brake(&mut self, text: &str) -> Result<(), String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [name, least, percent, most] = parts.as_slice() else {
            return Err(format!("{text:?} is not NAME:LEAST:PERCENT:MOST"));
        };
        let brake = Brake::parse(name).ok_or_else(|| format!("no brake is called {name:?}"))?;
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
        self.allowances.set(
            brake,
            Allowance {
                least: number(least)?,
                percent: number(percent)?,
                most: number(most)?,
                window: Allowance::default_of(brake).window,
            },
        );
        Ok(())
    }

    /// The settings of node IPAM, if it runs.
    pub(crate) fn pod_networks(&self) -> Option<IpamSettings> {
        if !self.controllers.node_ipam {
            return None;
        }
        let cidrs = self.routes.cluster_cidrs.iter().enumerate();
        let families = cidrs.map(|(index, cidr)| {
            let usual = if cidr.addr().is_ipv4() { 24 } else { 64 };
            PodNetwork {
                cluster_cidr: *cidr,
                node_mask: self.node_masks.get(index).copied().unwrap_or(usual),
            }
        });
        Some(IpamSettings {
            families: families.collect(),
            service_cidrs: self.service_cidrs.clone(),
            concurrent_syncs: NonZeroUsize::MIN,
            settle: Duration::from_secs(5),
            other_allocator: OtherAllocatorRules {
                settle_without_lease: Duration::from_secs(5),
                ..OtherAllocatorRules::default()
            },
        })
    }

    /// The settings of a process that is started now.
    pub fn settings(&self, pace: Pace) -> Settings {
        let base = ccm_tests::controllers::settings();
        Settings {
            controllers: self.controllers,
            lifecycle: LifecycleSettings {
                monitor_period: self.monitor_period,
                rules: self.rules.clone(),
            },
            route: self.routes.clone(),
            ipam: self.pod_networks(),
            budget_lease: Some(LeaseName {
                namespace: "kube-system".to_owned(),
                name: "cloud-controller-manager".to_owned(),
            }),
            service: self.services.clone(),
            allowances: self.allowances.clone(),
            pace,
            node: NodeSettings {
                // One after another, so that a transcript has one order.
                concurrent_syncs: NonZeroUsize::MIN,
                ..base.node.clone()
            },
            mode: self.mode,
            ..base
        }
    }
}
