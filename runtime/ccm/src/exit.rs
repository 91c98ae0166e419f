//! The exit codes, each with its meaning. Holds no logic. The meaning of a code for one command is in the help of that
//! command; `deploy/docs/reference/exit-codes.md` is made from both.

use std::process::ExitCode;

/// An exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The work is done, or the answer is yes.
    Done = 0,
    /// The command line is wrong, or something could not be read, written or reached.
    Failed = 1,
    /// The answer is no.
    Refused = 2,
    /// There is no answer.
    Unjudged = 3,
}

impl Exit {
    /// All codes, in the order of their numbers.
    #[cfg(test)]
    pub(crate) const ALL: [Exit; 4] = [Exit::Done, Exit::Failed, Exit::Refused, Exit::Unjudged];

    /// The meaning for all commands.
    #[cfg(test)]
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "the work is done, or the answer is yes",
            Exit::Failed => {
                "the command line is wrong, or something could not be read, written or reached"
            }
            Exit::Refused => "the answer is no: a refusal, missing trust, mistakes, or changes",
            Exit::Unjudged => "there is no answer, because not everything could be judged",
        }
    }

    /// The code as a number.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
