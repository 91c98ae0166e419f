#![allow(clippy::unwrap_used, reason = "tests")]

use crate::flags::{RunFlags, run_command};

fn run(arguments: &[&str]) -> Result<RunFlags, String> {
    let words = ["run", "--cloud-provider=x"].iter().chain(arguments);
    let matches = run_command()
        .try_get_matches_from(words)
        .map_err(|error| error.to_string())?;
    RunFlags::from_matches(&matches).map_err(|error| error.to_string())
}

#[test]
fn a_gate_warns_when_it_asks_for_something_that_is_not_done() {
    let routes = "CloudControllerManagerWatchBasedRoutesReconciliation";
    for (gates, expected) in [
        (format!("{routes}=true"), vec![]),
        (
            format!("{routes}=false"),
            vec![format!(
                "--feature-gates={routes}=false has no effect: routes always follow the changes of nodes, besides \
                 --route-reconciliation-period"
            )],
        ),
        (
            "CloudControllerManagerWebhook=T, NativeHistograms=1,ContextualLogging=true".to_owned(),
            vec![
                "--feature-gates=CloudControllerManagerWebhook=true has no effect: webhooks are not served".to_owned(),
                "--feature-gates=NativeHistograms=true has no effect: histograms have fixed buckets".to_owned(),
            ],
        ),
        // A gate's own value takes precedence over that of its stage, in any order.
        (
            "CloudControllerManagerWebhook=false,NativeHistograms=false,AllAlpha=true,LoggingAlphaOptions=false"
                .to_owned(),
            vec![],
        ),
        (
            "AllBeta=false".to_owned(),
            vec![
                "--feature-gates=ContextualLogging=false has no effect: log lines always name their object".to_owned(),
            ],
        ),
        // They concern no manager, and upstream's does not use them either.
        ("WatchList=false,APIServerTracing=true,ComponentFlagz=false".to_owned(), vec![]),
        (String::new(), vec![]),
        (",".to_owned(), vec![]),
    ] {
        let flags = run(&[&format!("--feature-gates={gates}")]).unwrap();
        assert_eq!(flags.warnings, expected, "{gates}");
    }
}

#[test]
fn a_gate_that_nobody_knows_is_an_error_in_upstreams_words() {
    for (gates, expected) in [
        (
            "Nope=true",
            "invalid argument \"Nope=true\" for \"--feature-gates\" flag: unrecognized feature gate: Nope",
        ),
        (
            "AllAlpha",
            "invalid argument \"AllAlpha\" for \"--feature-gates\" flag: missing bool value for AllAlpha",
        ),
        (
            "AllAlpha=maybe",
            "invalid value of AllAlpha=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            "APIServerTracing=false",
            "cannot set feature gate APIServerTracing to false, feature is locked to true",
        ),
    ] {
        let text = run(&[&format!("--feature-gates={gates}")]).err().unwrap();
        assert!(text.contains(expected), "{gates}: {text}");
    }
    let text = run(&["--feature-gates=A=true", "--feature-gates=B=true"])
        .err()
        .unwrap();
    assert!(
        text.contains("gate: A") && text.contains("gate: B"),
        "{text}"
    );
}

#[test]
fn json_needs_its_gate_as_upstream() {
    for (gates, is_allowed) in [
        ("LoggingBetaOptions=true", true),
        ("LoggingBetaOptions=false", false),
        ("AllBeta=false", false),
        ("AllBeta=false,LoggingBetaOptions=true", true),
    ] {
        let gates = format!("--feature-gates={gates}");
        let reported = run(&[&gates, "--logging-format=json"]).err();
        assert_eq!(reported.is_none(), is_allowed, "{gates}: {reported:?}");
        if let Some(reported) = reported {
            let expected =
                "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature";
            assert!(reported.contains(expected), "{reported}");
        }
        assert!(run(&[&gates]).is_ok());
    }
}
