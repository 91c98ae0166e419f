//! Turns an answer into an HTTP response whose body travels as described.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::time::sleep;

use super::answer::{Answer, Delivery};

/// Long enough for half an answer to leave the process.
const FLUSH: Duration = Duration::from_millis(50);

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(super) fn response(answer: Answer) -> Response<Body> {
    let length = answer.body.len() as u64;
    let (body, declared) = match answer.delivery {
        Delivery::Whole => (
            Full::new(answer.body)
                .map_err(|never| match never {})
                .boxed_unsync(),
            None,
        ),
        Delivery::Drip { piece, pause } => {
            let pieces = stream::unfold(answer.body, move |mut rest| async move {
                if rest.is_empty() {
                    return None;
                }
                sleep(pause).await;
                let next = rest.split_to(piece.min(rest.len()));
                Some((Ok(Frame::data(next)), rest))
            });
            (StreamBody::new(pieces).boxed_unsync(), Some(length))
        }
        Delivery::Cut => {
            let half = answer.body.slice(..answer.body.len() / 2);
            let pieces = stream::unfold(Some(half), |half| async move {
                let Some(half) = half else {
                    // An error at once would take the half back that is still in a buffer.
                    sleep(FLUSH).await;
                    return Some((Err(io::ErrorKind::ConnectionAborted.into()), None));
                };
                Some((Ok(Frame::data(half)), None))
            });
            (StreamBody::new(pieces).boxed_unsync(), Some(length))
        }
        Delivery::Blanks { count, declared } => {
            let whole = count.saturating_add(length);
            (blanks_before(answer.body, count), declared.then_some(whole))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    response.headers_mut().extend(answer.headers);
    if let Some(length) = declared {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

fn blanks_before(body: Bytes, count: u64) -> Body {
    static BLANKS: [u8; 1 << 16] = [b' '; 1 << 16];
    let pieces = stream::unfold((count, Some(body)), |(left, body)| async move {
        if left == 0 {
            return body.map(|body| (Ok(Frame::data(body)), (0, None)));
        }
        let piece = left.min(BLANKS.len() as u64);
        let blanks = BLANKS.get(..piece as usize).unwrap_or_default();
        Some((
            Ok(Frame::data(Bytes::from_static(blanks))),
            (left - piece, body),
        ))
    });
    StreamBody::new(pieces).boxed_unsync()
}
