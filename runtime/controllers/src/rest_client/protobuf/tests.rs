//! Answers of a kube-apiserver 1.36 in both forms, recorded side by side: `tests/NAME.pb` and `tests/NAME.json`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use ccm_core::node::object::PrunedNode;
use http_body_util::BodyExt as _;
use kube::core::{ObjectList, Status, WatchEvent};
use serde::de::DeserializeOwned;
use serde_json::{Value, to_value};

use super::*;
use crate::pruned_objects::NodeAnswer;

const NODES: &str = "/api/v1/nodes";
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// A body that arrives in these pieces.
struct Pieces(VecDeque<Bytes>);

impl Pieces {
    fn of(bytes: &[u8], length: usize) -> Pieces {
        Pieces(bytes.chunks(length).map(Bytes::copy_from_slice).collect())
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

/// The JSON that an answer of this media type, in these pieces, becomes.
async fn json(media_type: &'static str, pieces: Pieces) -> Result<Vec<u8>, BoxError> {
    let answer = Response::builder().header(CONTENT_TYPE, media_type);
    let answer = NodesAsProtobuf::default().translated(answer.body(pieces).unwrap());
    Ok(answer.into_body().collect().await?.to_bytes().to_vec())
}

/// Both forms, parsed: protobuf through its JSON, and JSON as it was answered.
async fn both<T: DeserializeOwned>(protobuf: &[u8], as_json: &str) -> (T, T) {
    let translated = json(PROTOBUF, Pieces::of(protobuf, 100)).await.unwrap();
    let translated = serde_json::from_slice(&translated).unwrap();
    (translated, serde_json::from_str(as_json).unwrap())
}

#[tokio::test]
async fn a_node_a_list_and_a_refusal_mean_the_same_in_both_forms() {
    let protobuf = include_bytes!("tests/node.pb");
    let (one, other) = both::<PrunedNode>(protobuf, include_str!("tests/node.json")).await;
    assert_eq!(one, other);
    assert_eq!(one.taints().len(), 3);

    let protobuf = include_bytes!("tests/list.pb");
    let (one, other) =
        both::<ObjectList<NodeAnswer>>(protobuf, include_str!("tests/list.json")).await;
    assert_eq!(
        one.metadata.resource_version,
        other.metadata.resource_version
    );
    let nodes = |list: ObjectList<NodeAnswer>| -> Vec<PrunedNode> {
        list.items.into_iter().map(Into::into).collect()
    };
    let (one, other) = (nodes(one), nodes(other));
    assert_eq!(one, other);
    assert_eq!(one.len(), 1);

    let protobuf = include_bytes!("tests/status.pb");
    let (one, other) = both::<Status>(protobuf, include_str!("tests/status.json")).await;
    let told = |status: &Status| {
        let details = status.details.as_ref().unwrap();
        let about = (details.name.clone(), details.kind.clone());
        (
            status.code,
            status.reason.clone(),
            status.message.clone(),
            about,
        )
    };
    assert_eq!(told(&one), told(&other));
    assert_eq!(one.code, 404);
}

#[tokio::test]
async fn events_of_a_watch_mean_the_same_in_both_forms_however_they_are_cut() {
    let read = |lines: &[u8]| -> Vec<(PrunedNode, Option<Value>)> {
        let lines = serde_json::Deserializer::from_slice(lines).into_iter();
        let event = |event: WatchEvent<NodeAnswer>| match event {
            WatchEvent::Added(node) => (node.into(), None),
            WatchEvent::Bookmark(bookmark) => {
                let metadata = to_value(bookmark.metadata).unwrap();
                (PrunedNode::default(), Some(metadata))
            }
            other => panic!("{other:?}"),
        };
        lines.map(|line| event(line.unwrap())).collect()
    };
    let recorded = include_bytes!("tests/watch.pb");
    let expected = read(include_bytes!("tests/watch.json"));
    assert_eq!(expected.len(), 2);
    for length in [1, 7, 1000, recorded.len()] {
        let translated = json(WATCH, Pieces::of(recorded, length)).await.unwrap();
        assert_eq!(read(&translated), expected, "in pieces of {length}");
    }
    // A body that ends within an event ends after the previous one.
    let half = &recorded[..recorded.len() - 1];
    let translated = json(WATCH, Pieces::of(half, 50)).await.unwrap();
    assert_eq!(read(&translated), expected[..1]);
}

/// A Node with the label `k` and a system UUID that are not UTF-8.
const NO_TEXT: &[u8] = b"k8s\0\x0a\x0a\x0a\x02v1\x12\x04Node\x12\x17\
    \x0a\x0b\x0a\x01a\x5a\x06\x0a\x01k\x12\x01\xff\x1a\x08\x3a\x06\x12\x04x\xe2\x82y";

#[tokio::test]
async fn f32_a_text_that_is_not_utf_8_is_read_with_replacements() {
    let translated = json(PROTOBUF, Pieces::of(NO_TEXT, 100)).await.unwrap();
    let node: PrunedNode = serde_json::from_slice(&translated).unwrap();
    assert_eq!(node.name(), "a");
    assert_eq!(node.labels().get("k"), Some("\u{fffd}"));
    assert_eq!(node.system_uuid(), Some("x\u{fffd}\u{fffd}y"));
}

#[tokio::test]
async fn json_passes_unchanged() {
    let text = include_bytes!("tests/watch.json");
    let passed = json("application/json", Pieces::of(text, 11)).await;
    assert_eq!(passed.unwrap(), text);
}

#[tokio::test]
async fn only_whole_nodes_are_asked_for_as_protobuf_and_never_again_once_it_was_unreadable() {
    let asked = Mutex::new(Vec::new());
    let answer: Mutex<&[u8]> = Mutex::new(include_bytes!("tests/node.pb"));
    let protobuf = NodesAsProtobuf::default();
    let send = async |path: &str, accept: &str| {
        let request = Request::get(path).header(ACCEPT, accept).body(()).unwrap();
        let request = protobuf.asked(request);
        let accept = request.headers().get(ACCEPT).cloned();
        asked.lock().unwrap().push(accept == Some(PREFERRED));
        let pieces = Pieces::of(&answer.lock().unwrap(), 500);
        let answer = Response::builder().header(CONTENT_TYPE, PROTOBUF);
        let answer = protobuf.translated(answer.body(pieces).unwrap());
        answer.into_body().collect().await.map(drop)
    };
    let json = "application/json";
    for (path, accept, is_asked) in [
        ("/api/v1/nodes?watch=true", json, true),
        ("/api/v1/nodes/a/status", json, true),
        ("/api/v1/nodesets", json, false),
        ("/api/v1/services", json, false),
        (
            NODES,
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            false,
        ),
    ] {
        send(path, accept).await.unwrap();
        assert_eq!(asked.lock().unwrap().pop(), Some(is_asked), "{path}");
    }
    let magic_and_junk: &[u8] = b"k8s\0\xff\xff\xff";
    for (bytes, is_readable) in [
        (NO_TEXT, true),
        (b"nothing".as_slice(), false),
        (magic_and_junk, false),
    ] {
        *answer.lock().unwrap() = bytes;
        assert_eq!(send(NODES, json).await.is_ok(), is_readable);
    }
    assert_eq!(*asked.lock().unwrap(), [true, true, false]);
}

#[tokio::test]
async fn an_event_that_claims_to_be_endless_ends_the_watch() {
    let claim = json(WATCH, Pieces::of(&[0xff; 64], 64)).await;
    assert_eq!(
        claim.unwrap_err().to_string(),
        "an event of 4294967295 bytes"
    );
}
