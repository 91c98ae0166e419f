//! Flags of the secure port: its address, how users are authenticated, and which paths they may read
//! (PROC-075).

use std::net::IpAddr;
use std::path::PathBuf;

use ccm_core::go_text::Quoted;
use ccm_serving::{
    Authentication, Authorization, HeaderNames, RequestHeader, SecureServing, SniCertificate,
    TlsSettings,
};
use clap::ArgMatches;

use super::election::duration;
use super::{list, path, text};

/// The flags of the secure port. Not read with `--secure-port=0`.
pub(crate) struct ServingFlags {
    /// Address, certificates and TLS.
    pub secure: SecureServing,
    /// `--authentication-kubeconfig`.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// How users are determined, but for the cluster of the kubeconfig above.
    pub authentication: Authentication,
    /// `--authorization-kubeconfig`.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// What users may read, but for the cluster of the kubeconfig above.
    pub authorization: Authorization,
    /// `--profiling`, which serves `/debug/flags/v`.
    pub profiles: bool,
}

impl ServingFlags {
    /// Reads the flags; adds errors to `mistakes`, and flags without effect to `warnings`.
    pub(super) fn read(
        matches: &ArgMatches,
        mistakes: &mut Vec<String>,
        warnings: &mut Vec<String>,
    ) -> Option<ServingFlags> {
        let is_set = |name| matches.get_one(name) == Some(&true);
        let port = matches.get_one::<u32>("secure-port").copied();
        let port = u16::try_from(port.unwrap_or_default()).unwrap_or_else(|_| {
            mistakes.push(
                "--secure-port must be between 0 and 65535, inclusive; 0 turns the port off"
                    .to_owned(),
            );
            0
        });
        // As pflag has it: blank is the default.
        let named = text(matches, "bind-address").unwrap_or_default();
        let every = IpAddr::from([0, 0, 0, 0]);
        let bind_address = match named.trim() {
            "" => every,
            address => address.parse().unwrap_or_else(|_| {
                mistakes.push(format!("--bind-address {address:?} is not an IP address"));
                every
            }),
        };
        let pair = (
            path(matches, "tls-cert-file"),
            path(matches, "tls-private-key-file"),
        );
        let certificate = match pair {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                mistakes.push(
                    "--tls-cert-file and --tls-private-key-file are given together".to_owned(),
                );
                None
            }
        };
        let streams = matches.get_one::<u32>("http2-max-streams-per-connection");
        let secure = SecureServing {
            bind_address,
            port,
            http2_streams: (!is_set("disable-http2-serving"))
                .then(|| streams.copied().unwrap_or_default()),
            share_port: is_set("permit-port-sharing"),
            certificate_folder: path(matches, "cert-dir"),
            certificate,
            sni: list(matches, "tls-sni-cert-key")
                .iter()
                .filter_map(|value| sni(value, mistakes))
                .collect(),
            tls: tls(matches, mistakes, warnings),
        };
        let header = |name| list(matches, name);
        let request_header =
            path(matches, "requestheader-client-ca-file").map(|ca| RequestHeader {
                ca,
                headers: HeaderNames {
                    allowed_names: header("requestheader-allowed-names"),
                    user: header("requestheader-username-headers"),
                    uid: header("requestheader-uid-headers"),
                    group: header("requestheader-group-headers"),
                    extra: header("requestheader-extra-headers-prefix"),
                },
            });
        let flags = ServingFlags {
            secure,
            authentication_kubeconfig: path(matches, "authentication-kubeconfig"),
            authentication: Authentication {
                cluster: None,
                cache: duration(matches, "authentication-token-webhook-cache-ttl"),
                client_ca: path(matches, "client-ca-file"),
                request_header,
                skips_lookup: is_set("authentication-skip-lookup"),
                tolerates_failed_lookup: is_set("authentication-tolerate-lookup-failure"),
            },
            authorization_kubeconfig: path(matches, "authorization-kubeconfig"),
            authorization: Authorization {
                cluster: None,
                cache_allowed: duration(matches, "authorization-webhook-cache-authorized-ttl"),
                cache_denied: duration(matches, "authorization-webhook-cache-unauthorized-ttl"),
                always_allowed: open_paths(matches, mistakes),
            },
            profiles: is_set("profiling"),
        };
        (port != 0).then_some(flags)
    }
}

fn tls(
    matches: &ArgMatches,
    mistakes: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> TlsSettings {
    let mut tls = TlsSettings::default();
    match ccm_serving::min_version(&text(matches, "tls-min-version").unwrap_or_default()) {
        Ok(only_tls13) => tls.only_tls13 = only_tls13,
        Err(mistake) => mistakes.push(format!("--tls-min-version: {mistake}")),
    }
    let mut left_out = |flag: &str, names: Vec<String>| {
        if !names.is_empty() {
            warnings.push(format!("--{flag}: not offered: {}", names.join(", ")));
        }
    };
    match ccm_serving::cipher_suites(&list(matches, "tls-cipher-suites")) {
        Ok((suites, weak)) => {
            tls.suites = suites;
            left_out("tls-cipher-suites", weak);
        }
        Err(mistake) => mistakes.push(format!("--tls-cipher-suites: {mistake}")),
    }
    match ccm_serving::curves(&list(matches, "tls-curve-preferences")) {
        Ok((groups, unknown)) => {
            tls.groups = groups;
            left_out("tls-curve-preferences", unknown);
        }
        Err(mistake) => mistakes.push(format!("--tls-curve-preferences: {mistake}")),
    }
    tls
}

/// Reads the paths that all clients may read. The error is upstream's.
fn open_paths(matches: &ArgMatches, mistakes: &mut Vec<String>) -> Vec<String> {
    const FLAG: &str = "authorization-always-allow-paths";
    let paths = list(matches, FLAG);
    let has_more = |path: &&String| path.strip_suffix('*').unwrap_or(path).contains('*');
    for path in paths.iter().filter(has_more) {
        mistakes.push(format!(
            "--{FLAG}: only trailing * allowed in {}",
            Quoted(path)
        ));
    }
    paths
}

/// Reads `CERT,KEY` or `CERT,KEY:NAME,NAME`.
fn sni(value: &str, mistakes: &mut Vec<String>) -> Option<SniCertificate> {
    let (files, names) = value.split_once(':').unwrap_or((value, ""));
    let parts: Vec<&str> = files.split(',').map(str::trim).collect();
    let [certificate, key] = parts[..] else {
        mistakes.push(format!(
            "--tls-sni-cert-key {value:?}: expected CERT,KEY or CERT,KEY:NAME,NAME"
        ));
        return None;
    };
    let names = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    Some(SniCertificate {
        certificate: certificate.into(),
        key: key.into(),
        names: names.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::tests::run;
    use super::*;

    fn serving(flags: &str) -> ServingFlags {
        run(&format!("--cloud-provider=x {flags}"))
            .unwrap()
            .serving
            .unwrap()
    }

    #[test]
    fn proc_070_the_port_is_upstream_s_and_zero_is_none() {
        let flags = serving("");
        assert_eq!(flags.secure.port, 10258);
        assert_eq!(flags.secure.bind_address, IpAddr::from([0, 0, 0, 0]));
        assert_eq!(
            serving("--bind-address=").secure.bind_address,
            IpAddr::from([0, 0, 0, 0])
        );
        assert_eq!(flags.secure.http2_streams, Some(0));
        assert_eq!(
            flags.authorization.always_allowed,
            ["/healthz", "/readyz", "/livez"]
        );
        assert!(
            run("--cloud-provider=x --secure-port=0")
                .unwrap()
                .serving
                .is_none()
        );
    }

    #[test]
    fn each_flag_about_users_sets_its_own_part() {
        let flags = serving(
            "--authentication-kubeconfig=/reviews --authorization-kubeconfig=/access --client-ca-file=/clients.crt \
             --requestheader-client-ca-file=/proxies.crt --requestheader-allowed-names=a,b \
             --requestheader-username-headers=x-user --requestheader-uid-headers=x-uid \
             --requestheader-group-headers=x-group --requestheader-extra-headers-prefix=x-extra- \
             --authentication-token-webhook-cache-ttl=1s --authorization-webhook-cache-authorized-ttl=2s \
             --authorization-webhook-cache-unauthorized-ttl=3s",
        );
        let list = |names: &[&str]| -> Vec<String> {
            let names = names.iter();
            names.map(|&name| name.to_owned()).collect()
        };
        let request_header = RequestHeader {
            ca: "/proxies.crt".into(),
            headers: HeaderNames {
                allowed_names: list(&["a", "b"]),
                user: list(&["x-user"]),
                uid: list(&["x-uid"]),
                group: list(&["x-group"]),
                extra: list(&["x-extra-"]),
            },
        };
        let (users, access) = (flags.authentication, flags.authorization);
        assert_eq!(users.request_header, Some(request_header));
        assert_eq!(users.client_ca, Some(PathBuf::from("/clients.crt")));
        let times = [users.cache, access.cache_allowed, access.cache_denied];
        assert_eq!(times.map(|time| time.as_secs()), [1, 2, 3]);
        let files = [
            flags.authentication_kubeconfig,
            flags.authorization_kubeconfig,
        ];
        let expected = ["/reviews", "/access"].map(|file| Some(PathBuf::from(file)));
        assert_eq!(files, expected);
        for (flag, expected) in [
            ("", (false, false)),
            ("--authentication-skip-lookup", (true, false)),
            ("--authentication-tolerate-lookup-failure", (false, true)),
        ] {
            let users = serving(flag).authentication;
            let found = (users.skips_lookup, users.tolerates_failed_lookup);
            assert_eq!(found, expected, "{flag}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused_before_anything_starts() {
        for (flag, expected) in [
            (
                "--secure-port=70000",
                "--secure-port must be between 0 and 65535",
            ),
            (
                "--bind-address=here",
                "--bind-address \"here\" is not an IP address",
            ),
            ("--tls-cert-file=/a", "are given together"),
            ("--tls-cipher-suites=TLS_NULL", "TLS_NULL not supported"),
            ("--tls-min-version=1.3", "unknown tls version"),
            ("--tls-sni-cert-key=/a", "expected CERT,KEY"),
            (
                "--authorization-always-allow-paths=/healthz,/a*/b",
                "only trailing * allowed in \"/a*/b\"",
            ),
        ] {
            let text = run(&format!("--cloud-provider=x {flag}")).err().unwrap();
            assert!(text.contains(expected), "{flag}: {text}");
        }
    }

    #[test]
    fn test_add_flags_clears_the_open_paths_and_keeps_commas_of_a_pair() {
        let flags = serving(
            "--authorization-always-allow-paths= --tls-sni-cert-key=/a.crt,/a.key:a.example.com,*.b.example.com \
             --tls-sni-cert-key=/c.crt,/c.key",
        );
        assert!(flags.authorization.always_allowed.is_empty());
        let names: Vec<_> = flags
            .secure
            .sni
            .iter()
            .map(|one| one.names.join("|"))
            .collect();
        assert_eq!(names, ["a.example.com|*.b.example.com", ""]);
    }

    #[test]
    fn a_weak_cipher_suite_is_a_warning_beside_a_strong_one() {
        let flags = run(
            "--cloud-provider=x --tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        );
        let warnings = flags.unwrap().warnings;
        assert_eq!(
            warnings,
            ["--tls-cipher-suites: not offered: TLS_RSA_WITH_AES_128_CBC_SHA"]
        );
    }
}
