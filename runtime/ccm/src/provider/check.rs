//! `ccm provider check`: loads a module as `ccm run` would, under the same limits, and reports the calls and their
//! answers.

use std::sync::Arc;

use anyhow::anyhow;
use ccm_core::cloud::load_balancer::{CloudService, Found};
use ccm_core::cloud::{CloudNode, Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::moment::Moment;
use ccm_core::safety::permit::Permit;
use ccm_host::Provider;
use serde_json::{Value, json};

use super::arguments::{Check, Form};
use super::configured_providers::Inputs;
use super::loadable::{ClusterProperties, Loadable};
use super::observed_calls::{ObservedCall, ObservedCalls};
use super::terminal::Screen;
use super::{Refusal, Verdict, inspect, output};

/// Name of the made-up object that is looked up where there is no self-check.
const PROBE_NAME: &str = "ccm-provider-check";

/// Loads a module; with `online`, also asks the cloud.
pub(super) async fn check(options: &Check, screen: Screen) -> anyhow::Result<Verdict> {
    let inputs = match options.online {
        true => Inputs::Used,
        false => Inputs::Elsewhere,
    };
    let (module, entry) = (&options.module, &options.entry);
    let loadable =
        Loadable::find(module, entry, ClusterProperties::default(), inputs, screen).await?;
    let observed = Arc::new(ObservedCalls::default());
    let bar = screen.busy("compiling and starting");
    let provider = loadable.load(Some(observed.clone())).await?;
    drop(bar);
    let asked = match options.online {
        true => {
            let _bar = screen.busy("asking the cloud");
            let before = observed.count();
            let question = ask(&provider, loadable.inspection.self_check).await?;
            let asked = (question, observed.since(before));
            is_plausible(&asked)?;
            Some(asked)
        }
        false => None,
    };
    Ok(accepted(
        &loadable,
        &provider,
        asked.as_ref(),
        options.printed.output,
    ))
}

/// The question that the module was asked, and its answer.
enum Question {
    /// The module's own check.
    SelfCheck,
    /// A look-up of an object that does not exist, with this answer.
    LookUp(&'static str, String),
    /// The module supports no question.
    Nothing,
}

/// Asks one question that changes nothing: the self-check, otherwise a look-up of an object that does not exist.
async fn ask(provider: &Provider, has_self_check: bool) -> Result<Question, Refusal> {
    let permit = || Arc::new(Permit::read_only(Moment(std::time::Duration::MAX)));
    let failed = |what: &str, error: ProviderError| Refusal::new(format!("{what} failed"), error);
    if has_self_check {
        let checked = provider.self_check(permit()).await;
        checked.map_err(|error| failed("the self-check", error))?;
        return Ok(Question::SelfCheck);
    }
    let capabilities = provider.capabilities();
    if capabilities.instances {
        let node = CloudNode::bare(PROBE_NAME, uuid::Uuid::new_v4().to_string());
        let reply = provider.find(&[node], permit()).await;
        let reply = reply.map_err(|error| failed("the look-up of a node", error))?;
        let answer = reply.lookups.first();
        if let Some(Lookup::Unknown(why)) = answer {
            let why = ProviderError::Unavailable(why.clone());
            return Err(failed("the look-up of a node", why));
        }
        let answer = answer.map(Lookup::to_string).unwrap_or_default();
        return Ok(Question::LookUp("a node that does not exist", answer));
    }
    if capabilities.load_balancer {
        let service = CloudService {
            namespace: "default".to_owned(),
            name: PROBE_NAME.to_owned(),
            uid: uuid::Uuid::new_v4().to_string(),
            ..CloudService::default()
        };
        let reply = provider.get_load_balancer(&service, permit()).await;
        let reply = reply.map_err(|error| failed("the look-up of a load balancer", error))?;
        let answer = match reply.found {
            Found::Present(status) => format!("present {status}"),
            Found::Absent => "absent".to_owned(),
        };
        let what = "the load balancer of a Service that does not exist";
        return Ok(Question::LookUp(what, answer));
    }
    if capabilities.routes {
        let reply = provider.list_routes(&[], permit()).await;
        let reply = reply.map_err(|error| failed("the list of routes", error))?;
        let answer = format!("{} route(s)", reply.routes.len());
        return Ok(Question::LookUp("the routes", answer));
    }
    Ok(Question::Nothing)
}

/// Verifies that the self-check did not succeed in spite of a refused credential: a target answered 401, and no request
/// with success. The other questions have answers that are printed.
fn is_plausible((question, calls): &Asked) -> Result<(), Refusal> {
    let requests: Vec<_> = calls.iter().flat_map(|call| &call.requests).collect();
    let is_accepted = |target: &str| {
        let mut answers = requests.iter().filter(|one| one.target == target);
        answers.any(|one| {
            one.status
                .is_some_and(|status| (200..300).contains(&status))
        })
    };
    let refused = requests
        .iter()
        .find(|one| one.status == Some(401) && !is_accepted(&one.target));
    match (question, refused) {
        (Question::SelfCheck, Some(refused)) => Err(Refusal::new(
            "the self-check succeeded although the cloud answered 401".to_owned(),
            anyhow!(
                "{} {} on target {}",
                refused.method,
                refused.path,
                refused.target
            ),
        )),
        _ => Ok(()),
    }
}

type Asked = (Question, Vec<ObservedCall>);

fn accepted(
    loadable: &Loadable,
    provider: &Provider,
    asked: Option<&Asked>,
    form: Form,
) -> Verdict {
    let (manifest, exported) = (
        provider.manifest(),
        inspect::capabilities(&loadable.inspection),
    );
    // By `init`.
    let enabled = inspect::interfaces(provider.capabilities(), false);
    Verdict::yes(match form {
        Form::Json => output::json(&json!({
            "file": loadable.place,
            "ok": true,
            "name": manifest.name,
            "version": manifest.version,
            "digest": provider.digest().to_string(),
            "exports": exported,
            "enabled": enabled,
            "trust": loadable.trust,
            "asked": asked.map(question_json),
            "warnings": provider.warnings(),
        })),
        Form::Text => {
            let mut text = format!(
                "{}: yes: {} {} loads, {}\n",
                loadable.place,
                manifest.name,
                manifest.version,
                provider.digest()
            );
            let mut row = |name: &str, value: &str| {
                text.push_str(&format!("  {name:<9} {value}\n"));
            };
            row("exports", &exported.join(", "));
            row("enables", &some(&enabled));
            row("trust", &loadable.trust);
            match asked {
                None => row("asked", "init alone, which sends nothing"),
                Some((question, calls)) => {
                    row("asked", &question_text(question));
                    for request in calls.iter().flat_map(|call| &call.requests) {
                        let line = format!(
                            "  {} {} on target {}: {}",
                            request.method, request.path, request.target, request.answer
                        );
                        row("", &line);
                    }
                    if calls.iter().all(|call| call.requests.is_empty()) {
                        row(
                            "",
                            "  no request was sent: this says nothing about the cloud",
                        );
                    }
                }
            }
            for warning in provider.warnings() {
                row("warning:", warning);
            }
            text
        }
    })
}

fn some(names: &[&str]) -> String {
    match names.is_empty() {
        true => "nothing, with this configuration".to_owned(),
        false => names.join(", "),
    }
}

fn question_text(question: &Question) -> String {
    match question {
        Question::SelfCheck => "init and the module's self-check, which succeeded".to_owned(),
        Question::LookUp(what, answer) => {
            format!("init, and {what}, because the module has no self-check: {answer}")
        }
        Question::Nothing => {
            "init only: the module has no self-check and no read-only call".to_owned()
        }
    }
}

fn question_json((question, calls): &Asked) -> Value {
    let (name, answer) = match question {
        Question::SelfCheck => ("self-check", None),
        Question::LookUp(what, answer) => (*what, Some(answer)),
        Question::Nothing => ("nothing", None),
    };
    json!({ "question": name, "answer": answer, "calls": calls })
}
