//! Uploads one blob, unless it is there already.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use ccm_host::Digest;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http_body::{Body, Frame, SizeHint};
use reqwest::Method;

use super::Report;
use crate::source::oci::{Ask, Connections, Kind, Progress, Registry, Trouble};

/// What is handed to the connection at a time, and so how finely progress is told.
const PIECE: usize = 64 << 10;
/// Answers to uploads are empty, or say in a few words what is wrong.
const ANSWER_BYTES: usize = 64 << 10;

pub(super) async fn blob(
    registry: &Registry,
    connections: &Connections,
    bytes: Bytes,
    report: Option<Report>,
) -> Result<(), Trouble> {
    let digest = Digest::of(&bytes);
    let there = format!("blobs/{digest}");
    match registry
        .ask_whole(connections, Ask::new(Method::HEAD, &there), 0)
        .await
    {
        Ok(_) => {
            if let Some(report) = report {
                let total = bytes.len() as u64;
                report(Progress { done: total, total });
            }
            return Ok(());
        }
        Err(trouble) if trouble.kind == Kind::Absent => {}
        Err(trouble) => return Err(trouble),
    }
    let begin = Ask::new(Method::POST, "blobs/uploads/");
    let (headers, _) = registry.ask_whole(connections, begin, ANSWER_BYTES).await?;
    let location = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    let nowhere = || Trouble::refused("the registry names no place for an upload");
    let mut location = registry.join(location.ok_or_else(nowhere)?)?;
    location
        .query_pairs_mut()
        .append_pair("digest", &digest.to_string());
    let body = || {
        reqwest::Body::wrap(Pieces {
            left: bytes.clone(),
            total: bytes.len() as u64,
            report: report.clone(),
        })
    };
    let mut ask = Ask::new(Method::PUT, location.as_str());
    let kind = HeaderValue::from_static("application/octet-stream");
    ask.headers.push((CONTENT_TYPE, kind));
    ask.body = Some(&body);
    // As long as it takes: the connection's own patience ends it.
    registry.ask(connections, ask).await?;
    Ok(())
}

/// A body that says how much of it has gone.
struct Pieces {
    left: Bytes,
    total: u64,
    report: Option<Report>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.left.len().min(PIECE);
        let piece = self.left.split_to(size);
        if let Some(report) = &self.report {
            let done = self.total - self.left.len() as u64;
            report(Progress {
                done,
                total: self.total,
            });
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
