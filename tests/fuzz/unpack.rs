//! A source's bytes: a module as it is, or compressed. The output is never larger than a module may be.

use ccm_delivery::artifact::MODULE_BYTES;
use ccm_delivery::source::unpack::{artifact, unpack};
use ccm_host::Digest;
use ccm_tests::fuzz::{Target, Verdict};

use crate::hold;

pub(crate) const TARGET: Target = Target {
    name: "unpack",
    words: &[
        "\0asm\x0d\0\x01\0",
        "\x1f",
        "\x1f\u{8b}",
        "\x7fELF",
        "\0\0\u{7f}\u{7f}",
        "\x01\0\0",
    ],
    // The densest gzip of this size yields more than a module may have.
    longest: 64 << 10,
    check,
};

/// Maximum ratio of output and input, once the output is larger than [`SMALL`].
const DENSEST: usize = 100;
const SMALL: usize = 1 << 20;

fn check(input: &[u8]) -> Result<Verdict, String> {
    let wasm = match unpack(input.to_vec()) {
        Ok(wasm) => wasm,
        Err(reason) => return Ok(Verdict::Refused(reason.to_string())),
    };
    hold(wasm.starts_with(b"\0asm"), || {
        "it is no WebAssembly".to_owned()
    })?;
    hold(wasm.len() <= MODULE_BYTES, || {
        format!("it has {} bytes", wasm.len())
    })?;
    let most = SMALL.max(input.len() * DENSEST);
    hold(wasm.len() <= most, || {
        format!("{} bytes become {}", input.len(), wasm.len())
    })?;
    hold(wasm == input || input.starts_with(&[0x1f, 0x8b]), || {
        "it was changed".to_owned()
    })?;
    let artifact =
        artifact("place", input.to_vec(), Vec::new()).map_err(|error| error.to_string())?;
    hold(
        artifact.digest == Digest::of(&wasm) && *artifact.wasm == *wasm,
        || "another digest".to_owned(),
    )?;
    Ok(Verdict::Taken)
}
