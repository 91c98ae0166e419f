//! Which program this is: `kubernetes_build_info`, with the labels of component-base, and `ccm_build_info`.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The build of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Version without `v`, such as `0.1.0`.
    pub version: &'static str,
    /// The commit; empty if it is not known.
    pub commit: &'static str,
}

/// Registers both metrics, each with one series.
///
/// `kubernetes_build_info` describes this program, as a cloud's own Go manager that is stamped with its version does.
/// The fields of Go's tools (`go_version`, `git_tree_state`) are empty.
pub fn register(registry: &mut Registry, build: Build) {
    let version = format!("v{}", build.version);
    let mut numbers = build.version.split('.');
    let mut number = || numbers.next().unwrap_or_default().to_owned();
    let labels = [
        ("major", number()),
        ("minor", number()),
        ("git_version", version.clone()),
        ("git_commit", build.commit.to_owned()),
        ("git_tree_state", String::new()),
        ("build_date", String::new()),
        ("go_version", String::new()),
        ("compiler", "rustc".to_owned()),
        ("platform", platform()),
    ];
    let kubernetes = Family::<[(&str, String); 9], Gauge>::default();
    kubernetes.get_or_create(&labels).set(1);
    registry.register(
        "kubernetes_build_info",
        "[BETA] The version of this program; always 1. Labels that only Go's tools can fill are empty",
        kubernetes,
    );
    let labels = [
        ("version", version),
        ("commit", build.commit.to_owned()),
        ("platform", platform()),
    ];
    let own = Family::<[(&str, String); 3], Gauge>::default();
    own.get_or_create(&labels).set(1);
    registry.register(
        "ccm_build_info",
        "The version of this program; always 1. The commit is empty unless CCM_GIT_COMMIT was set for the build",
        own,
    );
}

/// Operating system and processor, in Go's words.
fn platform() -> String {
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{processor}", std::env::consts::OS)
}
