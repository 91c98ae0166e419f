//! One run of one workload: what it needs, and where its figures go.

use std::path::Path;

use crate::figure::{Figure, Figures, Subject};
use crate::measured::Launch;
use crate::options::Options;

/// What one run of one workload needs, and what it finds.
pub(crate) struct Course<'a> {
    pub(crate) options: &'a Options,
    /// Compiled modules, for every start with a warm cache.
    pub(crate) cache: &'a Path,
    pub(crate) figures: Figures,
    /// What did not end as it must; what was measured of it does not count.
    pub(crate) failures: Vec<String>,
    /// From 0 on.
    pub(crate) round: u8,
}

impl<'a> Course<'a> {
    pub(crate) fn new(options: &'a Options, cache: &'a Path, round: u8) -> Self {
        Self {
            options,
            cache,
            figures: Figures::default(),
            failures: Vec::new(),
            round,
        }
    }

    pub(crate) fn add(&mut self, figure: Figure) {
        self.figures.add(figure);
    }

    /// Whether this is the first run of everything, in which is measured what need not be repeated.
    pub(crate) fn is_first(&self) -> bool {
        self.round == 0
    }

    /// Programs in the order of this run: forwards and backwards in turn.
    pub(crate) fn in_turn(&self, mut subjects: Vec<Subject>) -> Vec<Subject> {
        if self.round % 2 == 1 {
            subjects.reverse();
        }
        subjects
    }

    /// A program with a warm cache and without leader election.
    pub(crate) fn launch(&self, subject: Subject) -> Launch<'a> {
        Launch {
            subject,
            cache: self.cache,
            flags: &[],
            is_elected: false,
        }
    }

    /// The name of a run, for progress and its log.
    pub(crate) fn run(&self, text: String) -> String {
        match self.round {
            0 => text,
            round => format!("{text}, run {}", round + 1),
        }
    }
}
