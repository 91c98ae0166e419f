//! `ccm provider diff`: shows what a new version requests beyond the old one, like a plan.

use std::fmt::Write as _;

use ccm_delivery::difference::{Difference, Requests};
use ccm_host::Inspection;
use serde_json::{Value, json};

use super::arguments::{Diff, Form, RegistryArguments};
use super::module_reference::ModuleReference;
use super::terminal::Screen;
use super::{Verdict, is_refusal, output, refused};

/// Compares two modules.
pub(super) async fn diff(options: &Diff, screen: Screen) -> anyhow::Result<Verdict> {
    let mut found = Vec::new();
    for place in [&options.old, &options.new] {
        match read(place, &options.access, screen).await {
            Err(error) if is_refusal(&error) => {
                let form = options.printed.output;
                return Ok(refused(&place.to_string(), &error, form));
            }
            inspected => found.push(inspected?),
        }
    }
    let [old, new] = found.as_slice() else {
        anyhow::bail!("two modules are compared");
    };
    let difference = Difference::between(&Requests::of(old), &Requests::of(new));
    let text = match options.printed.output {
        Form::Json => output::json(&json!({
            "old": version(old),
            "new": version(new),
            "wider": difference.is_wider(),
            "lines": difference.lines(),
            "widerLines": difference.wider_lines(),
        })),
        Form::Text => describe(old, new, &difference),
    };
    Ok(Verdict {
        text,
        is_yes: !difference.is_wider(),
    })
}

async fn read(
    place: &ModuleReference,
    access: &RegistryArguments,
    screen: Screen,
) -> anyhow::Result<Inspection> {
    let artifact = place.bring(access, screen).await?;
    Ok(ccm_host::inspect(&place.to_string(), &artifact.wasm)?)
}

fn version(found: &Inspection) -> Value {
    json!({
        "name": found.manifest.name,
        "version": found.manifest.version,
        "digest": found.digest.to_string(),
        "size": found.size,
    })
}

fn describe(old: &Inspection, new: &Inspection, difference: &Difference) -> String {
    let mut text = String::new();
    let mut row = |name: &str, old: &str, new: &str| {
        // Writing to a String cannot fail.
        let _ = match old == new {
            true => writeln!(text, "{name:<8} {new}"),
            false => writeln!(text, "{name:<8} {old} -> {new}"),
        };
    };
    row("name", &old.manifest.name, &new.manifest.name);
    row("version", &old.manifest.version, &new.manifest.version);
    row("digest", &old.digest.to_string(), &new.digest.to_string());
    let bytes = |found: &Inspection| format!("{} bytes", found.size);
    row("size", &bytes(old), &bytes(new));
    for line in difference.lines() {
        let _ = writeln!(text, "{line}");
    }
    text.push_str(match (difference.is_wider(), difference.is_empty()) {
        (true, _) => "It asks for more rights: it waits for approval.\n",
        (false, true) => "It asks for the same.\n",
        (false, false) => "It asks for nothing more.\n",
    });
    text
}
