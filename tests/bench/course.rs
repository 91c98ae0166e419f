//! One run of one workload: its inputs, and its figures.

use std::path::Path;

use crate::figure::{Figure, Figures, Subject};
use crate::measured::Launch;
use crate::options::Options;

/// The inputs and the findings of one run of one workload.
pub(crate) struct Course<'a> {
    pub(crate) options: &'a Options,
    /// Compiled modules, for every start with a warm cache.
    pub(crate) cache: &'a Path,
    pub(crate) figures: Figures,
    /// Runs that did not end as they must; their figures do not count.
    pub(crate) failures: Vec<String>,
    /// Number of the run, from 0.
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

    /// Whether this is the first run of everything, which has the measurements that are made once.
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
