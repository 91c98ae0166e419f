//! Real modules with random damage. Each is refused or loaded: nothing panics or hangs, and the active version goes on
//! serving.

use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::artifacts::serving::{Serving, good};
use ccm_tests::counts::Count;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[("a18_damaged_modules_panic_nobody_and_take_no_time", a18)];

/// How many mutants are inspected. Each takes some milliseconds.
const MUTANTS: Count = Count {
    variable: "CCM_ARTIFACT_MUTANTS",
    default: 150,
    ci: 3_000,
    full: 100_000,
};
/// How many per thousand of the seemingly valid mutants are compiled. Each takes half a second.
const COMPILED: u64 = 8;
/// Longer than this is a hang.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Numbers that differ for each seed, and are the same in every run.
struct SeededNumbers {
    seed: u64,
    drawn: u64,
}

impl SeededNumbers {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(self.drawn.to_le_bytes());
        self.drawn += 1;
        let hash = hash.finalize();
        let number = u64::from_le_bytes(hash[..8].try_into().unwrap());
        (number % end as u64) as usize
    }
}

/// The bytes with one to four random changes.
fn damaged(whole: &[u8], numbers: &mut SeededNumbers) -> Vec<u8> {
    let mut wasm = whole.to_vec();
    for _ in 0..=numbers.below(4) {
        // Sections and types are at the ends, code in between: each is damaged equally often.
        let within = match numbers.below(4) {
            0 => 256,
            1 => 16 << 10,
            _ => wasm.len(),
        };
        let at = match numbers.below(2) {
            0 => numbers.below(within.min(wasm.len())),
            _ => wasm.len() - 1 - numbers.below(within.min(wasm.len())),
        };
        let length = (numbers.below(64) + 1).min(wasm.len() - at);
        match numbers.below(7) {
            0 => wasm[at] ^= 1 << numbers.below(8),
            1 => wasm[at] = [0, 1, 0x40, 0x7f, 0x80, 0xff][numbers.below(6)],
            2 => drop(wasm.drain(at..at + length)),
            3 => {
                let part = wasm[at..at + length].to_vec();
                wasm.splice(at..at, part);
            }
            4 => {
                let from = numbers.below(wasm.len() - length);
                let part = wasm[from..from + length].to_vec();
                wasm[at..at + length].copy_from_slice(&part);
            }
            // A length of 4,294,967,295.
            5 => drop(wasm.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x0f])),
            _ => wasm.truncate(at.max(8)),
        }
    }
    wasm
}

fn a18() {
    let count = MUTANTS.get().unwrap();
    let mut room = (COMPILED * count).div_ceil(1_000);
    let serving = Serving::start();
    let wholes = [good(), embedded_guests::HCLOUD.to_vec()];
    let (mut refused, mut passed) = (0, 0);
    for seed in 0..count {
        let mut numbers = SeededNumbers { seed, drawn: 0 };
        let whole = &wholes[numbers.below(2)];
        let wasm = damaged(whole, &mut numbers);
        let began = Instant::now();
        match ccm_host::inspect("mutant.wasm", &wasm) {
            Err(_) => refused += 1,
            Ok(_) => {
                passed += 1;
                if room > 0 {
                    room -= 1;
                    // It is refused by the compiler, the grants or its own start; or it works all the same.
                    let _ = serving.offer(wasm);
                }
            }
        }
        assert!(began.elapsed() < TIMEOUT, "seed {seed}");
    }
    assert!(
        refused > count / 10 && passed > 0,
        "{refused} refused, {passed} passed"
    );
}
