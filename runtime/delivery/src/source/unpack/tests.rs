#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::{NoModule, unpack};
use crate::artifact::MODULE_BYTES;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An empty component, packed with `zstd` in one stored block.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x20\x08\x41\0\0\0asm\x0d\0\x01\0";

/// Bytes that begin like a module, and compress about as badly as one.
fn module(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8 & 0x3f
    });
    b"\0asm\x0d\0\x01\0"
        .iter()
        .copied()
        .chain(noise)
        .take(length)
        .collect()
}

#[test]
fn a_module_comes_out_whether_it_is_plain_or_packed() {
    let wasm = module(300_000);
    let halves = wasm.split_at(100_000);
    for (name, packed) in [
        ("plain", wasm.clone()),
        ("gzip", gzip(&wasm)),
        ("gzip members", [gzip(halves.0), gzip(halves.1)].concat()),
    ] {
        assert_eq!(unpack(packed).as_deref(), Ok(&wasm[..]), "{name}");
    }
}

fn gzip_stored(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_largest_module_is_taken_and_one_byte_more_is_not() {
    let mut wasm = module(10);
    wasm.resize(MODULE_BYTES, 0);
    for packed in [gzip_stored(&wasm), wasm.clone()] {
        assert!(unpack(packed).is_ok_and(|found| found == wasm));
    }
    wasm.push(0);
    for packed in [gzip_stored(&wasm), wasm] {
        assert_eq!(unpack(packed), Err(NoModule::TooLarge));
    }
}

#[test]
fn bombs_are_stopped() {
    let zeros = vec![0; 8 << 20];
    assert_eq!(unpack(gzip(&zeros)), Err(NoModule::TooDense));
    // A module that is packed twice is unpacked only once.
    assert_eq!(unpack(gzip(&gzip(&zeros))), Err(NoModule::Foreign));
}

#[test]
fn what_is_no_module_is_refused_with_its_reason() {
    let wasm = module(10_000);
    for (bytes, reason) in [
        (Vec::new(), NoModule::Empty),
        (gzip(&[]), NoModule::Empty),
        (b"\x7fELF\x02\x01\x01 compiled".to_vec(), NoModule::Compiled),
        (gzip(b"\x7fELF\x02\x01\x01 compiled"), NoModule::Compiled),
        (ZSTD.to_vec(), NoModule::Zstd),
        (ZSTD[..4].to_vec(), NoModule::Zstd),
        (gzip(ZSTD), NoModule::Zstd),
        (b"(component)".to_vec(), NoModule::Foreign),
        (b"\0as".to_vec(), NoModule::Foreign),
        (b"\n\0asm".to_vec(), NoModule::Foreign),
        (gzip(&gzip(&wasm)), NoModule::Foreign),
        (vec![0x1f], NoModule::Foreign),
    ] {
        assert_eq!(unpack(bytes), Err(reason));
    }
}

#[test]
fn what_is_cut_anywhere_or_has_something_after_it_is_broken() {
    let wasm = module(5_000);
    let packed = gzip(&wasm);
    for end in 4..packed.len() {
        let reason = unpack(packed[..end].to_vec()).unwrap_err();
        let is_broken = matches!(reason, NoModule::Broken { .. });
        assert!(is_broken, "cut at {end}: {reason}");
    }
    let reason = unpack([&packed[..], b"more"].concat()).unwrap_err();
    assert!(matches!(reason, NoModule::Broken { .. }), "{reason}");
}

#[test]
fn a_module_packed_with_zstd_is_told_what_to_do() {
    let reported = unpack(ZSTD.to_vec()).unwrap_err().to_string();
    for word in ["zstd", "gzip", "not at all"] {
        assert!(reported.contains(word), "{reported}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_nothing_panics_and_what_comes_out_is_webassembly_within_the_cap(
        which in 0..4_usize,
        noise in proptest::collection::vec(any::<u8>(), 0..2_000),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let begin: [&[u8]; 4] = [b"\0asm", &[0x1f, 0x8b, 8], &[0x28, 0xb5, 0x2f, 0xfd], b""];
        let mut bytes = [begin[which], &noise[..]].concat();
        let wasm = [b"\0asm", &noise[..]].concat();
        let mut packed = match which { 1 => gzip(&wasm), _ => wasm.clone() };
        prop_assert_eq!(unpack(packed.clone()), Ok(wasm));
        for (at, value) in flips {
            let at = at.index(packed.len());
            packed[at] = value;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        for input in [bytes, packed] {
            if let Ok(found) = unpack(input) {
                prop_assert!(found.starts_with(b"\0asm") && found.len() <= MODULE_BYTES);
            }
        }
    }
}
