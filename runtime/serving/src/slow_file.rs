//! Reads files on threads of their own: the one thread of a server also answers the probes, and a file on a volume whose
//! server is away may never be read. Sets no limit to that: each further attempt would hold another thread.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

/// How long a file may take until that is logged.
const SLOW: Duration = Duration::from_secs(10);

/// The content of a file.
pub(crate) async fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut reading = pin!(tokio::fs::read(path));
    if let Ok(read) = timeout(SLOW, &mut reading).await {
        return read;
    }
    tracing::warn!(file = %path.display(), "the file is still being read; its volume may be away");
    reading.await
}
