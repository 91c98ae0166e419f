#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ccm_core::safety::permit::Mode;
use clap::Subcommand as _;

use super::*;
use crate::flags::CloudProxy;

fn parse(words: &[&str]) -> Result<MigrateArguments, String> {
    let command = MigrateCommand::augment_subcommands(clap::Command::new("migrate"));
    let words = ["migrate", "check"].iter().chain(words);
    let matches = command
        .try_get_matches_from(words)
        .map_err(|error| error.to_string())?;
    let parsed = <MigrateCommand as clap::FromArgMatches>::from_arg_matches(&matches);
    let MigrateCommand::Check(check) = parsed.map_err(|error| error.to_string())?;
    Ok(*check)
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn what_stands_after_the_dashes_is_the_go_managers() {
    let check = parse(&[
        "--timeout=30s",
        "-o",
        "json",
        "--",
        "--cloud-provider=hcloud",
        "-v=2",
    ]);
    let check = check.unwrap();
    assert_eq!(check.timeout, Duration::from_secs(30));
    assert_eq!(check.arguments, words(&["--cloud-provider=hcloud", "-v=2"]));
    assert!(check.from.is_none());
    assert!(parse(&["--cloud-provider=hcloud"]).is_err());
    assert!(parse(&["--from=pod/kube-system/ccm"]).is_err());
    assert!(parse(&["--container=ccm"]).is_err());
}

#[test]
fn the_error_of_a_workloads_check_says_whose_variables_count() {
    let missing = || anyhow!("AWS_REGION is not set");
    assert_eq!(
        format!("{:#}", explained(missing(), false)),
        "AWS_REGION is not set"
    );
    let told = format!("{:#}", explained(missing(), true));
    assert!(told.starts_with("with --from, the workload's variables count"));
    assert!(told.ends_with(": AWS_REGION is not set"), "{told}");
}

#[test]
fn a_containers_command_becomes_flags_that_change_nothing() {
    let flags = flags_of(words(&[
        "/bin/hcloud-cloud-controller-manager",
        "--cloud_provider=hcloud",
        "--leader-elect=false",
        "--use-service-account-credentials",
        "--audit-log-path=/nowhere/audit.log",
        "--compiled-cache-dir=/nowhere",
    ]))
    .unwrap();
    assert_eq!(flags.cloud_provider.as_deref(), Some("hcloud"));
    assert_eq!(flags.safety.mode, Mode::Plan);
    assert_eq!(flags.safety.plan_for, None);
    assert_eq!(flags.safety.audit_log, AuditLog::Log);
    assert!(flags.serving.is_none() && flags.compiled_cache_dir.is_none());
    assert!(!flags.identity_per_controller);
    // The cloud is reached as the Go manager reaches it, and as this program does in its place.
    for (more, expected) in [
        ("-v=2", CloudProxy::Environment),
        ("--cloud-proxy=direct", CloudProxy::Direct),
    ] {
        let mut flags = flags_of(words(&["--cloud-provider=hcloud", more])).unwrap();
        cli::use_proxy_of_go(&mut flags);
        assert_eq!(flags.safety.cloud_proxy, Some(expected));
    }
    // DigitalOcean's manifest has no flag that names the provider.
    let flags = flags_of(words(&[
        "/bin/digitalocean-cloud-controller-manager",
        "--leader-elect=true",
    ]));
    let flags = flags.unwrap();
    assert_eq!(flags.cloud_provider.as_deref(), Some("digitalocean"));
    for mistaken in [
        &["--cloud-provider=hcloud", "word"][..],
        &["/bin/hcloud-cloud-controller-manager"],
        &["--no-such-flag"],
    ] {
        assert!(flags_of(words(mistaken)).is_err(), "{mistaken:?}");
    }
}
