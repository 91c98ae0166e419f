//! Options for loading a module: its name, grants, configuration and limits.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::grant::Grants;
use crate::guest_config::GuestConfig;
use crate::interceptor::Interceptor;
use crate::limits;
use crate::manifest::Manifest;

/// Load options. The default grants nothing and uses the manifest's name.
#[derive(Clone, Default)]
pub struct Loading {
    /// Name of the provider: in records, logs and errors, at the cloud, and as the owner of nodes and Services.
    /// `None`: the name in the manifest. Two providers that use the same module need two names.
    pub name: Option<String>,
    /// Rights that the operator grants to the module.
    pub grants: Grants,
    /// Configuration passed to the guest.
    pub config: GuestConfig,
    /// Limits set by the operator.
    pub limits: LimitsGranted,
    /// Whether another version serves meanwhile. Until [`crate::Provider::serves`] this one then has a tenth of the
    /// request budgets, and its rate-limit holds apply to itself only.
    pub is_on_trial: bool,
    /// Watches and disturbs the module's calls, in the commands that try or test it. `None` in a manager.
    pub interceptor: Option<Arc<dyn Interceptor>>,
}

/// The operator's limits for one provider. They replace those of the manifest; the host's ceilings always apply.
/// `None`: the manifest's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitsGranted {
    /// Linear memory of one call, in MiB.
    pub memory_mib: Option<u32>,
    /// Duration of one call, in seconds.
    pub call_seconds: Option<u32>,
}

/// Effective limits of one call, as shown by `ccm provider inspect` and in the `status` of the object Provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallLimits {
    /// Linear memory of the guest, in MiB.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: usize,
    /// Duration from its start, in seconds.
    pub call_seconds: u64,
    /// Memory that the host holds for the call beside the guest's, in MiB: cloud responses, header fields, paths,
    /// log.
    #[serde(rename = "heldMiB")]
    pub held_mib: usize,
}

impl LimitsGranted {
    /// Linear memory of one call: the granted or else the wanted value, up to the ceiling; or the default.
    pub fn memory_bytes(self, manifest: &Manifest) -> usize {
        self.memory_mib
            .or(manifest.limits.memory_mib)
            .map_or(limits::MEMORY_BYTES, |mib| {
                (mib as usize).saturating_mul(1 << 20)
            })
            .min(limits::MEMORY_CEILING_BYTES)
    }

    /// Duration of one call: the granted or else the wanted value, up to the ceiling; or the default.
    pub fn call_limit(self, manifest: &Manifest) -> Duration {
        self.call_seconds
            .or(manifest.limits.call_seconds)
            .map_or(limits::CALL, |seconds| Duration::from_secs(seconds.into()))
            .min(limits::CALL_CEILING)
    }

    /// Effective limits of one call of this module.
    pub fn call(self, manifest: &Manifest) -> CallLimits {
        CallLimits {
            memory_mib: self.memory_bytes(manifest) >> 20,
            call_seconds: self.call_limit(manifest).as_secs(),
            held_mib: limits::HELD_BYTES >> 20,
        }
    }

    /// Warnings about limits, wanted by the manifest or set by the operator, that exceed the host's ceilings.
    pub(crate) fn warnings(self, name: &str, manifest: &Manifest) -> Vec<String> {
        let memory_mib = (self.memory_bytes(manifest) >> 20) as u64;
        let seconds = self.call_limit(manifest).as_secs();
        let asked = [
            (
                manifest.limits.memory_mib,
                self.memory_mib,
                memory_mib,
                "MiB of memory",
            ),
            (
                manifest.limits.call_seconds,
                self.call_seconds,
                seconds,
                "seconds for a call",
            ),
        ];
        let mut lines = Vec::new();
        for (wanted, granted, gets, what) in asked {
            if let Some(granted) = granted.filter(|granted| u64::from(*granted) > gets) {
                lines.push(format!(
                    "{name} is granted {granted} {what} and gets {gets}"
                ));
            } else if let Some(wanted) = wanted.filter(|wanted| u64::from(*wanted) > gets) {
                lines.push(format!("{name} asks for {wanted} {what} and gets {gets}"));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_operators_limits_stand_in_for_the_manifests_up_to_the_ceiling() {
        let none = (None, None);
        for (wanted, (memory_mib, call_seconds), mib, seconds, warnings) in [
            ("{}", none, 64, 60, &[][..]),
            (r#"{"memoryMib":1,"callSeconds":1}"#, none, 1, 1, &[]),
            (
                r#"{"memoryMib":256,"callSeconds":300}"#,
                none,
                256,
                300,
                &[],
            ),
            (
                r#"{"memoryMib":1024,"callSeconds":300}"#,
                none,
                256,
                300,
                &["sample asks for 1024 MiB of memory and gets 256"],
            ),
            ("{}", (Some(128), Some(5)), 128, 5, &[]),
            (
                r#"{"memoryMib":128,"callSeconds":120}"#,
                (Some(32), Some(10)),
                32,
                10,
                &[
                    "sample asks for 128 MiB of memory and gets 32",
                    "sample asks for 120 seconds for a call and gets 10",
                ],
            ),
            (
                r#"{"memoryMib":32,"callSeconds":10}"#,
                (Some(100_000), Some(4_000_000_000)),
                256,
                300,
                &[
                    "sample is granted 100000 MiB of memory and gets 256",
                    "sample is granted 4000000000 seconds for a call and gets 300",
                ],
            ),
        ] {
            let json = format!(
                r#"{{"contract":"0.1.0","name":"sample","version":"1","description":"","schemes":["sample"],
                    "limits":{wanted}}}"#
            );
            let manifest = Manifest::parse(json.as_bytes()).unwrap();
            let limits = LimitsGranted {
                memory_mib,
                call_seconds,
            };
            assert_eq!(limits.memory_bytes(&manifest), mib << 20, "{wanted}");
            assert_eq!(
                limits.call_limit(&manifest),
                Duration::from_secs(seconds),
                "{wanted}"
            );
            assert_eq!(limits.warnings("sample", &manifest), warnings, "{wanted}");
        }
    }
}
