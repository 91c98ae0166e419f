//! A TCP connection that a test makes slow or cuts: a listener on loopback that passes everything on to another
//! loopback address, later, or not before it is told to.
//!
//! It never changes or reorders a byte, drops none but with its whole connection, and does its work on a thread of its
//! own, so that a test that is busy slows nothing down by accident.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// How many pieces may be under way in one direction before the sender has to wait.
const UNDER_WAY: usize = 1024;

/// How many bytes one piece has at most.
const PIECE: usize = 64 << 10;

/// A slow way to one address. Dropping it drops all connections.
pub struct Link {
    address: SocketAddr,
    pace: watch::Sender<Pace>,
    runtime: Option<Runtime>,
}

/// How fast things pass.
#[derive(Clone, Copy, Default)]
struct Pace {
    delay: Duration,
    /// Of answers, beyond that.
    answers_delay: Duration,
    held: Held,
    cut: Option<Cut>,
}

/// Whether answers wait.
#[derive(Clone, Copy, Default)]
enum Held {
    #[default]
    No,
    Until(Instant),
    UntilReleased,
}

/// How a link looks to its two ends while nothing passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// As a network that drops everything: both ends wait. Connections from before and during the cut are reset when
    /// it is mended, and what was under way on them is lost.
    Silent,
    /// As a host that is up and does not know the connection: what is open is reset, and so is what is opened.
    Reset,
}

/// Which way a piece goes.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    There,
    Back,
}

impl Link {
    /// A link to `target` that passes everything on at once.
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be had, or no thread.
    pub fn to(target: SocketAddr) -> Result<Self> {
        Self::start(None, target)
    }

    /// The same, and what passes it comes from `source`, an address of 127.0.0.0/8.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on everything takes this long, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.pace.send_modify(|pace| pace.delay = delay);
    }

    /// From now on answers take this long, beyond any other delay.
    pub fn delay_answers(&self, delay: Duration) {
        self.pace.send_modify(|pace| pace.answers_delay = delay);
    }

    /// From now on nothing passes.
    pub fn cut(&self, cut: Cut) {
        self.pace.send_modify(|pace| pace.cut = Some(cut));
    }

    /// New connections pass again.
    pub fn mend(&self) {
        self.pace.send_modify(|pace| pace.cut = None);
    }

    /// From now on no answer comes back. What is sent still arrives.
    pub fn hold(&self) {
        self.pace
            .send_modify(|pace| pace.held = Held::UntilReleased);
    }

    /// No answer comes back for this long, counted from now.
    pub fn hold_for(&self, time: Duration) {
        let end = Instant::now() + time;
        self.pace.send_modify(|pace| pace.held = Held::Until(end));
    }

    /// The answers that were held back come, in their order.
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
            // Whoever asked sees the connection end, as without a link.
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

/// Passes both directions on until they end or the link is cut.
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

/// Resets connections on which nothing passes any more, as soon as their ends may know.
async fn reset_when_due(connections: &[TcpStream], mut pace: watch::Receiver<Pace>) {
    // It fails when the link is being dropped, and its connections with it.
    let _ = pace.wait_for(|pace| pace.cut != Some(Cut::Silent)).await;
    for connection in connections {
        // Should this fail, the end sees an orderly end in place of a reset.
        let _ = connection.set_zero_linger();
    }
}

/// Passes one direction on until it ends.
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

/// Waits until a piece that came at `came` may go on, whatever is said meanwhile.
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
