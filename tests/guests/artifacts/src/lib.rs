//! The guests that only tests use, as components, compiled by the build script from the sources beside this crate. No
//! shipped binary may depend on this crate.

#![forbid(unsafe_code)]

/// The guest whose configuration key `behaviour` says how it misbehaves; the words are listed in
/// `guest_misbehaving::behaviour`.
pub const MISBEHAVING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-misbehaving.wasm"));

/// The guest of contract 0.1 that repeats what it gets from the host.
pub const WITNESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-witness.wasm"));

/// A version of [`MISBEHAVING`]: the same code in other bytes, so that nothing has to be built for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Version<'a> {
    /// The version in its manifest: five characters, such as `0.2.0`. `None`: as it was built.
    pub version: Option<&'a str>,
    /// Its behaviour, whatever is configured: at most 30 characters. `None`: as configured.
    pub behaviour: Option<&'a str>,
    /// Whether its manifest asks for `GET` on everything that has two parts, and not on machines only.
    pub is_wider: bool,
}

/// Makes a version.
///
/// # Panics
/// When a word is too long, or the guest is not as it was when this was written.
pub fn misbehaving(version: Version<'_>) -> Vec<u8> {
    let mut wasm = MISBEHAVING.to_vec();
    if let Some(number) = version.version {
        let told = |number| format!("\"version\": \"{number}\"");
        replace(&mut wasm, &told("0.1.0"), &told(number));
    }
    if let Some(word) = version.behaviour {
        let built_in = |word| format!("the behaviour that is built in: [{word:<30}]");
        replace(&mut wasm, &built_in(""), &built_in(word));
    }
    if version.is_wider {
        replace(&mut wasm, "\"/machines/{name}\"", "\"/{anything}/{id}\"");
    }
    wasm
}

/// Replaces one text by another wherever it occurs. The length stays the same, so that the module stays valid.
fn replace(wasm: &mut [u8], old: &str, new: &str) {
    let (old, new) = (old.as_bytes(), new.as_bytes());
    assert_eq!(old.len(), new.len(), "the texts are equally long");
    let mut places = 0;
    for start in 0..=wasm.len().saturating_sub(old.len()) {
        if let Some(place) = wasm.get_mut(start..start + old.len())
            && place == old
        {
            place.copy_from_slice(new);
            places += 1;
        }
    }
    assert!(places > 0, "the text is there");
}
