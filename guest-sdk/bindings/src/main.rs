//! Writes `guest-sdk/src/bindings/*.rs`, one file for each world of the SDK, and the bindings of the tests' provider of
//! contract 0.1; or with `--check` names the files that differ from what the contract in `wit` generates.
//!
//! One world per exported interface, so that a provider can export any subset: every world brings its own export macro
//! and its own description of the component's type, and the linker unites those that were used. All of them share the
//! types of
//! `common` that the first world generates.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, WithOption};
use wit_parser::Resolve;

const COMMON: &str = "ccm:provider/common@0.2.0";

/// A world of the SDK, or of a provider without it.
struct World {
    /// The world's name in WIT. The SDK's module has the same name with underscores.
    name: &'static str,
    /// The imports and exports in WIT.
    body: &'static str,
    /// Whether the generated types derive `PartialEq` and `Eq`.
    comparable: bool,
}

const WORLDS: &[World] = &[
    World {
        name: "host",
        body: "import ccm:provider/common@0.2.0;
               import ccm:provider/log@0.2.0;
               import ccm:provider/clock@0.2.0;
               import ccm:provider/random@0.2.0;
               import ccm:provider/state@0.2.0;
               import ccm:provider/http@0.2.0;",
        comparable: true,
    },
    World {
        name: "lifecycle",
        body: "export ccm:provider/lifecycle@0.2.0;",
        comparable: true,
    },
    World {
        name: "self-check",
        body: "export ccm:provider/self-check@0.2.0;",
        comparable: false,
    },
    World {
        name: "instances",
        body: "export ccm:provider/instances@0.2.0;",
        comparable: true,
    },
    World {
        name: "load-balancer",
        body: "export ccm:provider/load-balancer@0.2.0;",
        comparable: true,
    },
    World {
        name: "routes",
        body: "export ccm:provider/routes@0.2.0;",
        comparable: true,
    },
];

/// The world of `tests/guests/witness`, which has everything of contract 0.1 and nothing of the SDK.
const WITNESS: World = World {
    name: "witness",
    body: "import ccm:provider/http@0.1.0;
           import ccm:provider/log@0.1.0;
           import ccm:provider/clock@0.1.0;
           import ccm:provider/random@0.1.0;
           import ccm:provider/state@0.1.0;
           export ccm:provider/lifecycle@0.1.0;
           export ccm:provider/self-check@0.1.0;
           export ccm:provider/instances@0.1.0;
           export ccm:provider/load-balancer@0.1.0;
           export ccm:provider/routes@0.1.0;",
    comparable: false,
};

fn main() -> Result<()> {
    let is_check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => bail!("{other}: the only option is --check"),
    };
    // Cargo sets it for the program that it runs, also for one that another checkout has built.
    let sdk = std::env::var("CARGO_MANIFEST_DIR").context("run it with `cargo run`")?;
    let root = Path::new(&sdk).join("../..");
    let mut stale = Vec::new();
    let sdk = WORLDS.iter().map(|world| {
        let file = format!("guest-sdk/src/bindings/{}.rs", module(world));
        (world, "wit/v0.2", file)
    });
    let witness = "tests/guests/witness/src/bindings.rs".to_owned();
    for (world, contract, file) in sdk.chain([(&WITNESS, "wit/v0.1", witness)]) {
        let text =
            generate(&root, contract, world).with_context(|| format!("world {}", world.name))?;
        let path = root.join(&file);
        if !is_check {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(file);
        }
    }
    if !stale.is_empty() {
        bail!(
            "not what the contract makes of it: {}\nrun `cargo run --manifest-path guest-sdk/bindings/Cargo.toml`",
            stale.join(", ")
        );
    }
    Ok(())
}

fn module(world: &World) -> String {
    world.name.replace('-', "_")
}

fn generate(root: &Path, contract: &str, world: &World) -> Result<String> {
    let mut resolve = Resolve::default();
    resolve.push_path(root.join(contract))?;
    let source = format!("package ccm:sdk;\nworld {} {{ {} }}", world.name, world.body);
    let package = resolve.push_str("sdk.wit", &source)?;
    let selected = resolve.select_world(&[package], Some(world.name))?;

    let mut options = Opts {
        format: true,
        generate_all: true,
        ..Opts::default()
    };
    if world.comparable {
        options.additional_derive_attributes = ["PartialEq", "Eq"].map(str::to_owned).into();
    }
    if world.name == "host" {
        options.generate_unused_types = true;
    } else if world.name != WITNESS.name {
        let shared = "crate::bindings::host::ccm::provider::common".to_owned();
        options.with = vec![(COMMON.to_owned(), WithOption::Path(shared))];
        options.pub_export_macro = true;
        options.export_macro_name = Some(format!("export_{}", module(world)));
        options.default_bindings_module = Some(format!("ccm_guest::bindings::{}", module(world)));
    }
    let mut files = Files::default();
    options
        .build()
        .generate(&mut resolve, selected, &mut files)?;
    let (_, text) = files.iter().next().context("nothing was generated")?;
    let mut text = std::str::from_utf8(text)?.to_owned();
    if world.name == "host" {
        text = without_display(&text);
    }
    Ok(format!(
        "//! Generated from `{contract}`: see `guest-sdk/bindings`. Not edited by hand.\n\n{text}"
    ))
}

/// The bindings without `Display` and `Error` of the contract's errors: the SDK has its own, and the generated `Display` is
/// `Debug`.
fn without_display(text: &str) -> String {
    let mut kept = String::new();
    // The last line of an `impl` that is left out.
    let mut end = None;
    for line in text.lines() {
        let code = line.trim_start();
        if let Some(last) = &end {
            if line == last {
                end = None;
            }
        } else if code.starts_with("impl ::core::fmt::Display for ") {
            let indentation = line.len() - code.len();
            end = Some(format!("{}}}", " ".repeat(indentation)));
        } else if !code.starts_with("impl ::core::error::Error for ") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}
