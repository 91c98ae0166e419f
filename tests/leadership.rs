//! Several `ccm run` on one real kube-apiserver and one simulated cloud, one of which may act at a time. What the API
//! server and the cloud recorded is judged, never what `ccm` says of itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, and their figures are printed"
)]

#[path = "leadership/cases.rs"]
mod cases;
#[path = "leadership/clock.rs"]
mod clock;
#[path = "leadership/defaults.rs"]
mod defaults;
#[path = "leadership/deploy.rs"]
mod deploy;
#[path = "leadership/draw.rs"]
mod draw;
#[path = "leadership/migration.rs"]
mod migration;
#[path = "leadership/oracle.rs"]
mod oracle;
#[path = "leadership/recorder.rs"]
mod recorder;
#[path = "leadership/scene.rs"]
mod scene;
#[path = "leadership/stall.rs"]
mod stall;
#[path = "leadership/trials.rs"]
mod trials;
#[path = "leadership/unelected.rs"]
mod unelected;
#[path = "leadership/work.rs"]
mod work;
#[path = "leadership/world.rs"]
mod world;
