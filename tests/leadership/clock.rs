//! A wall clock that steps under one process: libfaketime (Debian's package of that name), never the machine's clock.
//!
//! Only `CLOCK_REALTIME` steps, as the C library returns it, and so all dates that the program writes: the Lease's
//! times, its Events, its log. The duration of a lease is measured with another clock, by a direct system call, and no
//! timeout changes either: `CLOCK_MONOTONIC` is left alone on purpose, since no machine exists whose monotonic clock
//! steps.

use std::fs;
use std::path::PathBuf;

use crate::world::{Replica, World};

const HOUR: i32 = 60 * 60;

/// The library, by `CCM_LIBFAKETIME` or where Debian has it.
fn library() -> PathBuf {
    if let Ok(path) = std::env::var("CCM_LIBFAKETIME") {
        return path.into();
    }
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries
        .find(|library| library.exists())
        .expect("libfaketime: on Debian apt-get install libfaketime, elsewhere set CCM_LIBFAKETIME")
}

/// Starts a process whose clock can step, and does not yet.
pub(crate) fn start_replica(world: &mut World) -> u32 {
    let file = world
        .folder
        .path()
        .join(format!("clock-{}", world.replicas.len()));
    let file = file.with_extension(world.recorder.traffic().len().to_string());
    fs::write(&file, "+0\n").unwrap();
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = [
        variable("LD_PRELOAD", library().to_str().unwrap()),
        variable("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        variable("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        // libfaketime reads the file again after this many seconds.
        variable("FAKETIME_CACHE_DURATION", "1"),
    ];
    world.start_with(&variables, Some(file))
}

/// Steps the clock by an hour, and returns the seconds.
pub(crate) fn step(replica: &mut Replica, back: bool) -> i32 {
    let seconds = if back { -HOUR } else { HOUR };
    let file = replica.clock.as_ref().expect("a process with a clock");
    // Replaced atomically: half a file would be an invalid time.
    let next = file.with_extension("next");
    fs::write(&next, format!("{seconds:+}\n")).unwrap();
    fs::rename(&next, file).unwrap();
    seconds
}

/// Asserts that a process's clock has stepped this far, by the times that it writes into the Lease.
pub(crate) fn assert_offset(world: &World, replica: u32, seconds: i32) {
    let offset = world.recorder.clock_offset(replica);
    let is_there = offset.is_some_and(|offset| (offset - f64::from(seconds)).abs() < 10.0);
    assert!(
        is_there,
        "the clock of {replica} is {offset:?} s off, not {seconds}"
    );
}
