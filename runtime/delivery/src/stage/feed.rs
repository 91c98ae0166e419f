//! The source's own task: whatever it brings is passed on, the latest only, and it can be asked for bytes again. A look
//! that takes long keeps nobody waiting but the next look.

use std::sync::Arc;

use ccm_core::rollout::Release;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::artifact::Artifact;
use crate::source::{Source, SourceError};

/// What came.
pub(super) enum Fed {
    /// There is a source, and this is its place.
    Place(String),
    /// It offers this.
    Offered(Arc<Artifact>),
    /// It offers nothing, or cannot be asked.
    Trouble(SourceError),
}

/// A request for these very bytes.
pub(super) struct Again {
    release: Release,
    answer: oneshot::Sender<Result<Artifact, SourceError>>,
}

/// Asks for bytes again.
#[derive(Clone)]
pub(super) struct Asks(mpsc::Sender<Again>);

impl Asks {
    /// The very bytes of `release`. `None`: there is no source.
    pub(super) async fn bytes(&self, release: &Release) -> Option<Result<Artifact, SourceError>> {
        let (answer, brought) = oneshot::channel();
        let again = Again {
            release: release.clone(),
            answer,
        };
        self.0.send(again).await.ok()?;
        brought.await.ok()
    }
}

/// See the module's documentation. The task ends with it.
pub(super) struct Feed {
    fed: mpsc::Receiver<Fed>,
    asks: Asks,
    task: AbortHandle,
}

impl Feed {
    /// Begins with the first source that comes.
    pub(super) fn start(sources: mpsc::Receiver<Box<dyn Source>>) -> Feed {
        let (feeds, fed) = mpsc::channel(1);
        let (asks, asked) = mpsc::channel(1);
        let task = tokio::spawn(serve(sources, feeds, asked));
        Feed {
            fed,
            asks: Asks(asks),
            task: task.abort_handle(),
        }
    }

    /// What comes next. May be dropped at any moment.
    pub(super) async fn next(&mut self) -> Option<Fed> {
        self.fed.recv().await
    }

    /// Asks for bytes again.
    pub(super) fn again(&self) -> Asks {
        self.asks.clone()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut sources: mpsc::Receiver<Box<dyn Source>>,
    feeds: mpsc::Sender<Fed>,
    mut asked: mpsc::Receiver<Again>,
) {
    let Some(mut source) = sources.recv().await else {
        return;
    };
    if feeds
        .send(Fed::Place(source.place().to_owned()))
        .await
        .is_err()
    {
        return;
    }
    loop {
        let fed = tokio::select! {
            biased;
            Some(other) = sources.recv() => {
                source = other;
                Fed::Place(source.place().to_owned())
            }
            Some(Again { release, answer }) = asked.recv() => {
                // Whoever asked may have gone.
                let _ = answer.send(source.again(&release).await);
                continue;
            }
            brought = source.next() => match brought {
                Ok(artifact) => Fed::Offered(Arc::new(artifact)),
                Err(error) => Fed::Trouble(error),
            },
        };
        if feeds.send(fed).await.is_err() {
            return;
        }
    }
}
