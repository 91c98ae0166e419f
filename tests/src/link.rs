//! A TCP proxy for tests: listens on loopback and forwards to another loopback address, with a delay, on release, or
//! not at all.
//!
//! It never changes or reorders a byte, and drops bytes only with the whole connection. It runs on its own thread, so
//! that a busy test does not slow it down by accident.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Maximum number of pieces in flight per direction before the sender blocks.
const UNDER_WAY: usize = 1024;

/// Maximum size of a piece, in bytes.
const PIECE: usize = 64 << 10;

/// A proxy to one address. Dropping it drops all connections.
pub struct Link {
    address: SocketAddr,
    pace: watch::Sender<Pace>,
    runtime: Option<Runtime>,
}

/// The current forwarding mode.
#[derive(Clone, Copy, Default)]
struct Pace {
    delay: Duration,
    /// Additional delay of responses.
    answers_delay: Duration,
    held: Held,
    cut: Option<Cut>,
}

/// Whether responses are held.
#[derive(Clone, Copy, Default)]
enum Held {
    #[default]
    No,
    Until(Instant),
    UntilReleased,
}

/// How a cut link behaves towards both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// Like a network that drops all packets: both ends wait. Connections opened before or during the cut are reset
    /// when it is mended, and their data in flight is lost.
    Silent,
    /// Like a host that is up and does not know the connection: existing and new connections are reset.
    Reset,
}

/// The direction of a piece.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    There,
    Back,
}

impl Link {
    /// A link to `target` without delay.
    ///
    /// # Errors
    /// No port of 127.0.0.1 is free, or no thread can be started.
    pub fn to(target: SocketAddr) -> Result<Self> {
        Self::start(None, target)
    }

    /// As [`Link::to`], but connects to `target` from `source`, an address of 127.0.0.0/8.
    ///
    /// # Errors
    /// As [`Link::to`].
    pub fn between(source: Ipv4Addr, target: SocketAddr) -> Result<Self> {
        Self::start(Some(source), target)
    }

    fn start(source: Option<Ipv4Addr>, target: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start a link's thread")?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .context("cannot find a free port for a link")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (pace, observed) = watch::channel(Pace::default());
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        runtime.spawn(listen(listener, source, target, observed));
        Ok(Self {
            address,
            pace,
            runtime: Some(runtime),
        })
    }

    /// The address on which the link listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays everything by this time from now on, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.pace.send_modify(|pace| pace.delay = delay);
    }

    /// Delays responses by this time from now on, in addition to any other delay.
    pub fn delay_answers(&self, delay: Duration) {
        self.pace.send_modify(|pace| pace.answers_delay = delay);
    }

    /// Cuts the link: nothing passes.
    pub fn cut(&self, cut: Cut) {
        self.pace.send_modify(|pace| pace.cut = Some(cut));
    }

    /// Ends a cut: new connections pass again.
    pub fn mend(&self) {
        self.pace.send_modify(|pace| pace.cut = None);
    }

    /// Holds all responses from now on. Requests still arrive.
    pub fn hold(&self) {
        self.pace
            .send_modify(|pace| pace.held = Held::UntilReleased);
    }

    /// Holds all responses for this time from now.
    pub fn hold_for(&self, time: Duration) {
        let end = Instant::now() + time;
        self.pace.send_modify(|pace| pace.held = Held::Until(end));
    }

    /// Releases the held responses, in order.
    pub fn release(&self) {
        self.pace.send_modify(|pace| pace.held = Held::No);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn listen(
    listener: TcpListener,
    source: Option<Ipv4Addr>,
    target: SocketAddr,
    pace: watch::Receiver<Pace>,
) {
    while let Ok((near, _)) = listener.accept().await {
        let pace = pace.clone();
        tokio::spawn(async move {
            if pace.borrow().cut.is_some() {
                reset_when_due(&[near], pace).await;
                return;
            }
            // The client sees the connection end, as without a link.
            let Ok(far) = connect(source, target).await else {
                return;
            };
            carry(near, far, pace).await;
        });
    }
}

async fn connect(source: Option<Ipv4Addr>, target: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(source) = source {
        socket.bind((source, 0).into())?;
    }
    socket.connect(target).await
}

/// Forwards both directions until they end or the link is cut.
async fn carry(mut near: TcpStream, mut far: TcpStream, pace: watch::Receiver<Pace>) {
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let is_cut = {
        let (near_in, near_out) = near.split();
        let (far_in, far_out) = far.split();
        let mut observed = pace.clone();
        let passing = async {
            tokio::join!(
                pass(near_in, far_out, Direction::There, pace.clone()),
                pass(far_in, near_out, Direction::Back, pace.clone()),
            )
        };
        tokio::select! {
            _ = passing => false,
            _ = observed.wait_for(|pace| pace.cut.is_some()) => true,
        }
    };
    if is_cut {
        reset_when_due(&[near, far], pace).await;
    }
}

/// Resets connections of a cut link as soon as their ends may notice the cut.
async fn reset_when_due(connections: &[TcpStream], mut pace: watch::Receiver<Pace>) {
    // Fails when the link and its connections are being dropped.
    let _ = pace.wait_for(|pace| pace.cut != Some(Cut::Silent)).await;
    for connection in connections {
        // If this fails, the end sees an orderly close instead of a reset.
        let _ = connection.set_zero_linger();
    }
}

/// Forwards one direction until it ends.
async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: Direction,
    mut pace: watch::Receiver<Pace>,
) {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let read = async move {
        let mut buffer = vec![0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let piece = (Instant::now(), buffer[..length].to_vec());
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((came, piece)) = pieces.recv().await {
            wait(came, direction, &mut pace).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The other end may be gone already.
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

/// Waits until a piece that arrived at `came` is due, and reacts to mode changes meanwhile.
async fn wait(came: Instant, direction: Direction, pace: &mut watch::Receiver<Pace>) {
    loop {
        let now = *pace.borrow_and_update();
        let mut due = came + now.delay;
        if direction == Direction::Back {
            due += now.answers_delay;
        }
        let due = match now.held {
            Held::Until(end) if direction == Direction::Back => Some(due.max(end)),
            Held::UntilReleased if direction == Direction::Back => None,
            Held::No | Held::Until(_) | Held::UntilReleased => Some(due),
        };
        if due.is_some_and(|due| due <= Instant::now()) {
            return;
        }
        let arrives = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = arrives => {}
            // The link is being dropped, and this task with it.
            changed = pace.changed() => if changed.is_err() { return },
        }
    }
}
