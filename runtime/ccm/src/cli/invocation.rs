//! The name that the program was called by, and where it runs. Both decide what a command line without a command means.

use std::ffi::OsStr;
use std::path::Path;

/// The program that the caller means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// `ccm`, with its commands.
    Ccm,
    /// A Go cloud-controller-manager, under this name: the flags of `ccm run` follow at once.
    CloudControllerManager(String),
}

impl Invocation {
    /// Reads the file name of `argv[0]`. The image of a Go manager has `/bin/cloud-controller-manager`, or
    /// `/bin/hcloud-cloud-controller-manager` and the like.
    pub(crate) fn of(program: Option<&OsStr>) -> Invocation {
        let name = program.and_then(|path| Path::new(path).file_name());
        let name = name.and_then(OsStr::to_str).unwrap_or_default();
        if name == GO_NAME || name.ends_with("-cloud-controller-manager") {
            Invocation::CloudControllerManager(name.to_owned())
        } else {
            Invocation::Ccm
        }
    }
}

/// The name of upstream's command, whatever its file is called.
pub(crate) const GO_NAME: &str = "cloud-controller-manager";

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvokedIn {
    /// In a pod. A demo has no viewer there, and a manifest that starts one is a mistake.
    Pod,
    /// Outside of a pod.
    Elsewhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_says_which_program_is_meant() {
        for path in [
            "cloud-controller-manager",
            "/bin/hcloud-cloud-controller-manager",
            "./aws-cloud-controller-manager",
        ] {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let expected = Invocation::CloudControllerManager(name);
            assert_eq!(Invocation::of(Some(OsStr::new(path))), expected, "{path}");
        }
        for path in [
            "ccm",
            "/cloud-controller-manager/ccm",
            "my_cloud-controller-manager",
            "cloud-controller-manager.sh",
            "",
            "/",
        ] {
            assert_eq!(
                Invocation::of(Some(OsStr::new(path))),
                Invocation::Ccm,
                "{path}"
            );
        }
        assert_eq!(Invocation::of(None), Invocation::Ccm);
    }
}
