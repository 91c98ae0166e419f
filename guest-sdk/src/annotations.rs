//! Annotations of another cloud-controller-manager, whose Services are to keep working: a provider lists every one of
//! them with its [`Treatment`], and a [`Report`] says which of a Service's annotations have no effect, and which are
//! refused. An annotation that silently does nothing is worse than an error.
//!
//! ```
//! use ccm_guest::annotations::{Report, Treatment};
//!
//! ccm_guest::annotations! {
//!     /// Every annotation of the Go manager.
//!     pub TABLE: Treatment;
//!     /// How many connections the load balancer can have.
//!     SIZE = "acme.example/size": Treatment::Supported;
//!     /// How it distributes them.
//!     ALGORITHM = "acme.example/algorithm": Treatment::Ignored("the cloud has one algorithm");
//! }
//!
//! let mut service = ccm_guest::testing::service("web", &[(80, 30_080)]);
//! service.annotations = vec![(ALGORITHM.to_owned(), "random".to_owned())];
//!
//! let events = Report::of(&service, TABLE).events("UnsupportedFieldConfigured");
//! assert_eq!(
//!     events[0].message,
//!     "annotation acme.example/algorithm has no effect: the cloud has one algorithm"
//! );
//! ```
//!
//! [`Values`](crate::values::Values) reads the values of those that are supported.

use crate::Event;
use crate::load_balancer::Service;

#[cfg(test)]
mod tests;

/// Declares annotations, each by the name of a constant, its key and what holds for it, and a table of all of them with
/// that: a [`Treatment`](crate::annotations::Treatment), or several for several kinds of load balancers.
#[macro_export]
macro_rules! annotations {
    (
        $(#[$about:meta])* $visible:vis $table:ident: $row:ty;
        $($(#[$doc:meta])* $name:ident = $key:literal: $holds:expr;)+
    ) => {
        $($(#[$doc])* $visible const $name: &str = $key;)+

        $(#[$about])* $visible const $table: &[(&str, $row)] = &[$(($name, $holds)),+];
    };
}

/// How an annotation is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It has its meaning.
    Supported,
    /// It has its meaning when a load balancer is created. The provider refuses a later change, for this reason.
    AtCreation(&'static str),
    /// It has no effect; an event says so, with this reason.
    Ignored(&'static str),
    /// The Service is refused, with this reason.
    Refused(&'static str),
}

/// The annotations of a Service that have no effect or are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    mistakes: Vec<String>,
    /// Name and reason.
    ignored: Vec<(String, &'static str)>,
}

impl Report {
    /// The annotations of `table` that the Service has.
    pub fn of(service: &Service, table: &[(&str, Treatment)]) -> Report {
        let mut report = Report::default();
        for (key, treatment) in table {
            if service.annotation(key).is_some() {
                report.add(key, *treatment);
            }
        }
        report
    }

    /// Adds an annotation that the Service has, by the name that people are to read.
    pub fn add(&mut self, name: &str, treatment: Treatment) {
        match treatment {
            Treatment::Supported | Treatment::AtCreation(_) => {}
            Treatment::Ignored(why) => self.ignored.push((name.to_owned(), why)),
            Treatment::Refused(why) => self.mistakes.push(format!("{name}: {why}")),
        }
    }

    /// What the Service is refused for, for [`Error::invalid`](crate::Error::invalid); empty if there is nothing.
    pub fn mistakes(&self) -> &[String] {
        &self.mistakes
    }

    /// One event for all annotations without effect, if there are any: for clouds with so many of them that one event
    /// each could be more than the 16 that a reply may have.
    pub fn event(&self, reason: &str) -> Option<Event> {
        let lines = self.ignored.iter();
        let lines: Vec<String> = lines.map(|(name, why)| format!("{name}: {why}")).collect();
        (!lines.is_empty()).then(|| Event::warning(reason, lines.join("; ")))
    }

    /// One event for each annotation without effect.
    pub fn events(&self, reason: &str) -> Vec<Event> {
        let events = self.ignored.iter().map(|(name, why)| {
            Event::warning(reason, format!("annotation {name} has no effect: {why}"))
        });
        events.collect()
    }
}
