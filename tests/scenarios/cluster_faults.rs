//! The faults of the API server that a script orders, for the controllers alone.

use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};

use crate::script::Line;

/// `cluster …`: see `README.md`.
pub(crate) fn apply(
    cluster: &Cluster,
    controllers: &'static str,
    line: &Line,
) -> Result<(), String> {
    let effect = match line.word(1)? {
        "forgets" => {
            cluster.expire_watches();
            return Ok(());
        }
        "loses" => FaultEffect::LostAfterCommit,
        "drops" => FaultEffect::LostBeforeCommit,
        code => FaultEffect::Refused {
            code: code
                .parse()
                .map_err(|_| format!("{code:?} is not a status"))?,
            retry_after: None,
        },
    };
    let verb = match line.word(2)? {
        "patch" => Verb::Patch,
        "get" => Verb::Get,
        "list" => Verb::List,
        "watch" => Verb::Watch,
        "create" => Verb::Create,
        "update" => Verb::Update,
        "delete" => Verb::Delete,
        other => return Err(format!("no verb is called {other:?}")),
    };
    let (resource, subresource) = line.word(3)?.split_once('/').unwrap_or((line.word(3)?, ""));
    let times = line
        .word(4)?
        .parse()
        .map_err(|_| "the last word is how often".to_owned())?;
    cluster.inject(
        Fault::next(verb, resource, effect)
            .on(subresource)
            .sent_by(controllers)
            .times(times),
    );
    Ok(())
}
