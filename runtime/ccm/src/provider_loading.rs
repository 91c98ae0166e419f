//! Loads a configured provider: reads files and variables, selects the grants and passes both to the host. Shared by
//! `run` and `provider check`, so that `check` reports what `run` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use ccm_controllers::{Controllers, Reports, Settings, SharedPlan};
use ccm_core::safety::audit::NoAudit;
use ccm_core::safety::brake::Allowances;
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_core::settings::{
    IngressRules, LifecycleSettings, NodeSettings, RouteSettings, ServiceRules, ServiceSettings,
};
use ccm_host::{
    Compiler, Host, HostOptions, Interceptor, Isolation, LoadErrorKind, Loading, Module, Provider,
    SandboxProgram, limits,
};
use ipnet::IpNet;
use zeroize::Zeroizing;

use crate::cli::{COMPILE_CHILD, SANDBOX_CHILD};
use crate::config::{ConfigContext, LoadBalancerConfig, Mistakes};
use crate::flags::ProviderIsolation;
use crate::load_policy::ConfiguredLoadPolicy;

/// Size limit of configuration, certificates and tokens, in bytes.
const TEXT_CAP: u64 = 1 << 20;

/// Variables and files of this process, or of the workload that it examines instead.
pub(crate) const PROCESS: ConfigContext<'static> = ConfigContext {
    variable: &|name| {
        let value = match WORKLOAD.get() {
            Some(workload) => workload.variables.get(name).map(|value| value.to_string()),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    },
    file: &|path| {
        if let Some(text) = WORKLOAD.get().and_then(|it| it.files.get(path)) {
            return Ok(text.to_string());
        }
        text(read(path))
    },
    secret: &|_| Err("there is no cluster to read it from".to_owned()),
    absent: None,
};

/// Reads a file of [`PROCESS`] that a flag or an argument names.
///
/// # Errors
/// It cannot be read; the text names it.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    (PROCESS.file)(path)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("cannot read {}", path.display()))
}

/// Reads standard input as [`PROCESS`] reads a file: text of at most 1 MiB.
///
/// # Errors
/// It cannot be read, is larger, or is not UTF-8.
pub(crate) fn standard_input() -> anyhow::Result<String> {
    text(capped(std::io::stdin().lock()))
        .map_err(anyhow::Error::msg)
        .context("cannot read standard input")
}

/// Variables and mounted files of a container in the cluster.
#[derive(Default)]
pub(crate) struct WorkloadSurroundings {
    /// Variables by name. Those of this process do not count then.
    pub variables: BTreeMap<String, Zeroizing<String>>,
    /// Files by their path in the container. Others are read on this machine.
    pub files: BTreeMap<PathBuf, Zeroizing<String>>,
}

static WORKLOAD: OnceLock<WorkloadSurroundings> = OnceLock::new();

/// Makes [`PROCESS`] return these variables and files from now on.
pub(crate) fn set_workload(workload: WorkloadSurroundings) {
    // Only the first call counts; a process examines one workload.
    let _ = WORKLOAD.set(workload);
}

/// The names of all variables of [`PROCESS`].
pub(crate) fn variable_names() -> BTreeSet<String> {
    match WORKLOAD.get() {
        Some(workload) => workload.variables.keys().cloned().collect(),
        None => std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .collect(),
    }
}

/// A host whose child processes run this same binary.
pub(crate) fn host(
    cache_dir: Option<PathBuf>,
    isolation: ProviderIsolation,
) -> anyhow::Result<Host> {
    let program = own_program().context("cannot find this program's own file")?;
    let isolation = match isolation {
        ProviderIsolation::InProcess => Isolation::InProcess,
        ProviderIsolation::ChildProcess => Isolation::ChildProcess(SandboxProgram {
            program: program.clone(),
            arguments: vec![SANDBOX_CHILD.into()],
        }),
    };
    let compiler = Compiler {
        program,
        arguments: vec![COMPILE_CHILD.into()],
    };
    Ok(Host::new(HostOptions {
        compiler,
        cache_dir,
        isolation,
    })?)
}

/// The program that this process runs: also when its file was replaced or removed meanwhile, as by an upgrade of a package.
/// The link is followed in a new process before it becomes another program, so that it leads to this one.
fn own_program() -> std::io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    match link.exists() {
        true => Ok(link.to_owned()),
        false => std::env::current_exe(),
    }
}

/// Loads a module in the sandbox, as a configured provider.
///
/// # Errors
/// All mistakes in the configuration found by this program and by the module, or why the module cannot be used.
pub(crate) async fn load(
    host: &Host,
    policy: &ConfiguredLoadPolicy,
    module: Module,
    interceptor: Option<Arc<dyn Interceptor>>,
) -> anyhow::Result<Provider> {
    let inspection = ccm_host::inspect(&module.source, &module.wasm)?;
    let (loading, mut mistakes) = policy
        .read(&inspection)
        .map_err(|mistake| Mistakes(vec![mistake]))?;
    let loading = Loading {
        interceptor,
        ..loading
    };
    // After mistakes the module is loaded only to collect its own, so that all are reported together.
    match host.load_as(module, loading).await {
        Ok(provider) if mistakes.is_empty() => return Ok(provider),
        Err(error) if mistakes.is_empty() => return Err(error.into()),
        Err(error)
            if matches!(
                error.kind,
                LoadErrorKind::Config(_) | LoadErrorKind::Init(_)
            ) =>
        {
            mistakes.push(format!("{:#}", anyhow::Error::from(error)));
        }
        // Other errors may only follow from the mistakes.
        Ok(_) | Err(_) => {}
    }
    Err(Mistakes(mistakes).into())
}

/// Reads a regular file through one handle, so that the file cannot be exchanged meanwhile.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let irregular = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file");
    // open(2) on a FIFO would block until it has a writer, so the type is checked first; the check on the handle is
    // decisive.
    if !std::fs::metadata(path)?.is_file() {
        return Err(irregular());
    }
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(irregular());
    }
    capped(file)
}

/// Refuses more than [`TEXT_CAP`] bytes.
fn capped(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(TEXT_CAP + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_CAP {
        let text = format!("larger than {TEXT_CAP} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    }
    Ok(bytes)
}

fn text(bytes: std::io::Result<Vec<u8>>) -> Result<String, String> {
    let bytes = bytes.map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

/// Time to complete requests on the wire at shutdown; less than a pod's grace period of 30 s.
const DRAIN: Duration = Duration::from_secs(10);

/// Known addresses of the cluster itself.
#[derive(Clone, Default)]
pub(crate) struct ClusterAddresses {
    /// Addresses of the API server.
    pub api_server: Vec<IpAddr>,
    /// Ranges of Services and pods.
    pub ranges: Vec<IpNet>,
}

/// Rules for the Services of one provider; `is_alone`: it is the only provider.
pub(crate) fn service_rules(
    load_balancers: &LoadBalancerConfig,
    is_alone: bool,
    cluster: &ClusterAddresses,
    confirm_removal: Duration,
) -> ServiceRules {
    ServiceRules {
        classes: load_balancers.classes.clone(),
        is_default: load_balancers.is_default.unwrap_or(is_alone),
        adoption: load_balancers.adoption,
        ingress: IngressRules {
            refused: cluster.ranges.clone(),
            api_server: cluster.api_server.clone(),
            allowed: load_balancers.ingress_cidrs.clone(),
        },
        confirm_removal,
    }
}

/// Settings of the controllers without flags.
pub(crate) fn settings() -> Settings {
    Settings {
        controllers: Controllers::ALL,
        service: ServiceSettings::default(),
        route: RouteSettings::default(),
        ipam: None,
        lifecycle: LifecycleSettings::default(),
        allowances: Allowances::default(),
        budget_lease: None,
        pace: ccm_controllers::Pace::REAL,
        audit: Arc::new(NoAudit),
        plan: SharedPlan::default(),
        reports: Reports::default(),
        node: NodeSettings::default(),
        mode: Mode::Enforce,
        call_time: limits::CALL_WITH_WAIT,
        drain: DRAIN,
        tenure: Arc::new(Tenure::unlimited()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use ccm_core::settings::Adoption;

    use super::*;

    const SERVICES: &str = "10.96.0.0/12";
    const PODS: &str = "10.244.0.0/16";
    const PUBLIC: &str = "203.0.113.0/24";

    fn ranges(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn api_server() -> Vec<IpAddr> {
        vec!["198.51.100.1".parse().unwrap()]
    }

    /// A path would lead to the file that an upgrade has put in its place, or to none.
    #[test]
    fn children_run_the_running_program_and_not_what_has_its_path() {
        use std::os::unix::fs::MetadataExt as _;

        let program = own_program().unwrap();
        assert_eq!(program, Path::new("/proc/self/exe"));
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&program), inode(&std::env::current_exe().unwrap()));
    }

    #[test]
    fn each_setting_about_services_reaches_its_own_rule() {
        let load_balancers = LoadBalancerConfig {
            classes: ["example.com/lb".to_owned()].into(),
            is_default: None,
            ingress_cidrs: ranges(&[PUBLIC]),
            adoption: Adoption::Orphaned,
        };
        let cluster = ClusterAddresses {
            api_server: api_server(),
            ranges: ranges(&[SERVICES, PODS]),
        };
        let confirm_removal = Duration::from_secs(37);
        for is_alone in [true, false] {
            let rules = ServiceRules {
                classes: ["example.com/lb".to_owned()].into(),
                is_default: is_alone,
                adoption: Adoption::Orphaned,
                ingress: IngressRules {
                    refused: ranges(&[SERVICES, PODS]),
                    api_server: api_server(),
                    allowed: ranges(&[PUBLIC]),
                },
                confirm_removal,
            };
            let made = service_rules(&load_balancers, is_alone, &cluster, confirm_removal);
            assert_eq!(made, rules);
        }
    }
}
