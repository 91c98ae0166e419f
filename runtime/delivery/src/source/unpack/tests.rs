#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{NoModule, unpack};
use crate::artifact::MODULE_BYTES;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// Something that looks like a module, and shrinks about as badly as one.
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

/// A frame with a window of `window` bytes (a power of two, at least 1 KiB) and these blocks of 128 KiB of zeros.
fn zstd_bomb(window_log: u8, blocks: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (window_log - 10) << 3];
    for block in 1..=blocks {
        // Type 1 repeats one byte; the last bit says whether it is the last block.
        let header = (128_u32 << 10) << 3 | 1 << 1 | u32::from(block == blocks);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[test]
fn a_module_comes_out_whether_it_is_plain_or_packed() {
    let wasm = module(300_000);
    let skipped = [
        &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9][..],
        &zstd(&wasm),
    ]
    .concat();
    let halves = wasm.split_at(100_000);
    for (name, packed) in [
        ("plain", wasm.clone()),
        ("gzip", gzip(&wasm)),
        ("zstd", zstd(&wasm)),
        ("zstd frames", [zstd(halves.0), zstd(halves.1)].concat()),
        ("gzip members", [gzip(halves.0), gzip(halves.1)].concat()),
        (
            "zstd with a frame to skip at its end",
            [&zstd(&wasm)[..], &skipped[..11]].concat(),
        ),
    ] {
        assert_eq!(unpack(packed).as_deref(), Ok(&wasm[..]), "{name}");
    }
}

/// The same bytes in blocks that are not packed, with a window of 32 MiB.
fn zstd_stored(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (25 - 10) << 3];
    let blocks = bytes.chunks(128 << 10);
    let last = blocks.len() - 1;
    for (index, block) in blocks.enumerate() {
        let header = u32::try_from(block.len()).unwrap() << 3 | u32::from(index == last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
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
    for packed in [gzip_stored(&wasm), zstd_stored(&wasm), wasm.clone()] {
        assert!(unpack(packed).is_ok_and(|found| found == wasm));
    }
    wasm.push(0);
    for packed in [gzip_stored(&wasm), zstd_stored(&wasm), wasm] {
        assert_eq!(unpack(packed), Err(NoModule::TooLarge));
    }
}

#[test]
fn bombs_are_stopped() {
    let zeros = vec![0; 8 << 20];
    for (name, bomb) in [
        ("gzip", gzip(&zeros)),
        ("zstd of a small window", zstd_bomb(10 + 7, 10_000)),
        ("zstd of a large window", zstd_bomb(10 + 14, 10_000)),
    ] {
        assert_eq!(unpack(bomb), Err(NoModule::TooDense), "{name}");
    }
    let window = unpack(zstd_bomb(40, 1)).unwrap_err();
    assert!(
        matches!(&window, NoModule::Broken { format: "zstd", why } if why.contains("window")),
        "{window}"
    );
    // Packed twice: what comes out is not looked into again.
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
    for (format, packed) in [("gzip", gzip(&wasm)), ("zstd", zstd(&wasm))] {
        for end in 4..packed.len() {
            let reason = unpack(packed[..end].to_vec()).unwrap_err();
            let broken =
                matches!(&reason, NoModule::Broken { format: found, .. } if *found == format);
            assert!(broken, "{format} cut at {end}: {reason}");
        }
        let reason = unpack([&packed[..], b"more"].concat()).unwrap_err();
        assert!(
            matches!(reason, NoModule::Broken { .. }),
            "{format}: {reason}"
        );
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
        let mut packed = match which { 1 => gzip(&wasm), 2 => zstd(&wasm), _ => wasm.clone() };
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
