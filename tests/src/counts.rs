//! How much the suites try: runs, draws, calls. Few by default, so that `cargo test` finds what a change breaks within
//! minutes; more in CI; all of it for the figures in the documentation.

/// The variable that chooses for all suites: `ci` or `full`.
pub const COUNTS: &str = "CCM_COUNTS";

/// How much one suite tries.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// A variable that says another number for this suite alone.
    pub variable: &'static str,
    /// Without a word from outside.
    pub default: u64,
    /// With `CCM_COUNTS=ci`.
    pub ci: u64,
    /// With `CCM_COUNTS=full`.
    pub full: u64,
}

impl Count {
    /// The number to try.
    ///
    /// # Errors
    /// A variable has a value that it cannot have; the text names it.
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

/// Which of its counts every suite takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What a change needs while it is made.
    Default,
    /// What a change needs to land.
    Ci,
    /// What the documentation's figures need.
    Full,
}

/// The depth that [`COUNTS`] says.
///
/// # Errors
/// It says neither `ci` nor `full`.
pub fn depth() -> Result<Depth, String> {
    match variable(COUNTS)?.as_deref() {
        None => Ok(Depth::Default),
        Some("ci") => Ok(Depth::Ci),
        Some("full") => Ok(Depth::Full),
        Some(other) => Err(format!("{COUNTS}={other}: it is \"ci\" or \"full\"")),
    }
}

/// The number that this variable has, such as the seed of one run; `None`: nobody has set it.
///
/// # Errors
/// It is no number.
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
