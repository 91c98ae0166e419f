//! Iteration counts of the test suites: runs, draws, calls. Few by default, so that `cargo test` finds regressions
//! within minutes; more in CI; all for the figures in the documentation.

/// Environment variable that selects the depth of all suites: `ci` or `full`.
pub const COUNTS: &str = "CCM_COUNTS";

/// The iteration counts of one suite.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// Environment variable that overrides the count of this suite.
    pub variable: &'static str,
    /// The count without a variable.
    pub default: u64,
    /// The count with `CCM_COUNTS=ci`.
    pub ci: u64,
    /// The count with `CCM_COUNTS=full`.
    pub full: u64,
}

impl Count {
    /// The selected count.
    ///
    /// # Errors
    /// A variable has an invalid value; the text names it.
    pub fn get(self) -> Result<u64, String> {
        match number(self.variable)? {
            Some(number) => Ok(number),
            None => Ok(match depth()? {
                Depth::Default => self.default,
                Depth::Ci => self.ci,
                Depth::Full => self.full,
            }),
        }
    }
}

/// The depth of all suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// For development: [`COUNTS`] is not set.
    Default,
    /// For merging a change.
    Ci,
    /// For the documentation's figures.
    Full,
}

/// The depth selected by [`COUNTS`].
///
/// # Errors
/// The value is neither `ci` nor `full`.
pub fn depth() -> Result<Depth, String> {
    match variable(COUNTS)?.as_deref() {
        None => Ok(Depth::Default),
        Some("ci") => Ok(Depth::Ci),
        Some("full") => Ok(Depth::Full),
        Some(other) => Err(format!("{COUNTS}={other}: it is \"ci\" or \"full\"")),
    }
}

/// The number in this variable, such as the seed of one run; `None` if not set.
///
/// # Errors
/// It is not a number.
pub fn number(name: &str) -> Result<Option<u64>, String> {
    let text = variable(name)?;
    let number = text.map(|text| {
        text.parse()
            .map_err(|_| format!("{name}={text} is not a number"))
    });
    number.transpose()
}

fn variable(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
