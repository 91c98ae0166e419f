#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

const DIGITALOCEAN: &str = "/bin/digitalocean-cloud-controller-manager";

/// The flags of a command line that runs the controllers, or its error.
fn flags_of(words: &[&str]) -> Result<Box<RunFlags>, String> {
    match parse(words.iter().map(OsString::from), InvokedIn::Elsewhere) {
        Ok(Command::Run { flags, .. }) => Ok(flags),
        Ok(_) => Err("it runs no controllers".to_owned()),
        Err(Answer(error)) => Err(error.to_string()),
    }
}

#[test]
fn flags_that_a_vendors_manager_sets_by_itself_need_not_be_given_and_can_be() {
    let own = Some("digitalocean");
    for (words, provider, skips_lookup) in [
        (&[DIGITALOCEAN, "--leader-elect=false"][..], own, true),
        (
            &[DIGITALOCEAN, "--authentication-skip-lookup=false"],
            own,
            false,
        ),
        (&[DIGITALOCEAN, "--leader-elect=false", "--"], own, true),
        (&[DIGITALOCEAN, "--cloud_provider=x"], Some("x"), true),
        (&[DIGITALOCEAN, "--config=/ccm.yaml"], None, true),
        (
            &["/bin/hcloud-cloud-controller-manager", "--cloud-provider=x"],
            Some("x"),
            false,
        ),
        (&["ccm", "run", "--cloud-provider=x"], Some("x"), false),
    ] {
        let flags = flags_of(words).unwrap();
        assert_eq!(flags.cloud_provider.as_deref(), provider, "{words:?}");
        let serving = flags.serving.unwrap();
        assert_eq!(
            serving.authentication.skips_lookup, skips_lookup,
            "{words:?}"
        );
    }
    // The last flag lacks its value, and takes none that nobody wrote.
    let error = flags_of(&[DIGITALOCEAN, "--kubeconfig"]).err().unwrap();
    let expected = "a value is required for '--kubeconfig";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn flags_alone_start_the_controllers_in_a_pod_and_wherever_there_is_no_demo() {
    use InvokedIn::{Elsewhere, Pod};
    // In a pod, elsewhere with the demo, and elsewhere without it.
    for (words, expected) in [
        (&["ccm", "--leader-elect=false"][..], [true, false, true]),
        (&["ccm", "-v=4"], [true, false, true]),
        (&["ccm", "--version=raw"], [true, false, true]),
        (&["ccm", "--version"], [true, false, false]),
        (&["ccm", "-V"], [true, false, false]),
        (&["ccm", "--help"], [true, false, false]),
        (&["ccm", "-h"], [true, false, false]),
        (&["ccm", "run", "--leader-elect=false"], [false; 3]),
        (&["ccm", "status"], [false; 3]),
        (&["ccm"], [false; 3]),
    ] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let places = [(Pod, true), (Elsewhere, true), (Elsewhere, false)];
        let found = places.map(|(place, has_demo)| are_flags_of_run(&words, place, has_demo));
        assert_eq!(found, expected, "{words:?}");
    }
}

#[test]
fn each_command_has_an_arm_and_only_demo_starts_the_demo() {
    for declared in command().get_subcommands() {
        let name = declared.get_name();
        let required: &[&str] = match name {
            "run" => &["--cloud-provider=hcloud"],
            "provider" => &["status"],
            "config" => &["check", "ccm.yaml"],
            "migrate" => &["check", "--from=daemonset/kube-system/ccm"],
            "completion" => &["bash"],
            _ => &[],
        };
        let words = [&["ccm", name][..], required].concat();
        let parsed = parse(words.iter().map(OsString::from), InvokedIn::Elsewhere);
        assert!(parsed.is_ok(), "{words:?}");
        #[cfg(feature = "demo")]
        assert_eq!(
            matches!(parsed, Ok(Command::Demo { .. })),
            name == "demo",
            "{words:?}"
        );
    }
}

#[test]
fn an_empty_command_line_is_told_that_flags_alone_start_the_controllers() {
    for place in [InvokedIn::Pod, InvokedIn::Elsewhere] {
        let Answer(error) = no_command(place);
        let text = error.to_string();
        assert!(text.contains("alone or after `ccm run`"), "{text}");
        // In a pod, `ccm --help` is about these flags.
        assert!(text.contains("`ccm help` lists"), "{text}");
    }
}
