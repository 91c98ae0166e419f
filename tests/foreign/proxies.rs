//! The cloud behind proxies of others: tinyproxy, squid and proxy.py, each the only way out of a network namespace. The
//! kernel's own counters show the connections there.
//!
//! Needs `unshare` and `nsenter` (util-linux), `ip` (iproute2), tinyproxy, squid, Python, and the right to make
//! namespaces.

use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ccm_core::safety::permit::Permit;
use ccm_host::grant::{Credential, ProxyGrant, Secret};
use ccm_host::{Compiler, GuestConfig, Host, HostOptions, Isolation, Module, SandboxProgram};
use ccm_proxy::{NoProxy, Proxy};
use ccm_sim::hetzner::{Hetzner, Options, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::CCM;
use super::python::Client;

const TEST: &str = "proxies::the_cloud_is_reached_through_foreign_proxies_and_in_no_other_way";
/// Environment variable for the part of the test that this process plays.
const PART: &str = "CCM_PROXIES_PART";
const TOKEN: &str = "the-token-of-the-project";
/// The proxies' address, at the end of the only link.
const PROXIES: &str = "10.77.0.1";
const LOGIN: (&str, &str) = ("me", "s3cret9");

#[test]
fn the_cloud_is_reached_through_foreign_proxies_and_in_no_other_way() {
    match std::env::var(PART).as_deref() {
        Ok("outside") => return outside(),
        Ok("isolated") => return isolated(),
        _ => {}
    }
    let client = Client::install("proxies");
    let status = Command::new("unshare")
        .args(["--map-root-user", "--net", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture"])
        .env(PART, "outside")
        .env("CCM_PROXIES_CLIENT", client.packages())
        .status()
        .expect("unshare, of util-linux, makes the namespace");
    assert!(status.success(), "{status}; the output above says why");
}

/// A process that is killed when dropped, with all processes that it has started.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Some proxies have worker processes.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(
            command
                .stdin(Stdio::null())
                .process_group(0)
                .spawn()
                .unwrap(),
        )
    }
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-ec", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// The namespace of the proxies and of the cloud: names resolve, and the cloud listens on loopback.
fn outside() {
    let folder = TempDir::new().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost cloud.test\n").unwrap();
    shell(&format!(
        "mount --bind {} /etc/hosts && ip link set lo up",
        hosts.display()
    ));
    let client = Namespace::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let options = Options {
        tls: Some(certificate()),
        ..Options::new(TOKEN)
    };
    let cloud = runtime.block_on(Hetzner::start(options)).unwrap();
    let world = World {
        authority: write(&folder, "ca.pem", cloud.ca_pem().unwrap()),
        password: write(&folder, "password", LOGIN.1),
        port: cloud.address().port(),
        client,
        folder,
    };
    world.nothing_else_leads_there();
    // Its refusals: of a wrong login, or of a port by squid.
    for (name, start, refusal) in [
        (
            "tinyproxy",
            World::tinyproxy as fn(&World) -> (Running, u16),
            401,
        ),
        ("proxy.py", World::proxy_py, 407),
        ("squid", World::squid, 403),
    ] {
        let (running, port) = start(&world);
        world.reaches(name, port, refusal);
        drop(running);
    }
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A certificate for the name that only the proxies can resolve.
fn certificate() -> Tls {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["cloud.test".to_owned()]).unwrap();
    Tls {
        certificate_pem: leaf.signed_by(&key, &authority).unwrap().pem(),
        key_pem: key.serialize_pem(),
        ca_pem: authority.pem(),
    }
}

/// A network namespace with one link, at whose other end the proxies are, and no default route.
struct Namespace(Running);

impl Namespace {
    fn start() -> Namespace {
        let mut holder = Command::new("unshare");
        let holder = Running::start(holder.args(["--net", "sleep", "infinity"]));
        let namespace = Namespace(holder);
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        until("the namespace", || {
            std::fs::read_link(format!("/proc/{}/ns/net", namespace.id()))
                .is_ok_and(|other| other != own)
        });
        shell(&format!(
            "ip link add outer type veth peer name inner netns {}\n\
             ip addr add {PROXIES}/24 dev outer\n\
             ip link set outer up",
            namespace.id()
        ));
        let inner =
            "ip link set lo up && ip addr add 10.77.0.2/24 dev inner && ip link set inner up";
        let status = namespace.enter("sh").args(["-ec", inner]).status().unwrap();
        assert!(status.success());
        namespace
    }

    fn id(&self) -> u32 {
        self.0.0.id()
    }

    fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.id()));
        command.args(["--net", program]);
        command
    }

    /// The numbers of connections and of datagrams that were sent from it.
    fn dialled(&self) -> (u64, u64) {
        let text = std::fs::read_to_string(format!("/proc/{}/net/snmp", self.id())).unwrap();
        (
            counter(&text, "Tcp:", "ActiveOpens"),
            counter(&text, "Udp:", "OutDatagrams"),
        )
    }
}

fn counter(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let names = lines.next().unwrap().split_whitespace();
    let values = lines.next().unwrap().split_whitespace();
    let mut both = names.zip(values);
    both.find(|(known, _)| *known == name)
        .unwrap()
        .1
        .parse()
        .unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct World {
    folder: TempDir,
    authority: PathBuf,
    password: PathBuf,
    port: u16,
    client: Namespace,
}

impl World {
    /// Sends a request to the cloud with the shipped module, in the namespace. `proxy` is the entry's setting.
    fn check(&self, proxy: &str, environment: &[(&str, &str)]) -> Output {
        let text = format!(
            "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: hcloud\n{proxy}"
        );
        let config = write(&self.folder, "ccm.yaml", &text);
        self.client
            .enter(CCM)
            .args(["provider", "check", "--online", "--config"])
            .arg(config)
            .arg("embedded:hcloud")
            .env("HCLOUD_TOKEN", TOKEN)
            .env(
                "HCLOUD_ENDPOINT",
                format!("https://cloud.test:{}/v1", self.port),
            )
            .env("SSL_CERT_FILE", &self.authority)
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy")
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    fn nothing_else_leads_there(&self) {
        let before = self.client.dialled();
        let output = self.check("", &[("HTTPS_PROXY", "http://10.77.0.1:1")]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(self.client.dialled(), before, "nothing was dialled");
    }

    fn reaches(&self, name: &str, port: u16, refusal: u16) {
        let has_login = refusal != 403;
        let url = format!("http://{PROXIES}:{port}");
        let file = self.password.display();
        let login = |user: &str| match has_login {
            true => format!(", login: {{ user: {user}, password: {{ file: {file} }} }}"),
            false => String::new(),
        };
        let entry = format!("  proxy: {{ url: \"{url}\"{} }}\n", login(LOGIN.0));
        let in_url = match has_login {
            true => url.replace("//", "//me:s3cret9@"),
            false => url.clone(),
        };
        // Each form of the setting once: every call loads the module anew, which takes two seconds.
        self.counted(name, || match name {
            "proxy.py" => {
                let environment = [("HTTPS_PROXY", in_url.as_str())];
                self.check("  proxy: environment\n", &environment)
            }
            _ => self.check(&entry, &[]),
        });
        if name == "tinyproxy" {
            self.counted(name, || self.isolated(&in_url));
        }
        // A login that the proxy does not know, or a port that its rules forbid.
        let refused = match has_login {
            true => format!("  proxy: {{ url: \"{url}\"{} }}\n", login("you")),
            false => entry,
        };
        let elsewhere = [("HCLOUD_ENDPOINT", "https://cloud.test:1/v1")];
        let output = self.check(&refused, if has_login { &[] } else { &elsewhere });
        let reported = text(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {reported}");
        let expected = format!("the proxy {url} refuses CONNECT to cloud.test:");
        assert!(reported.contains(&expected), "{name}: {reported}");
        assert!(
            reported.contains(&format!("with status {refusal}: ")),
            "{name}: {reported}"
        );
        assert!(!reported.contains("s3cret9"), "{name}: {reported}");
    }

    /// Sends a request to the cloud with the module in a child process.
    fn isolated(&self, proxy: &str) -> Output {
        let program = std::env::current_exe().unwrap();
        self.client
            .enter(program.to_str().unwrap())
            .args([TEST, "--exact", "--nocapture"])
            .env(PART, "isolated")
            .env("CCM_PROXIES_URL", proxy)
            .env(
                "CCM_PROXIES_CLOUD",
                format!("https://cloud.test:{}/v1", self.port),
            )
            .env("CCM_PROXIES_AUTHORITY", &self.authority)
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed, and counts its connections: the only route leads to the proxies.
    fn counted(&self, name: &str, run: impl FnOnce() -> Output) {
        let (before, proxied) = (self.client.dialled(), accepted());
        let output = run();
        assert!(output.status.success(), "{name}: {}", text(&output));
        let after = self.client.dialled();
        let dialled = after.0 - before.0;
        assert!(dialled > 0, "{name}");
        // The proxies accept each connection, and the cloud as many tunnels.
        assert_eq!(accepted() - proxied, 2 * dialled, "{name}");
        assert_eq!(after.1 - before.1, 0, "{name}: datagrams");
    }

    fn tinyproxy(&self) -> (Running, u16) {
        let port = 8_881;
        let config = format!(
            "Port {port}\nListen {PROXIES}\nTimeout 30\nMaxClients 20\nLogLevel Critical\nConnectPort {}\nBasicAuth {} {}\n",
            self.port, LOGIN.0, LOGIN.1
        );
        let file = write(&self.folder, "tinyproxy.conf", &config);
        let mut command = Command::new("tinyproxy");
        self.listening(command.arg("-d").arg("-c").arg(file), port)
    }

    fn squid(&self) -> (Running, u16) {
        let port = 8_882;
        let folder = self.folder.path().display();
        let config = format!(
            "http_port {PROXIES}:{port}\nacl cloud port {}\nhttp_access allow cloud\nhttp_access deny all\n\
             cache deny all\ncache_mem 1 MB\nvisible_hostname proxy.test\npid_filename none\naccess_log none\n\
             cache_log {folder}/squid.log\ncoredump_dir {folder}\nshutdown_lifetime 0 seconds\npinger_enable off\n\
             dns_nameservers 127.0.0.1\nmax_filedescriptors 1024\n",
            self.port
        );
        let file = write(&self.folder, "squid.conf", &config);
        // Started as root, squid would change to a user that this namespace does not have.
        let mut command = Command::new("unshare");
        command.args(["--map-user=13", "--map-group=13", "squid", "-N", "-f"]);
        self.listening(command.arg(file), port)
    }

    fn proxy_py(&self) -> (Running, u16) {
        let port = 8_883;
        let mut command = Command::new("python3");
        command
            .args([
                "-B",
                "-m",
                "proxy",
                "--log-level",
                "ERROR",
                "--num-workers",
                "1",
            ])
            .args(["--num-acceptors", "1", "--hostname", PROXIES, "--port"])
            .arg(port.to_string())
            .arg("--basic-auth")
            .arg(format!("{}:{}", LOGIN.0, LOGIN.1))
            .arg("--data-dir")
            .arg(self.folder.path())
            .env(
                "PYTHONPATH",
                std::env::var_os("CCM_PROXIES_CLIENT").unwrap(),
            );
        self.listening(&mut command, port)
    }

    fn listening(&self, command: &mut Command, port: u16) -> (Running, u16) {
        // Users' search paths rarely have the folders of daemons.
        let path = std::env::var("PATH").unwrap_or_default();
        let running = Running::start(command.env("PATH", format!("{path}:/usr/sbin")));
        until("the proxy listens", || {
            TcpStream::connect((PROXIES, port)).is_ok()
        });
        (running, port)
    }
}

/// Number of connections that the proxies and the cloud have accepted together.
fn accepted() -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
    counter(&text, "Tcp:", "PassiveOpens")
}

fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// The shipped module in a process of its own, which has no network at all.
fn isolated() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let guests = embedded_guests::ALL;
    let guest = guests.iter().find(|guest| guest.name == "hcloud").unwrap();
    let inspection = ccm_host::inspect("hcloud", guest.wasm).unwrap();
    let mut grants = inspection.manifest.as_grants();
    let authority = std::fs::read_to_string(Path::new(&variable("CCM_PROXIES_AUTHORITY"))).unwrap();
    for target in &mut grants.targets {
        target.endpoint = variable("CCM_PROXIES_CLOUD").parse().unwrap();
        target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
        target.ca_pem = Some(authority.clone());
        target.proxy = Some(ProxyGrant {
            proxy: Proxy::parse(&variable("CCM_PROXIES_URL")).unwrap(),
            except: NoProxy::default(),
            addresses: Vec::new(),
            ca_pem: None,
        });
    }
    let program = |argument: &str| (PathBuf::from(CCM), vec![argument.into()]);
    let (compiler, sandbox) = (program("__compile"), program("__sandbox"));
    let options = HostOptions {
        compiler: Compiler {
            program: compiler.0,
            arguments: compiler.1,
        },
        cache_dir: None,
        isolation: Isolation::ChildProcess(SandboxProgram {
            program: sandbox.0,
            arguments: sandbox.1,
        }),
    };
    let module = Module {
        source: "hcloud".to_owned(),
        wasm: bytes::Bytes::from_static(guest.wasm),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let host = Host::new(options).unwrap();
        let provider = host
            .load(module, grants, GuestConfig::default())
            .await
            .unwrap();
        let until = ccm_host::egress::now().after(Duration::from_secs(60));
        let permit = std::sync::Arc::new(Permit::read_only(until));
        provider.self_check(permit).await.unwrap();
    });
}
