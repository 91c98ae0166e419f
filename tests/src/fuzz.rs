//! Tries a function that reads what strangers wrote with every file of its corpus, and then, for as long as it is told to,
//! with mutants of them. Knows no target; it only says which input a property failed for.
//!
//! A corpus file is a test by its name: what begins with `taken-` has to be taken, what begins with `refused-` refused.

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

/// How long mutants of one corpus are tried, in seconds.
const SECONDS: Count = Count {
    variable: "CCM_FUZZ_SECONDS",
    default: 0,
    ci: 5,
    full: 60,
};
/// Which mutants are made.
const SEED: &str = "CCM_FUZZ_SEED";
/// Fewer entries are no corpus.
const FEWEST: usize = 5;
/// So many mutants that ended as none before are mutated, too.
const MOST_GROWN: usize = 1_000;

/// What a target did with an input, when all that has to hold holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All of it was taken.
    Taken,
    /// It, or a part of it, was refused with these words.
    Refused(String),
}

/// One function under test.
pub struct Target {
    /// The name of its corpus: `tests/fuzz/corpus/NAME`.
    pub name: &'static str,
    /// Words that mean something in its inputs.
    pub words: &'static [&'static str],
    /// Longest mutant in bytes.
    pub longest: usize,
    /// Tries one input: the verdict, or which property does not hold. A panic is a failure, too.
    pub check: fn(&[u8]) -> Result<Verdict, String>,
}

/// A file of a corpus.
struct Entry {
    name: String,
    bytes: Vec<u8>,
}

impl Target {
    /// The target as a test.
    pub fn trial(self) -> Trial {
        harness::trial(format!("fuzz::{}", self.name), move || Ok(self.run()?))
    }

    /// Tries the corpus, and mutants of it for as long as the variables say.
    ///
    /// # Errors
    /// Every entry that ends otherwise than its name says, or the first mutant for which a property does not hold and where
    /// it is kept.
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

    /// The same mutants for the same corpus and seed, as many as there is time for.
    fn mutate(&self, corpus: Vec<Vec<u8>>, time: Duration) -> Result<(), String> {
        let seed = counts::number(SEED)?.unwrap_or(1);
        let folder = here().with_file_name("target").join("fuzz");
        let path = folder.join(format!("{}.input", self.name));
        let kept = |error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&folder).map_err(kept)?;
        // Written before it is tried: it is still there when the whole program ends, or never does.
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

/// A verdict without the numbers and quotations in it: a mutant of another kind is a step into other code.
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
        // Writing to a String cannot fail.
        let _ = write!(kind, "{index}{}", words.take(120).collect::<String>());
    }
    kind
}
