//! Fuzzes functions that parse untrusted input: runs every corpus file, then mutants of them for the configured time.
//! Independent of the targets; reports only the input for which a property failed.
//!
//! The name of a corpus file states the expected result: `taken-` must be accepted, `refused-` must be refused.

mod mutator;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::counts::{self, Count};
use crate::harness;
use crate::random::Random;
use mutator::Mutator;

/// How long mutants of each corpus are tried, in seconds.
const SECONDS: Count = Count {
    variable: "CCM_FUZZ_SECONDS",
    default: 0,
    ci: 5,
    full: 60,
};
/// Environment variable for the seed of the mutants.
const SEED: &str = "CCM_FUZZ_SEED";
/// Minimum number of corpus entries.
const FEWEST: usize = 5;
/// Maximum number of mutants with a new kind of verdict that are mutated again.
const MOST_GROWN: usize = 1_000;

/// A target's result for an input for which all properties hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The whole input was accepted.
    Taken,
    /// The input, or a part of it, was refused with this message.
    Refused(String),
}

/// One function under test.
pub struct Target {
    /// The name of its corpus: `tests/fuzz/corpus/NAME`.
    pub name: &'static str,
    /// Dictionary of words with a meaning in its inputs.
    pub words: &'static [&'static str],
    /// Maximum length of a mutant, in bytes.
    pub longest: usize,
    /// Runs one input: the verdict, or the violated property. A panic is a failure, too.
    pub check: fn(&[u8]) -> Result<Verdict, String>,
}

/// A file of a corpus.
struct Entry {
    name: String,
    bytes: Vec<u8>,
}

impl Target {
    /// The target as a test trial.
    pub fn trial(self) -> Trial {
        harness::trial(format!("fuzz::{}", self.name), move || Ok(self.run()?))
    }

    /// Runs the corpus, then mutants of it for the configured time.
    ///
    /// # Errors
    /// Every entry whose verdict differs from its name, or the first mutant that violates a property and the file with
    /// it.
    pub fn run(&self) -> Result<(), String> {
        let corpus = self.corpus().map_err(|error| error.to_string())?;
        if corpus.len() < FEWEST {
            return Err(format!("a corpus of {} entries is none", corpus.len()));
        }
        let wrong = corpus.iter().filter_map(|entry| self.replay(entry).err());
        let wrong: Vec<String> = wrong.collect();
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        let time = Duration::from_secs(SECONDS.get()?);
        if time.is_zero() {
            return Ok(());
        }
        let corpus = corpus.into_iter().map(|entry| entry.bytes).collect();
        self.mutate(corpus, time)
    }

    fn corpus(&self) -> io::Result<Vec<Entry>> {
        let folder = here().join("fuzz/corpus").join(self.name);
        let entries = fs::read_dir(folder)?.map(|entry| {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default();
            Ok(Entry {
                name: name.to_string_lossy().into_owned(),
                bytes: fs::read(&path)?,
            })
        });
        let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    fn replay(&self, entry: &Entry) -> Result<(), String> {
        let verdict = self.tried(&entry.bytes);
        let verdict = verdict.map_err(|why| format!("corpus entry {}: {why}", entry.name))?;
        let is_right = match &verdict {
            Verdict::Taken => entry.name.starts_with("taken-"),
            Verdict::Refused(_) => entry.name.starts_with("refused-"),
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("corpus entry {}: {verdict:?}", entry.name)),
        }
    }

    fn tried(&self, bytes: &[u8]) -> Result<Verdict, String> {
        catch_unwind(AssertUnwindSafe(|| (self.check)(bytes)))
            .unwrap_or_else(|_| Err("it panicked, see above".to_owned()))
    }

    /// Runs mutants until the time is over. The sequence is determined by corpus and seed.
    fn mutate(&self, corpus: Vec<Vec<u8>>, time: Duration) -> Result<(), String> {
        let seed = counts::number(SEED)?.unwrap_or(1);
        let folder = here().with_file_name("target").join("fuzz");
        let path = folder.join(format!("{}.input", self.name));
        let kept = |error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&folder).map_err(kept)?;
        // Written before the run, so that the input survives a crash or hang of the program.
        let file = File::create(&path).map_err(kept)?;
        announce(self.name, seed, &path);
        let mut random = Random::of(&format!("{} {seed}", self.name));
        let mut mutator = Mutator::new(corpus, self.words, self.longest);
        let (mut seen, mut tried, began) = (HashSet::new(), 0_u64, Instant::now());
        while began.elapsed() < time {
            let input = mutator.next(&mut random);
            file.set_len(0)
                .and_then(|()| file.write_all_at(&input, 0))
                .map_err(kept)?;
            let verdict = self.tried(&input).map_err(|why| {
                let path = path.display();
                format!("{why}\nmutant {tried} of {SEED}={seed}, kept in {path}")
            })?;
            tried += 1;
            if seen.len() < MOST_GROWN && seen.insert(kind(&verdict)) {
                mutator.grow(input);
            }
        }
        harness::figure(format!(
            "fuzz {}: {tried} mutants in {} s, {} kinds of verdicts, seed {seed}",
            self.name,
            time.as_secs(),
            seen.len()
        ));
        Ok(())
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[allow(clippy::print_stderr, reason = "what is lost when the program ends")]
fn announce(name: &str, seed: u64, path: &Path) {
    eprintln!(
        "fuzz {name}: {SEED}={seed}, the input under way is in {}",
        path.display()
    );
}

/// The verdict without numbers and quotations: a new kind means that the mutant reached other code.
fn kind(verdict: &Verdict) -> String {
    let Verdict::Refused(why) = verdict else {
        return String::new();
    };
    let mut kind = String::new();
    for (index, part) in why
        .split('"')
        .enumerate()
        .filter(|(index, _)| index % 2 == 0)
    {
        let words = part
            .chars()
            .filter(|one| one.is_ascii_alphabetic() || *one == ' ');
        // Writing to a `String` cannot fail.
        let _ = write!(kind, "{index}{}", words.take(120).collect::<String>());
    }
    kind
}
