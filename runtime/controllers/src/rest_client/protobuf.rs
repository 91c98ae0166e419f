//! Nodes as protobuf: requests for nodes ask for it, and the answers become JSON of the fields that controllers read
//! ([`node`]) before anything else sees them. Protobuf takes an API server a third of the processor time that JSON takes,
//! and most of a node is skipped here unread. JSON answers are passed on unchanged; after an unreadable protobuf answer,
//! the API server is asked for JSON. Sends and retries nothing.

mod message;
mod node;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use hyper::body::{Body, Frame, SizeHint};
use tower::BoxError;

use message::{Unreadable, event, object};

/// The media type of Kubernetes' protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Preferred over JSON, which every API server has.
const PREFERRED: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Maximum length of one watch event, in bytes. etcd stores objects of at most 1.5 MiB by default.
const MOST_EVENT: usize = 16 << 20;

/// Makes requests for nodes ask for protobuf. Clones share whether that has failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodesAsProtobuf {
    is_refused: Arc<AtomicBool>,
}

impl NodesAsProtobuf {
    /// The request, which prefers protobuf if it is for nodes.
    pub(crate) fn asked<I>(&self, mut request: Request<I>) -> Request<I> {
        if wants_nodes(&request) && !self.is_refused.load(Ordering::Relaxed) {
            request.headers_mut().insert(ACCEPT, PREFERRED);
        }
        request
    }

    /// The answer to such a request, as JSON.
    pub(crate) fn translated<O>(&self, answer: Response<O>) -> Response<Translated<O>> {
        let (mut head, body) = answer.into_parts();
        let media_type = head.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|media_type| media_type.to_str().ok());
        let parameters = media_type.and_then(|media_type| media_type.strip_prefix(PROTOBUF));
        let form = match parameters {
            None => Form::Json,
            Some(parameters) if parameters.contains("stream=watch") => {
                Form::Events(BytesMut::new())
            }
            Some(_) => Form::Object(BytesMut::new()),
        };
        if !matches!(form, Form::Json) {
            head.headers.insert(CONTENT_TYPE, JSON);
            head.headers.remove(CONTENT_LENGTH);
        }
        let body = Translated {
            body: Box::pin(body),
            form,
            is_refused: self.is_refused.clone(),
        };
        Response::from_parts(head, body)
    }
}

/// Whether the request is for whole nodes. Requests for metadata alone have another `Accept`.
fn wants_nodes<I>(request: &Request<I>) -> bool {
    let rest = request.uri().path().strip_prefix("/api/v1/nodes");
    let is_of_nodes = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let accept = request.headers().get(ACCEPT);
    is_of_nodes && accept.is_none_or(|accept| *accept == JSON)
}

/// The body of an answer, as JSON.
pub(crate) struct Translated<O> {
    body: Pin<Box<O>>,
    form: Form,
    /// Set when the body cannot be read; then JSON is asked for.
    is_refused: Arc<AtomicBool>,
}

/// The form of the body, and the bytes that have arrived and not been translated.
enum Form {
    /// JSON, passed on unchanged.
    Json,
    /// One object, or a list, translated at its end.
    Object(BytesMut),
    /// Events of a watch, each preceded by its length.
    Events(BytesMut),
    /// The body has ended.
    Ended,
}

/// The number of bytes that are missing from the event that `arrived` begins with, or from its length.
fn missing(arrived: &[u8]) -> Result<usize, Unreadable> {
    let Some(length) = arrived.first_chunk::<4>() else {
        return Ok(4 - arrived.len());
    };
    match u32::from_be_bytes(*length) as usize {
        length if length > MOST_EVENT => Err(Unreadable::TooLong(length)),
        length => Ok((4 + length).saturating_sub(arrived.len())),
    }
}

/// The JSON of the events that are complete with this `data`; `arrived` is an event that was not. An event that arrives in
/// one piece is not copied.
fn events(arrived: &mut BytesMut, mut data: Bytes) -> Result<Option<Bytes>, Unreadable> {
    let mut lines = Vec::new();
    while !data.is_empty() {
        if arrived.is_empty() && data.len() >= 4 && missing(&data)? == 0 {
            let length = data.get_u32() as usize;
            event(data.split_to(length), &mut lines)?;
            continue;
        }
        let wanted = missing(arrived)?;
        // At once, since this is nearly the whole of the event.
        arrived.reserve(wanted);
        arrived.extend_from_slice(&data.split_to(wanted.min(data.len())));
        if arrived.len() >= 4 && missing(arrived)? == 0 {
            let mut whole = arrived.split().freeze();
            whole.advance(4);
            event(whole, &mut lines)?;
        }
    }
    Ok((!lines.is_empty()).then(|| Bytes::from(lines)))
}

impl<O> Translated<O> {
    /// The JSON of the whole object, at the end. An incomplete event is dropped.
    fn last(&mut self) -> Result<Option<Bytes>, Unreadable> {
        match std::mem::replace(&mut self.form, Form::Ended) {
            Form::Object(arrived) => {
                let mut json = Vec::new();
                object(arrived.freeze(), &mut json)?;
                Ok(Some(Bytes::from(json)))
            }
            Form::Json | Form::Events(_) | Form::Ended => Ok(None),
        }
    }

    fn passed_on(
        &mut self,
        json: Result<Option<Bytes>, Unreadable>,
    ) -> Option<Result<Frame<Bytes>, BoxError>> {
        match json {
            Ok(json) => json.map(|json| Ok(Frame::data(json))),
            Err(error) => {
                tracing::warn!(%error, "nodes are read as JSON from now on: the API server's protobuf cannot be read");
                self.is_refused.store(true, Ordering::Relaxed);
                self.form = Form::Ended;
                Some(Err(error.into()))
            }
        }
    }
}

impl<O> Body for Translated<O>
where
    O: Body<Data = Bytes>,
    O::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Form::Ended = self.form {
                return Poll::Ready(None);
            }
            let frame = match ready!(self.body.as_mut().poll_frame(context)) {
                Some(frame) => frame.map_err(Into::into)?,
                None => {
                    let last = self.last();
                    return Poll::Ready(self.passed_on(last));
                }
            };
            let next = match (&mut self.form, frame.into_data()) {
                (Form::Json, Ok(data)) => Ok(Some(data)),
                (Form::Events(arrived), Ok(data)) => events(arrived, data),
                (Form::Object(arrived), Ok(data)) => {
                    arrived.extend_from_slice(&data);
                    continue;
                }
                // Trailers.
                (_, Err(_)) | (Form::Ended, _) => continue,
            };
            if let Some(frame) = self.passed_on(next) {
                return Poll::Ready(Some(frame));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.form {
            Form::Json => self.body.is_end_stream(),
            Form::Object(_) | Form::Events(_) => false,
            Form::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.form {
            Form::Json => self.body.size_hint(),
            Form::Object(_) | Form::Events(_) | Form::Ended => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests;
