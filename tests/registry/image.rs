//! The image as it is published, around the binary under test: two builds are identical, a registry accepts it,
//! cosign's statements about it can be verified, and a node can run the unpacked files as the image's user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ccm_delivery::source::Source as _;
use ccm_tests::helm::Helm;
use ccm_tests::registry::{self, Registry};
use release_artifacts::{Architecture, Binary, Module, Release};
use serde_json::Value;
use tempfile::TempDir;

use crate::exchange::{settings, source};

/// cosign's flags without a transparency log and a signing service.
const OFFLINE: [&str; 4] = [
    "--key",
    "cosign.key",
    "--tlog-upload=false",
    "--use-signing-config=false",
];

pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(output: &Output) -> String {
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&text(output)).unwrap()
}

/// The binary under test without its debugging information, and the modules inside of it.
fn release(folder: &Path) -> Release {
    let binary = folder.join("ccm");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&binary).arg(env!("CARGO_BIN_EXE_ccm"));
    text(&strip.output().expect("strip, of binutils"));
    let modules = embedded_guests::ALL.iter().map(|guest| {
        let path = folder.join(format!("{}.wasm", guest.name));
        fs::write(&path, guest.wasm).unwrap();
        Module {
            name: guest.name.to_owned(),
            package: format!("guest-{}", guest.name),
            path,
        }
    });
    let architecture = match std::env::consts::ARCH {
        "aarch64" => Architecture::Arm64,
        _ => Architecture::Amd64,
    };
    Release {
        checkout: checkout(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        created: 1_700_000_000,
        compression: 0,
        binaries: vec![Binary {
            architecture,
            path: binary,
            modules: modules.collect(),
        }],
    }
}

/// The folder of programs that stand before the registry's tools, below the registry's folder.
const FIRST: &str = "first-in-path";

/// Has crane say what a registry would that has something else under every tag by now but under the image's.
fn moves_tags(registry: &Registry, reference: &str) {
    let folder = registry.folder().join(FIRST);
    fs::create_dir(&folder).unwrap();
    let crane = registry::tool("crane").unwrap();
    let (crane, other) = (crane.display(), "0".repeat(64));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n\"digest {reference}\" | *@sha256:*) ;;\ndigest*) echo sha256:{other}; exit ;;\nesac\nexec {crane} \"$@\"\n"
    );
    let file = folder.join("crane");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a script of `deploy/release` with the registry's tools, CA and login.
fn script(registry: &Registry, name: &str, arguments: &[&str]) -> Output {
    let tools = registry::tool("crane").unwrap();
    let helm = Helm::new().unwrap();
    let path = std::env::var("PATH").unwrap();
    let folders = [tools.parent(), helm.folder()].map(|folder| folder.unwrap().display());
    let [tools, helm] = folders;
    let first = registry.folder().join(FIRST);
    Command::new(checkout().join("deploy/release").join(name))
        .args(arguments)
        .current_dir(registry.folder())
        .env("PATH", format!("{}:{tools}:{helm}:{path}", first.display()))
        .env("DOCKER_CONFIG", registry.docker_config())
        .env("SSL_CERT_FILE", registry.ca_file())
        .env("HOME", registry.folder())
        .env("COSIGN_PASSWORD", "")
        .output()
        .unwrap()
}

#[tokio::test]
async fn an_image_is_made_twice_published_verified_and_run() {
    let folder = TempDir::new().unwrap();
    let release = release(folder.path());
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let digest = release_artifacts::package(&release, &first).unwrap();
    assert_eq!(
        release_artifacts::package(&release, &second).unwrap(),
        digest
    );
    for file in ["SHA256SUMS", "provenance.json", "image/index.json"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(read(&first), read(&second), "{file}");
    }
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"]);
    let sums = text(&sums.current_dir(&first).output().unwrap());
    assert!(
        sums.contains("tar.gz: OK") && sums.contains(".tgz: OK"),
        "{sums}"
    );
    stated(&first, &release);
    charted(&first, &release);

    let registry = Registry::start().await.unwrap();
    let reference = format!("{}/ccm/ccm:{}", registry.host(), release.version);
    let pinned = format!("{}/ccm/ccm@{digest}", registry.host());
    text(&registry.cosign(["generate-key-pair"]).unwrap());
    // No manifest would find it.
    let other = format!("{}/ccm/ccm:v{}", registry.host(), release.version);
    let refused = script(&registry, "publish", &[first.to_str().unwrap(), &other]);
    let reported = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && reported.contains("error: the tag is v"),
        "{reported}"
    );
    let mut arguments = vec![first.to_str().unwrap(), &reference];
    arguments.extend(OFFLINE);
    moves_tags(&registry, &reference);
    text(&script(&registry, "publish", &arguments));
    text(&registry.crane(["validate", "--remote", &pinned]).unwrap());
    by_itself(&registry, &release.version).await;
    chart_by_itself(&registry, &first, &release);

    let believed = ["--key", "cosign.pub", "--insecure-ignore-tlog=true"];
    let verified = script(
        &registry,
        "verify",
        &[&[pinned.as_str()][..], &believed].concat(),
    );
    assert_eq!(text(&verified).lines().count(), 2);
    let stranger = ["generate-key-pair", "--output-key-prefix", "stranger"];
    text(&registry.cosign(stranger).unwrap());
    let believed = ["--key", "stranger.pub", "--insecure-ignore-tlog=true"];
    let verified = script(
        &registry,
        "verify",
        &[&[pinned.as_str()][..], &believed].concat(),
    );
    assert!(!verified.status.success());

    let sums = first.join("SHA256SUMS");
    let bundle = first.join("SHA256SUMS.sigstore.json");
    let mut arguments = vec![
        "verify-blob",
        "--key",
        "cosign.pub",
        "--insecure-ignore-tlog=true",
    ];
    arguments.extend(["--bundle", bundle.to_str().unwrap(), sums.to_str().unwrap()]);
    text(&registry.cosign(arguments).unwrap());

    configured(&registry, &pinned, &release);
    let root = unpacked(&registry, &pinned, folder.path());
    runs(&root, &first, &release);
}

/// Whoever builds with the parameters of the provenance gets the same bytes.
fn stated(published: &Path, release: &Release) {
    let statement = fs::read(published.join("provenance.json")).unwrap();
    let statement: Value = serde_json::from_slice(&statement).unwrap();
    let embedded = embedded_guests::ALL.iter().map(|guest| guest.name);
    let expected = serde_json::json!({
        "version": release.version,
        "providers": embedded.collect::<Vec<_>>(),
        "targets": [release.binaries[0].architecture.target()],
    });
    let built = &statement["predicate"]["buildDefinition"];
    assert_eq!(built["externalParameters"], expected);
}

/// Helm renders the packaged chart like the checkout's folder, and kustomize's base is in an archive of its own.
fn charted(published: &Path, release: &Release) {
    let helm = Helm::new().unwrap();
    let packed = published.join(format!("ccm-{}.tgz", release.version));
    let folder = checkout().join("deploy/chart");
    let rendered = |chart: &Path| helm.template(chart, &[]).unwrap();
    assert_eq!(rendered(&packed), rendered(&folder));
    let name = format!("ccm-{}-kustomize", release.version);
    let mut list = Command::new("tar");
    list.arg("-tzf")
        .arg(published.join(format!("{name}.tar.gz")));
    let listed = text(&list.output().unwrap());
    let base = format!("{name}/base/kustomization.yaml");
    assert!(listed.lines().any(|line| line == base), "{listed}");
    let packed = Command::new("tar").arg("-tzf").arg(&packed).output();
    let listed = text(&packed.unwrap());
    assert!(!listed.contains("ccm/ci/"), "{listed}");
}

/// Each module is published beside the image, signed, in the form that `ccm` reads.
async fn by_itself(registry: &Registry, version: &str) {
    for guest in embedded_guests::ALL {
        let tag = format!("ccm/ccm-{}:{version}", guest.name);
        let mut source = source(settings(registry, &tag));
        let artifact = source.next().await.unwrap();
        assert_eq!(*artifact.wasm, *guest.wasm, "{tag}");
        let reference = format!("{}/{tag}", registry.host());
        let mut arguments = vec!["verify", "--output=text", "--key", "cosign.pub"];
        arguments.extend(["--insecure-ignore-tlog=true", &reference]);
        text(&registry.cosign(arguments).unwrap());
    }
}

/// The chart in the registry is the packaged one, and signed.
fn chart_by_itself(registry: &Registry, published: &Path, release: &Release) {
    let version = &release.version;
    let packed = format!("ccm-{version}.tgz");
    let reference = format!("{}/ccm/charts/ccm:{version}", registry.host());
    let manifest = json(&registry.crane(["manifest", &reference]).unwrap());
    let layer = &manifest["layers"][0];
    assert_eq!(
        layer["mediaType"],
        "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    );
    let mut sum = Command::new("sha256sum");
    let sum = text(&sum.arg(published.join(&packed)).output().unwrap());
    let sum = sum.split(' ').next().unwrap();
    assert_eq!(layer["digest"], format!("sha256:{sum}"));
    let mut arguments = vec!["verify", "--output=text", "--key", "cosign.pub"];
    arguments.extend(["--insecure-ignore-tlog=true", &reference]);
    text(&registry.cosign(arguments).unwrap());
}

/// crane reads the container's configuration in the registry.
fn configured(registry: &Registry, pinned: &str, release: &Release) {
    let architecture = release.binaries[0].architecture.name();
    let platform = format!("--platform=linux/{architecture}");
    let config = json(&registry.crane(["config", &platform, pinned]).unwrap());
    assert_eq!(config["architecture"], architecture);
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/ccm"]));
    let index = json(&registry.crane(["manifest", pinned]).unwrap());
    for (key, value) in [
        ("version", release.version.as_str()),
        ("revision", &release.revision),
        ("licenses", "Apache-2.0"),
    ] {
        let key = format!("org.opencontainers.image.{key}");
        assert_eq!(index["annotations"][&key], value);
        assert_eq!(config["config"]["Labels"][&key], value);
    }
}

/// The root file system of a container, made by crane and tar.
fn unpacked(registry: &Registry, pinned: &str, folder: &Path) -> PathBuf {
    let (tar, root) = (folder.join("root.tar"), folder.join("root"));
    let platform = format!("--platform=linux/{}", here());
    let export = ["export", &platform, pinned, tar.to_str().unwrap()];
    text(&registry.crane(export).unwrap());
    fs::create_dir(&root).unwrap();
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&tar).arg("-C").arg(&root);
    text(&unpack.output().unwrap());
    root
}

fn here() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    }
}

fn runs(root: &Path, published: &Path, release: &Release) {
    let certificates = fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert!(certificates.matches("BEGIN CERTIFICATE").count() > 100);
    // The binary under test is linked to libraries of this machine, which published ones are not.
    let libraries = Command::new("ldd").arg(root.join("ccm")).output().unwrap();
    let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
    for library in libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let copy = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(library, copy).unwrap();
    }

    let version = json(&contained(root, &["/ccm", "version", "-o", "json"]));
    assert_eq!(version["version"], release.version);
    let sbom = published.join(format!("sbom/ccm-linux-{}.cdx.json", here()));
    let sbom: Value = serde_json::from_slice(&fs::read(sbom).unwrap()).unwrap();
    let components = sbom["components"].as_array().unwrap();
    // The program's list of modules equals the published list.
    let modules = version["modules"].as_array().unwrap();
    let reported = modules
        .iter()
        .map(|one| (&one["name"], one["digest"].clone()));
    let listed = components
        .iter()
        .filter(|one| one["type"] == "application")
        .map(|one| {
            let digest = one["hashes"][0]["content"].as_str().unwrap();
            (&one["name"], Value::from(format!("sha256:{digest}")))
        });
    assert_eq!(
        reported.collect::<Vec<_>>(),
        listed.clone().collect::<Vec<_>>()
    );
    assert_eq!(listed.count(), embedded_guests::ALL.len());
    let modules = components.iter().filter(|one| one["type"] == "application");
    for module in modules {
        let inside = module["components"].as_array().unwrap();
        assert!(
            inside.iter().any(|one| one["name"] == "wit-bindgen"),
            "{module}"
        );
    }
    assert!(components.iter().any(|one| one["name"] == "wasmtime"));

    for path in [
        "/bin/aws-cloud-controller-manager",
        "/bin/cloud-controller-manager",
        "/bin/digitalocean-cloud-controller-manager",
        "/bin/hcloud-cloud-controller-manager",
        "/usr/local/bin/cloud-controller-manager",
    ] {
        let help = text(&contained(root, &[path, "--help"]));
        assert!(
            help.contains("cloud-controller-manager [flags]"),
            "{path}: {help}"
        );
    }
}

/// Runs a command with this root as the image's user.
fn contained(root: &Path, command: &[&str]) -> Output {
    Command::new("unshare")
        .args(["--user", "--map-user=65532", "--map-group=65532", "--root"])
        .arg(root)
        .args(command)
        .env_clear()
        .output()
        .expect("unshare, of util-linux")
}

#[test]
fn a_module_that_is_not_in_the_binary_is_not_listed() {
    let folder = TempDir::new().unwrap();
    let mut release = release(folder.path());
    fs::write(&release.binaries[0].modules[0].path, b"\0asm another").unwrap();
    let error = release_artifacts::sbom(&release, &release.binaries[0]).unwrap_err();
    assert!(
        error.to_string().contains("is not the module aws"),
        "{error}"
    );
    release.binaries.clear();
    assert!(release_artifacts::package(&release, &folder.path().join("nothing")).is_err());
}
