//! How the end of a child is explained. The behaviour of a real child is tested in other crates, which have its
//! program.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;
use crate::load_error::LoadErrorKind;

const LIMITS: ChildLimits = ChildLimits {
    memory_mib: 100,
    cpu_seconds: 7,
};

fn check(status: ExitStatus, message: &str, expected: &str) {
    assert_eq!(explain(status, message, LIMITS).to_string(), expected);
}

#[test]
fn the_end_of_a_child_has_one_reason() {
    let exit = |code: i32| ExitStatus::from_raw(code << 8);
    let signal = ExitStatus::from_raw;
    check(
        exit(65),
        "unknown section\n",
        "the module is not valid: unknown section",
    );
    check(
        signal(6),
        "memory allocation of 4096 bytes failed",
        "compiling needs more than 100 MiB of memory",
    );
    check(
        exit(65),
        "Cannot allocate memory (os error 12)",
        "compiling needs more than 100 MiB of memory",
    );
    // Names that a module chose are not the system's words.
    for name in [
        "Resource temporarily unavailable",
        "out of memory",
        "os error 12",
    ] {
        let message = format!("duplicate export name `{name}` already defined");
        let expected = format!("the module is not valid: {message}");
        check(exit(65), &message, &expected);
    }
    check(signal(24), "", "compiling needs more than 7 s of CPU time");
    check(
        signal(9),
        "",
        "the compiler was ended from outside: signal 9; the machine, or its container, may be short of memory",
    );
    check(
        signal(15),
        "",
        "the compiler was ended from outside: signal 15",
    );
    check(
        exit(71),
        "Operation not permitted (os error 1)",
        "the compiler cannot work on this machine: Operation not permitted (os error 1)",
    );
    check(
        exit(101),
        "panicked at x.rs",
        "the compiler crashed: exit code 101: panicked at x.rs",
    );
    check(signal(11), "", "the compiler crashed: signal 11: ");
    check(exit(0), "", "the compiler crashed: exit code 0: ");
}

#[test]
fn what_a_child_says_is_shown_harmlessly() {
    let error = explain(ExitStatus::from_raw(65 << 8), "a\u{1b}[31m\nb", LIMITS).to_string();
    assert_eq!(error, "the module is not valid: a\\u{1b}[31m b");
}

#[test]
fn limits_can_only_be_lowered() {
    let standard = ChildLimits::of(std::iter::empty());
    assert_eq!(
        standard,
        ChildLimits {
            memory_mib: 1536,
            cpu_seconds: 60
        }
    );
    let of = |arguments: &[&str]| ChildLimits::of(arguments.iter().map(OsStr::new));
    assert_eq!(
        of(&["ccm", "__compile", "--memory-mib=100", "--cpu-seconds=7"]),
        LIMITS
    );
    assert_eq!(of(&["--memory-mib=99999", "--cpu-seconds=99999"]), standard);
    assert_eq!(
        of(&["--memory-mib=", "--memory-mib", "-1", "--memory-mib=-1"]),
        standard
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_end_is_ended() {
    let compiler = Compiler {
        program: "/bin/sleep".into(),
        arguments: vec!["3600".into()],
    };
    let error = compile(&compiler, b"").await.err().unwrap();
    assert!(matches!(error, CompileError::TimedOut(90)), "{error}");
}

#[test]
fn a_compiler_that_was_ended_from_outside_or_cannot_work_here_is_not_the_modules_fault() {
    let exit = |code: i32| ExitStatus::from_raw(code << 8);
    let signal = ExitStatus::from_raw;
    for (status, message, expected) in [
        // The kernel is short of memory.
        (signal(9), "", true),
        // A closed or interrupted terminal, or a service manager that stops all processes of a unit.
        (signal(1), "", true),
        (signal(2), "", true),
        (signal(3), "", true),
        (signal(15), "", true),
        (exit(71), "Operation not permitted (os error 1)", true),
        (exit(71), "Cannot allocate memory (os error 12)", true),
        // The machine, or its container, has as many processes and threads as it may have.
        (
            exit(101),
            "The global thread pool has not been initialized.: ThreadPoolBuildError { kind: IOError(Os { code: 11, \
             kind: WouldBlock, message: \"Resource temporarily unavailable\" }) }",
            true,
        ),
        (signal(24), "", false),
        (signal(6), "memory allocation of 4096 bytes failed", false),
        (signal(11), "", false),
        (exit(65), "unknown section", false),
        (exit(101), "panicked at x.rs", false),
    ] {
        let kind = LoadErrorKind::Compile(explain(status, message, LIMITS));
        let error = kind.of("cloud.wasm");
        assert_eq!(error.is_of_host(), expected, "{status}: {message}");
    }
}
