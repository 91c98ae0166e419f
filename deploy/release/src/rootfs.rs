//! The contents of an image: a layer that stays the same for months, and one with the program. No shell, no package
//! manager, no library.

use anyhow::Result;
use pem::{EncodeConfig, LineEnding, Pem};

use crate::archive::Archive;

/// The user and group, as in Kubernetes' manifests and other images without a distribution.
pub(crate) const USER: &str = "65532:65532";
/// Path of the program.
pub(crate) const PROGRAM: &str = "/ccm";
/// The paths of Go managers in their own images, so that a manifest that names one needs no other change than the
/// image.
const GO_PATHS: [&str; 5] = [
    "bin/aws-cloud-controller-manager",
    "bin/cloud-controller-manager",
    "bin/digitalocean-cloud-controller-manager",
    "bin/hcloud-cloud-controller-manager",
    "usr/local/bin/cloud-controller-manager",
];

const PASSWD: &str =
    "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";
const NSSWITCH: &str = "hosts: files dns\n";

/// The layer below the program. It changes only with the list of certificates, and has no release's time, so that a
/// node downloads it once for many versions.
pub(crate) fn base() -> Result<Vec<u8>> {
    let mut layer = Archive::new(0);
    for folder in [
        "bin",
        "etc",
        "etc/ssl",
        "etc/ssl/certs",
        "usr",
        "usr/local",
        "usr/local/bin",
        "var",
        "var/cache",
    ] {
        layer.folder(folder, 0o755)?;
    }
    layer.file("etc/group", 0o644, GROUP.as_bytes())?;
    layer.file("etc/nsswitch.conf", 0o644, NSSWITCH.as_bytes())?;
    layer.file("etc/passwd", 0o644, PASSWD.as_bytes())?;
    layer.file(
        "etc/ssl/certs/ca-certificates.crt",
        0o644,
        certificates().as_bytes(),
    )?;
    layer.folder("tmp", 0o1777)?;
    layer.finish()
}

/// The program, and the names under which it takes the place of Go managers.
pub(crate) fn program(binary: &[u8], license: &[u8], created: u64) -> Result<Vec<u8>> {
    let mut layer = Archive::new(created);
    layer.file("ccm", 0o755, binary)?;
    layer.file("LICENSE", 0o644, license)?;
    for path in GO_PATHS {
        layer.link(path, PROGRAM)?;
    }
    layer.finish()
}

/// Mozilla's list of certificate authorities.
fn certificates() -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .map(|certificate| {
            pem::encode_config(&Pem::new("CERTIFICATE", certificate.as_ref()), config)
        })
        .collect()
}
