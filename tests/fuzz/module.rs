//! A file that is offered as a module, as far as it is checked before anything of it is compiled.

use std::error::Error;

use ccm_core::name_syntax::is_dns_label;
use ccm_host::{Digest, inspect};
use ccm_tests::fuzz::{Target, Verdict};

use crate::{hold, is_one_line};

pub(crate) const TARGET: Target = Target {
    name: "module",
    words: &[
        "\0asm\x0d\0\x01\0",
        "\0asm\x01\0\0\0",
        "ccm:manifest",
        "ccm:provider/lifecycle@0.1.0",
        "ccm:provider/instances@0.1.0",
        "ccm:provider/http@0.1.0",
        "wasi:sockets/tcp@0.2.0",
        "wasi:io/poll@0.2.6",
        "\u{7f}\u{7f}\u{7f}\u{f}",
        "\0\x08",
        "\x04\0",
        "\x05\x03\x01\0\x01",
        "@0.2.0",
        "@1.0.0",
        "\u{1b}[31m",
        "\u{202e}",
    ],
    longest: 64 << 10,
    check,
};

fn check(input: &[u8]) -> Result<Verdict, String> {
    let found = match inspect("module.wasm", input) {
        Ok(found) => found,
        Err(error) => {
            let mut why = error.to_string();
            let mut cause = error.source();
            while let Some(inner) = cause {
                why = format!("{why}: {inner}");
                cause = inner.source();
            }
            hold(is_one_line(&why), || format!("people are shown {why:?}"))?;
            return Ok(Verdict::Refused(why));
        }
    };
    hold(input.starts_with(b"\0asm\x0d\0\x01\0"), || {
        "it is no component".to_owned()
    })?;
    hold(
        found.digest == Digest::of(input) && found.size == input.len(),
        || format!("{found:?}"),
    )?;
    hold(is_dns_label(&found.manifest.name), || format!("{found:?}"))?;
    let is_named = |name: &&str| {
        input
            .windows(name.len())
            .any(|bytes| bytes == name.as_bytes())
    };
    hold(is_named(&"ccm:provider/lifecycle@0.1"), || {
        "it cannot be begun".to_owned()
    })?;
    for name in &found.imports {
        let is_ours = name.starts_with("ccm:provider/") && name.contains("@0.1");
        let is_wasi = name.starts_with("wasi:") && name.contains("@0.2");
        hold(is_ours || is_wasi, || format!("it imports {name:?}"))?;
    }
    let mut names = found.imports.iter().chain(&found.exports);
    hold(
        names.all(|name| is_one_line(name) && name.len() <= 120),
        || format!("{found:?}"),
    )?;
    Ok(Verdict::Taken)
}
