//! WATCH: initial objects, changes, bookmarks and the end with 410, as a stream of lines. A watch only reads the
//! history; it never holds the lock while it waits, and a slow reader uses no memory.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::ask::Ask;
use super::field_error::FieldError;
use super::refusal::Refusal;
use super::selector::Selector;
use super::shape::Shape;
use super::store::{Action, Change, Store};
use super::{Inner, kinds::Kind};

/// The annotation of the bookmark after the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// An open watch and the filter of its client.
pub(super) struct Watch {
    inner: Arc<Inner>,
    wake: watch::Receiver<u64>,
    kind: &'static Kind,
    prefix: String,
    selector: Selector,
    shape: Shape,
    wants_bookmarks: bool,
    /// The revision up to which all changes were sent.
    sent: u64,
    expiries: u64,
    bookmarks: u64,
    endings: u64,
    lines: VecDeque<Bytes>,
    ended: bool,
}

impl Watch {
    /// Opens a watch; its initial events are fixed while the caller holds the store.
    pub(super) fn open(inner: &Arc<Inner>, store: &Store, ask: &Ask) -> Result<Self, Refusal> {
        check_options(ask)?;
        let mut opened = Self {
            inner: inner.clone(),
            wake: inner.changed.subscribe(),
            kind: ask.kind,
            prefix: ask.prefix(),
            selector: ask.selector()?,
            shape: ask.shape,
            wants_bookmarks: ask.flag("allowWatchBookmarks") == Some(true),
            sent: ask.revision()?,
            expiries: store.expiries(),
            bookmarks: store.bookmarks(),
            endings: store.endings(),
            lines: VecDeque::new(),
            ended: false,
        };
        let anywhere = matches!(ask.text("resourceVersion"), "" | "0");
        let initial = ask.flag("sendInitialEvents");
        if initial.unwrap_or(anywhere) {
            super::read::not_in_the_future(store, ask)?;
            opened.send_all(store);
            if initial == Some(true) && opened.wants_bookmarks {
                opened.bookmark(json!({INITIAL_END: "true"}));
            }
        } else if anywhere {
            opened.sent = store.revision();
        }
        Ok(opened)
    }

    /// The response body: one line for each event, until the watch ends.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        futures::stream::unfold(self, |mut open| async move {
            let line = open.next().await?;
            Some((Ok(Frame::data(line)), open))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            // Mark as seen before reading, so that a write between reading and waiting wakes the watch.
            self.wake.borrow_and_update();
            let inner = self.inner.clone();
            self.look(&inner.world.lock().store);
            if self.lines.is_empty() && !self.ended && self.wake.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Converts the changes since the last call into lines.
    fn look(&mut self, store: &Store) {
        if self.expiries != store.expiries() || self.sent < store.compacted() {
            let message = format!(
                "too old resource version: {} ({})",
                self.sent,
                store.compacted()
            );
            self.line("ERROR", &Refusal::expired(message).status());
            self.ended = true;
            return;
        }
        let changes: Vec<Change> = store
            .changes_after(self.sent, self.kind.collection)
            .filter(|change| change.key.starts_with(&self.prefix))
            .cloned()
            .collect();
        for change in &changes {
            self.change(change);
        }
        self.sent = self.sent.max(store.revision());
        self.ended = self.endings != store.endings();
        if self.bookmarks != store.bookmarks() {
            self.bookmarks = store.bookmarks();
            if self.wants_bookmarks {
                self.bookmark(Value::Null);
            }
        }
    }

    /// Applies the selector to a change: an object that enters the selection is added, one that leaves it is deleted.
    fn change(&mut self, change: &Change) {
        let before = change
            .previous
            .as_ref()
            .is_some_and(|previous| self.selector.matches(previous));
        let after = change.action != Action::Deleted && self.selector.matches(&change.object);
        match (before, after) {
            (false, false) => {}
            (false, true) => self.object("ADDED", &change.object),
            (true, true) => self.object("MODIFIED", &change.object),
            (true, false) => {
                // The last selected state, with the revision of the change.
                let mut last = change.previous.as_deref().cloned().unwrap_or_default();
                super::metadata::set(&mut last, "resourceVersion", change.revision.to_string());
                self.object("DELETED", &last);
            }
        }
    }

    fn send_all(&mut self, store: &Store) {
        let prefix = self.prefix.clone();
        for (_, object) in store.scan(self.kind.collection, &prefix) {
            if self.selector.matches(object) {
                self.object("ADDED", object);
            }
        }
        self.sent = store.revision();
    }

    fn bookmark(&mut self, annotations: Value) {
        let mut object = (self.kind.always)();
        object["metadata"] = json!({"resourceVersion": self.sent.to_string()});
        if !annotations.is_null() {
            object["metadata"]["annotations"] = annotations;
        }
        self.object("BOOKMARK", &object);
    }

    fn object(&mut self, event: &str, kept: &Value) {
        let object = self.shape.object(self.kind, kept);
        self.line(event, &object);
    }

    fn line(&mut self, event: &str, object: &Value) {
        let mut line = json!({"type": event, "object": object}).to_string();
        line.push('\n');
        self.lines.push_back(Bytes::from(line));
    }
}

fn check_options(ask: &Ask) -> Result<(), Refusal> {
    let mut errors = Vec::new();
    let matching = ask.text("resourceVersionMatch");
    let path = "resourceVersionMatch";
    let initial = ask.flag("sendInitialEvents").is_some();
    if initial && matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(path, detail));
    }
    if !matching.is_empty() {
        if !initial {
            let detail =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(path, detail));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::unsupported(
                path,
                &matching.into(),
                &["NotOlderThan"],
            ));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid("meta.k8s.io", "ListOptions", "", &errors))
    }
}
