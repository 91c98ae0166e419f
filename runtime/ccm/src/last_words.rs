//! What a process leaves behind that dies: where it was, in one line of its log. Never the message of a panic, which may hold
//! whatever was at hand, and never a copy of its memory.

use std::panic::PanicHookInfo;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Holds for the whole process from now on.
///
/// # Errors
/// The operating system lets no process do without core files.
pub(crate) fn keep_few() -> anyhow::Result<()> {
    std::panic::set_hook(Box::new(tell));
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).context("cannot switch core files off")
}

fn tell(panic: &PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(
        place,
        thread = thread.name().unwrap_or_default(),
        "a panic, which is a defect; its message is not shown"
    );
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt;

    use super::*;

    const CANARY: &str = "canary-4c1e";

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn h4_a_panic_is_told_by_its_place_and_not_by_its_message() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = fmt().json().with_writer(move || writer.clone()).finish();
        let _guard = tracing::subscriber::set_default(log);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(tell));
        let plain = std::panic::catch_unwind(|| panic!("canary-4c1e"));
        let secret = CANARY.to_owned();
        let composed = std::panic::catch_unwind(|| panic!("it is {secret}"));
        std::panic::set_hook(before);
        assert!(plain.is_err() && composed.is_err());
        let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let told: Vec<_> = log.lines().filter(|line| line.contains(file!())).collect();
        assert_eq!(told.len(), 2, "{log}");
        assert!(!log.contains(CANARY), "{log}");
    }
}
