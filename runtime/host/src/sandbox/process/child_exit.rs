//! Why a sandbox process has ended. Ends none.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Child;

use super::ProcessEnd;
use crate::compile::child::signal_from_outside;
use crate::limits;
use crate::sanitize::clean;

/// Exit status and error output of a child that ended.
pub(super) async fn exit_output(child: &mut Child) -> ProcessEnd {
    let mut output = Vec::new();
    let exit_timeout = Duration::from_secs(1);
    if let Some(stderr) = child.stderr.take() {
        let cap = limits::COMPILE_MESSAGE_BYTES as u64;
        let mut stderr = stderr.take(cap);
        // Waits only briefly for error output.
        let _ = tokio::time::timeout(exit_timeout, stderr.read_to_end(&mut output)).await;
    }
    let output = clean(String::from_utf8_lossy(&output).trim(), limits::ERROR_BYTES);
    let Ok(Ok(status)) = tokio::time::timeout(exit_timeout, child.wait()).await else {
        return ProcessEnd::of_child(output);
    };
    match signal_from_outside(status) {
        Some(signal) => ProcessEnd::from_outside(format!("it was ended from outside: {signal}")),
        None if output.is_empty() => ProcessEnd::of_child(status.to_string()),
        None => ProcessEnd::of_child(format!("{status}: {output}")),
    }
}
