//! Which log lines are shown: by target and level at each verbosity of klog's, and by source file (`--vmodule`). Knows
//! no format.

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter};

use super::pattern::Pattern;
use crate::flags::LogFlags;

const OFF: LevelFilter = LevelFilter::OFF;
const ERROR: LevelFilter = LevelFilter::ERROR;
const WARN: LevelFilter = LevelFilter::WARN;
const INFO: LevelFilter = LevelFilter::INFO;
const DEBUG: LevelFilter = LevelFilter::DEBUG;
const TRACE: LevelFilter = LevelFilter::TRACE;

/// The verbosities that show more lines than the next lower one.
const STEPS: [u32; 4] = [0, 2, 4, 6];

/// The level that is shown of each target, at each of [`STEPS`].
#[rustfmt::skip]
const SHOWN: [(&str, [LevelFilter; 4]); 16] = [
    ("ccm",             [INFO, DEBUG, DEBUG, TRACE]),
    ("ccm_controllers", [INFO, DEBUG, DEBUG, TRACE]),
    ("ccm_host",        [INFO, INFO,  DEBUG, TRACE]),
    ("ccm_delivery",    [INFO, DEBUG, DEBUG, TRACE]),
    // Every client can cause a line here, and klog has it at V(4).
    ("ccm_serving::access_control", [INFO, INFO, DEBUG, TRACE]),
    ("rollout",         [INFO, DEBUG, DEBUG, TRACE]),
    ("decision",        [INFO, DEBUG, DEBUG, TRACE]),
    ("waiting",         [INFO, DEBUG, DEBUG, TRACE]),
    ("initialised",     [INFO, INFO,  INFO,  TRACE]),
    ("guest",           [INFO, INFO,  DEBUG, TRACE]),
    ("egress",          [WARN, INFO,  DEBUG, TRACE]),
    ("plan",            [INFO, INFO,  DEBUG, TRACE]),
    ("audit",           [INFO, INFO,  DEBUG, TRACE]),
    // kube's client logs the whole text of an answer that it cannot parse, which may be a Secret; the caller gets the
    // error anyway. Its submodules (TLS, each request's span) log no such content.
    ("kube_client::client",      [ERROR, ERROR, ERROR, ERROR]),
    ("kube_client::client::tls", [WARN,  WARN,  WARN,  WARN]),
    // Every failed request is an error here, although its caller may expect it and reports what matters.
    ("kube_client::client::builder", [OFF, OFF, ERROR, ERROR]),
];

/// The level that is shown of all other targets. Libraries stay quiet below the highest verbosities: the connection
/// pool's messages do not help to find a problem with a node.
const OTHERS: [LevelFilter; 4] = [WARN, WARN, INFO, TRACE];

/// The targets and levels that are shown at a verbosity.
fn targets(verbosity: u32) -> Targets {
    let step = STEPS.iter().rposition(|step| *step <= verbosity);
    let step = step.unwrap_or_default();
    SHOWN.iter().fold(
        Targets::new().with_default(OTHERS[step]),
        |targets, (target, levels)| targets.with_target(*target, levels[step]),
    )
}

/// The lowest verbosity at which each line is shown.
pub(super) struct Steps([(u32, Targets); 4]);

impl Steps {
    pub(super) fn new() -> Steps {
        Steps(STEPS.map(|step| (step, targets(step))))
    }

    /// The verbosity of a line with this metadata, as klog's `V(n)` would be; 0 for warnings and errors.
    pub(super) fn of(&self, metadata: &Metadata<'_>) -> u32 {
        let shows = |(_, targets): &&(u32, Targets)| {
            targets.would_enable(metadata.target(), metadata.level())
        };
        self.0.iter().find(shows).map_or(0, |(step, _)| *step)
    }
}

/// Shows the lines of `-v` and `--vmodule`.
pub(super) struct Verbosity {
    all: Targets,
    /// The first pattern that matches a file counts, as in klog. It only adds lines.
    modules: Vec<(Pattern, Targets)>,
}

impl Verbosity {
    pub(super) fn new(logs: &LogFlags) -> Verbosity {
        let modules = logs.modules.iter();
        Verbosity {
            all: targets(logs.verbosity),
            modules: modules
                .map(|module| (Pattern::new(&module.pattern), targets(module.verbosity)))
                .collect(),
        }
    }

    /// Replaces the verbosity of `-v`.
    pub(super) fn set(&mut self, verbosity: u32) {
        self.all = targets(verbosity);
    }

    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        let (target, level) = (metadata.target(), metadata.level());
        if self.all.would_enable(target, level) {
            return true;
        }
        let Some(file) = metadata.file().map(stem) else {
            return false;
        };
        let first = self
            .modules
            .iter()
            .find(|(pattern, _)| pattern.matches(file));
        first.is_some_and(|(_, targets)| targets.would_enable(target, level))
    }
}

impl<S: Subscriber> Layer<S> for Verbosity {
    // Whether a line is shown depends on its place alone, so that the answer can be kept.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.shows(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.shows(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let modules = self.modules.iter().map(|(_, targets)| targets);
        modules
            .chain([&self.all])
            .filter_map(Filter::<S>::max_level_hint)
            .max()
    }
}

/// The name of a source file without its folders.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The name of a source file without its folders and `.rs`.
fn stem(path: &str) -> &str {
    let name = file_name(path);
    name.strip_suffix(".rs").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_are_told_to_look_for_is_shown_without_a_flag() {
        for verbosity in 0..=7 {
            let targets = targets(verbosity);
            for target in [
                "rollout",
                "waiting",
                "initialised",
                "guest",
                "plan",
                "audit",
            ] {
                let is_shown = targets.would_enable(target, &tracing::Level::INFO);
                assert!(is_shown, "{target} at -v {verbosity}");
            }
        }
    }

    #[test]
    fn libraries_are_quiet_and_a_higher_verbosity_never_shows_less() {
        let levels = [
            tracing::Level::ERROR,
            tracing::Level::WARN,
            tracing::Level::INFO,
            tracing::Level::DEBUG,
            tracing::Level::TRACE,
        ];
        for target in ["hyper_util::client", "kube_runtime", "ccm", "egress"] {
            for level in levels {
                let shown: Vec<_> = (0..8)
                    .map(|verbosity| targets(verbosity).would_enable(target, &level))
                    .collect();
                assert!(shown.is_sorted(), "{target} {level}: {shown:?}");
            }
        }
        for (verbosity, level, expected) in [
            (0, tracing::Level::WARN, true),
            (3, tracing::Level::INFO, false),
            (4, tracing::Level::INFO, true),
            (5, tracing::Level::DEBUG, false),
            (6, tracing::Level::TRACE, true),
        ] {
            let is_shown = targets(verbosity).would_enable("hyper_util::client", &level);
            assert_eq!(is_shown, expected, "{level} at -v {verbosity}");
        }
    }
}
