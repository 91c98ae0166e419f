//! Logs a panic as one line with its location. Never logs the panic's message, which may hold any data.
//! `ccm_host::confine` ensures that no memory dump is left.

use std::panic::PanicHookInfo;

/// Installs the hook for the whole process.
pub(crate) fn keep_few() {
    std::panic::set_hook(Box::new(log_panic));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
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

    use tracing_subscriber::fmt;

    use super::*;
    use crate::telemetry::tests::Lines;

    const CANARY: &str = "canary-4c1e";

    #[test]
    fn h4_a_panic_is_told_by_its_place_and_not_by_its_message() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = fmt().json().with_writer(move || writer.clone()).finish();
        let _guard = ccm_tests::log::listen(log);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(log_panic));
        let plain = std::panic::catch_unwind(|| panic!("canary-4c1e"));
        let secret = CANARY.to_owned();
        let composed = std::panic::catch_unwind(|| panic!("it is {secret}"));
        std::panic::set_hook(before);
        assert!(plain.is_err() && composed.is_err());
        let log = lines.text();
        let lines: Vec<_> = log.lines().filter(|line| line.contains(file!())).collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(!log.contains(CANARY), "{log}");
    }
}
