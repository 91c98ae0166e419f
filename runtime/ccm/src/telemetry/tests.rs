#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ccm_core::safety::permit::Mode;
use http_body_util::Full;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::startup::{announce, log_flags};
use super::*;
use crate::flags::{RunFlags, run_command};

/// A readable log. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn writer(&self) -> impl for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static {
        let lines = self.clone();
        move || lines.clone()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn flags(flags: &str) -> LogFlags {
    let words = format!("run --cloud-provider=x {flags}");
    let matches = run_command().get_matches_from(words.split_whitespace());
    let Ok(flags) = RunFlags::from_matches(&matches) else {
        unreachable!("{words}");
    };
    flags.logs
}

/// 17:49:22.000001 UTC on 22 November 2026.
fn then() -> Timestamp {
    Timestamp::from_microsecond(1_795_369_762_000_001).unwrap()
}

/// The log lines that `emit` writes, with the line numbers of this file as 0.
fn written(form: Form, arguments: &str, emit: impl FnOnce()) -> String {
    let lines = Lines::default();
    let format = fmt::layer().with_writer(lines.writer()).with_ansi(false);
    let format = format.fmt_fields(no_text());
    let layer = match form {
        Form::Klog => {
            let klog = klog::Klog {
                now: then,
                process: 4711,
            };
            format.event_format(klog).boxed()
        }
        Form::Json => {
            let json = json::Json {
                now: then,
                steps: verbosity::Steps::new(),
            };
            format.event_format(json).boxed()
        }
        Form::Person => unreachable!("its form is the library's"),
    };
    let log = tracing_subscriber::registry()
        .with(verbosity::Verbosity::new(&flags(arguments)))
        .with(fields::KeepSpanFields.and_then(layer));
    {
        let _guard = ccm_tests::log::listen(log);
        emit();
    }
    let mut text = String::new();
    for part in lines.text().split("tests.rs:") {
        if text.is_empty() {
            text.push_str(part);
        } else {
            text.push_str("tests.rs:0");
            text.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
        }
    }
    text
}

/// Every kind of value, and every level.
fn log_everything() {
    let error = std::io::Error::other("it is \"away\"");
    tracing::info!("Plain");
    tracing::info!(node = "worker-1", count = 3, ready = true, left = -1_i64, ratio = 0.5, milliseconds = 2443_u128, took = ?std::time::Duration::from_millis(1500), "Node initialised");
    tracing::warn!(target: "waiting", node = %"worker-2", "nothing is done: {}", "the taint stays");
    tracing::error!(provider = "hcloud", %error, "a call failed");
    tracing::debug!("not shown");
}

#[test]
fn klogs_lines_are_written_to_the_letter() {
    let parsed = written(Form::Klog, "", log_everything);
    // As klog v2.140's textlogger writes them, with this time and process ID.
    let expected = "\
I1122 17:49:22.000001    4711 tests.rs:0] \"Plain\"
I1122 17:49:22.000001    4711 tests.rs:0] \"Node initialised\" node=\"worker-1\" count=3 ready=true left=-1 ratio=0.5 milliseconds=2443 took=\"1.5s\"
W1122 17:49:22.000001    4711 tests.rs:0] \"nothing is done: the taint stays\" logger=\"waiting\" node=\"worker-2\"
E1122 17:49:22.000001    4711 tests.rs:0] \"a call failed\" err=\"it is \\\"away\\\"\" provider=\"hcloud\"
";
    assert_eq!(parsed, expected);
}

#[test]
fn component_bases_json_is_written_to_the_letter() {
    let parsed = written(Form::Json, "", log_everything);
    let expected = r#"{"ts":1795369762000.001,"caller":"telemetry/tests.rs:0","msg":"Plain","v":0}
{"ts":1795369762000.001,"caller":"telemetry/tests.rs:0","msg":"Node initialised","v":0,"node":"worker-1","count":3,"ready":true,"left":-1,"ratio":0.5,"milliseconds":2443,"took":"1.5s"}
{"ts":1795369762000.001,"logger":"waiting","caller":"telemetry/tests.rs:0","msg":"nothing is done: the taint stays","v":0,"severity":"warning","node":"worker-2"}
{"ts":1795369762000.001,"caller":"telemetry/tests.rs:0","msg":"a call failed","provider":"hcloud","err":"it is \"away\""}
"#;
    assert_eq!(parsed, expected);
}

#[test]
fn a_line_without_a_message_is_called_by_its_target() {
    let emit = || tracing::info!(target: "initialised", object = "node/worker-1", attempts = 1);
    let parsed = written(Form::Klog, "", emit);
    let expected = "] \"initialised\" logger=\"initialised\" object=\"node/worker-1\" attempts=1\n";
    assert!(parsed.ends_with(expected), "{parsed}");
}

#[test]
fn an_error_is_written_with_its_causes() {
    let error = anyhow::Error::new(std::io::Error::other("read-only")).context("cannot create /a");
    let emit = || {
        let error: &(dyn std::error::Error + 'static) = error.as_ref();
        tracing::warn!(error, "not cached");
    };
    let parsed = written(Form::Klog, "", emit);
    let expected = "] \"not cached\" err=\"cannot create /a: read-only\"\n";
    assert!(parsed.ends_with(expected), "{parsed}");
}

#[test]
fn fields_of_spans_are_appended_once() {
    let emit = || {
        let outer = tracing::info_span!(
            "outer",
            provider = "hcloud",
            node = "a",
            found = tracing::field::Empty
        );
        let _outer = outer.enter();
        outer.record("found", 2);
        let inner = tracing::info_span!("inner", provider = "hcloud", node = "b", call = "find");
        let _inner = inner.enter();
        tracing::info!(provider = "hcloud", call = "list", "asked");
    };
    let parsed = written(Form::Klog, "", emit);
    let expected = "\"asked\" provider=\"hcloud\" found=2 node=\"b\" call=\"list\"\n";
    assert!(parsed.ends_with(expected), "{parsed}");
    let parsed: Value = serde_json::from_str(&written(Form::Json, "", emit)).unwrap();
    for (key, expected) in [
        ("provider", json!("hcloud")),
        ("node", json!("b")),
        ("found", json!(2)),
    ] {
        assert_eq!(parsed[key], expected, "{parsed}");
    }
}

#[test]
fn what_others_chose_begins_no_line_and_commands_no_terminal() {
    const EVIL: &str = "a\nI1122 17:49:22.000001    4711 run.go:1] \"forged\"\r\u{1b}[31m\u{202e}\0\u{7f}\u{9b}2J\u{2028}\u{e0001}";
    let emit = || {
        tracing::warn!(target: "guest", text = EVIL, other = %EVIL, debug = ?EVIL, "a module says {EVIL}");
    };
    for form in [Form::Klog, Form::Json] {
        let parsed = written(form, "", emit);
        assert_eq!(parsed.matches('\n').count(), 1, "{parsed:?}");
        assert!(parsed.ends_with('\n'), "{parsed:?}");
        let line = parsed.trim_end_matches('\n');
        assert!(
            !line.chars().any(|one| one.is_ascii_control()),
            "{parsed:?}"
        );
        let is_shown = |one: char| !one.is_control() && !"\u{202e}\u{2028}\u{e0001}".contains(one);
        assert!(line.chars().all(is_shown), "{parsed:?}");
    }
    let parsed: Value = serde_json::from_str(&written(Form::Json, "", emit)).unwrap();
    assert_eq!(parsed["text"], EVIL);
}

#[test]
fn names_that_a_json_line_has_already_are_kept_apart() {
    let emit = || tracing::info!(v = 7, msg = "mine", caller = true, "theirs");
    let parsed: Value = serde_json::from_str(&written(Form::Json, "", emit)).unwrap();
    assert_eq!(parsed["msg"], "theirs");
    assert_eq!((&parsed["v"], &parsed["v_"]), (&json!(0), &json!(7)));
    assert_eq!(
        (&parsed["msg_"], &parsed["caller_"]),
        (&json!("mine"), &json!(true))
    );
}

#[test]
fn v_is_the_verbosity_from_which_a_line_is_shown() {
    let emit = || {
        tracing::info!(target: "decision", "0");
        tracing::debug!(target: "decision", "2");
        tracing::info!(target: "egress", "2");
        tracing::debug!(target: "egress", "4");
        tracing::debug!(target: "ccm_serving", "2");
        tracing::debug!(target: "ccm_serving::access_control", "4");
        tracing::info!(target: "library", "4");
        tracing::trace!(target: "library", "6");
    };
    let parsed = written(Form::Json, "-v 10", emit);
    let lines: Vec<Value> = parsed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 8, "{parsed}");
    for line in lines {
        assert_eq!(line["msg"], line["v"].to_string(), "{line}");
    }
}

#[test]
fn vmodule_raises_the_verbosity_of_files() {
    let emit = || {
        tracing::debug!(target: "decision", "decided");
        tracing::debug!(target: "egress", "asked");
        tracing::trace!(target: "library", "counted");
    };
    for form in ["text", "json"] {
        for (modules, expected) in [
            ("", &[][..]),
            ("other=9,test=9", &[]),
            ("tests=2", &["decided"]),
            ("te?t*=4", &["decided", "asked"]),
            ("[r-t]ests=6", &["decided", "asked", "counted"]),
            // The first pattern that matches counts.
            ("tests=2,*=9", &["decided"]),
            ("*=9,tests=2", &["decided", "asked", "counted"]),
            ("tests=0", &[]),
        ] {
            let arguments = format!("--logging-format={form} --vmodule={modules}");
            let parsed = written(Form::Klog, &arguments, emit);
            let shown: Vec<_> = parsed.split('"').skip(1).step_by(4).collect();
            assert_eq!(shown, expected, "{arguments}: {parsed}");
        }
    }
    // `--vmodule` never hides a line that -v shows.
    let parsed = written(Form::Klog, "-v 2 --vmodule=tests=0", emit);
    assert!(parsed.contains("decided"), "{parsed}");
}

#[test]
fn the_form_is_the_flags_or_the_one_that_the_reader_can_use() {
    let go = Invocation::CloudControllerManager("hcloud-cloud-controller-manager".to_owned());
    for (format, called, is_terminal, expected) in [
        (None, &Invocation::Ccm, true, Form::Person),
        (None, &Invocation::Ccm, false, Form::Klog),
        (None, &go, true, Form::Klog),
        (None, &go, false, Form::Klog),
        (Some(LogFormat::Text), &Invocation::Ccm, true, Form::Klog),
        (Some(LogFormat::Json), &Invocation::Ccm, true, Form::Json),
        (Some(LogFormat::Json), &go, false, Form::Json),
    ] {
        let chosen = Form::chosen(format, called, is_terminal);
        assert_eq!(chosen, expected, "{format:?} {called:?} {is_terminal}");
    }
}

#[test]
fn the_first_line_says_what_runs() {
    let server = "https://me:secret@10.0.0.1:6443/x".parse().unwrap();
    let emit = || {
        announce(
            Mode::Plan,
            &server,
            &["https://[::]:10258".to_owned()],
            &["hcloud".to_owned(), "other".to_owned()],
        )
    };
    let parsed: Value = serde_json::from_str(&written(Form::Json, "", emit)).unwrap();
    assert_eq!(parsed["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(parsed["mode"], "plan");
    assert_eq!(parsed["api_server"], "https://10.0.0.1:6443");
    assert_eq!(parsed["endpoints"], "https://[::]:10258");
    assert_eq!(parsed["providers"], "hcloud,other");
}

#[test]
fn proc_002_flags_are_logged_in_upstreams_words() {
    let values = [
        ("cloud-provider", "hcloud".to_owned()),
        ("cloud-config", String::new()),
    ];
    let parsed = written(Form::Klog, "", || log_flags(&values));
    let messages: Vec<_> = parsed
        .lines()
        .map(|line| line.split_once("] ").unwrap().1)
        .collect();
    assert_eq!(
        messages,
        [
            r#""FLAG: --cloud-provider=\"hcloud\"""#,
            r#""FLAG: --cloud-config=\"\"""#
        ]
    );
}

#[test]
fn the_verbosity_can_be_set_while_the_log_is_written_and_vmodule_stays() {
    let lines = Lines::default();
    let (filter, handle) =
        reload::Layer::new(verbosity::Verbosity::new(&flags("--vmodule=nothing=6")));
    let log = tracing_subscriber::registry()
        .with(filter)
        .with(layer(Form::Klog, lines.writer()));
    let _guard = ccm_tests::log::listen(log);
    let emit = |when: &str| tracing::debug!(target: "decision", "said {when}");
    emit("before");
    handle.modify(|filter| filter.set(2)).unwrap();
    emit("meanwhile");
    handle.modify(|filter| filter.set(0)).unwrap();
    emit("afterwards");
    let log = lines.text();
    let parsed: Vec<_> = log
        .lines()
        .filter_map(|line| line.split_once("said "))
        .collect();
    assert_eq!(parsed.len(), 1, "{log}");
    assert!(parsed[0].1.starts_with("meanwhile"), "{log}");
}

/// An API server that answers every request with this text.
fn answering(text: &'static str) -> Client {
    let answer = move |_: http::Request<kube::client::Body>| async move {
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(text))))
    };
    Client::new(tower::service_fn(answer), "default")
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_not_logged_at_any_verbosity() {
    let verbosities = ["-v 0", "-v 2", "-v 4", "-v 6", "--vmodule=*=9"];
    let forms = [Form::Klog, Form::Json, Form::Person];
    for (arguments, form) in verbosities.iter().zip(forms.iter().cycle()) {
        let lines = Lines::default();
        let log = tracing_subscriber::registry()
            .with(verbosity::Verbosity::new(&flags(arguments)))
            .with(layer(*form, lines.writer()));
        let _guard = ccm_tests::log::listen(log);
        assert_keeps_secrets(&lines).await;
    }
    for form in forms {
        let lines = Lines::default();
        let _guard = ccm_tests::log::listen(quiet(form, lines.writer()));
        assert_keeps_secrets(&lines).await;
    }
}

/// Reads Secrets that cannot be read.
async fn assert_keeps_secrets(lines: &Lines) {
    tracing::warn!("this is seen");
    for text in [
        r#"{"kind":"SecretList","apiVersion":"v1","items":[{"data":{"token":"Y2FuYXJ5"}}"#,
        r#"{"kind":"Secret","apiVersion":"v1","metadata":{},"data":{"token":"Y2FuYXJ5"},"type":1}"#,
    ] {
        let api: Api<Secret> = Api::namespaced(answering(text), "kube-system");
        assert!(api.list(&ListParams::default()).await.is_err());
        assert!(api.get("hcloud").await.is_err());
        assert!(api.delete("hcloud", &Default::default()).await.is_err());
    }
    let log = lines.text();
    assert!(log.contains("this is seen"), "{log}");
    assert!(!log.contains("Y2FuYXJ5"), "{log}");
}
