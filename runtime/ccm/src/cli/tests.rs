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
