//! HTTP responses that stream events.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use super::{
    buffer::BufferReader,
    encode::{Selection, WireEvent, encode},
    item::RunFacts,
    progress::Progress,
};

/// Interval between keep-alive comments on idle streams.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
const HEARTBEAT: &[u8] = b": heartbeat\r\n\r\n";

/// The last event that a client has received: its number, and its position among the wire events with this number.
pub(in crate::langgraph) type EventId = (u64, usize);

/// Streams the events of one run.
pub(in crate::langgraph) struct RunEvents {
    reader: BufferReader,
    selection: Selection,
    facts: Arc<RunFacts>,
    /// Last event that the client has received. Events up to it are not sent.
    seen: Option<EventId>,
    progress: Progress,
    ready: VecDeque<WireEvent>,
}

impl RunEvents {
    /// Creates a stream of the events after the event `seen`. `reader` must start at the first event of the run,
    /// because later events refer to earlier ones.
    pub(in crate::langgraph) fn new(
        reader: BufferReader,
        selection: Selection,
        facts: Arc<RunFacts>,
        seen: Option<EventId>,
    ) -> Self {
        Self {
            reader,
            selection,
            facts,
            seen,
            progress: Progress::default(),
            ready: VecDeque::new(),
        }
    }

    /// Waits for the next event. Returns `None` at the end of the run.
    pub(in crate::langgraph) async fn next(&mut self) -> Option<WireEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if self.seen.is_none_or(|seen| event.id > seen) {
                    return Some(event);
                }
                continue;
            }
            for item in self.reader.next().await? {
                self.progress.add(&item);
                // The event `seen` itself is encoded again, because one buffered event can produce several wire events.
                if self.seen.is_none_or(|(seq, _)| item.seq >= seq) {
                    let events = encode(&item, &self.selection, &self.facts, &self.progress);
                    self.ready.extend(events);
                }
            }
        }
    }
}

/// A source of events for a response.
pub(in crate::langgraph) trait EventSource: Send + 'static {
    /// Waits for the next event. Returns `None` at the end of the stream.
    fn next(&mut self) -> impl Future<Output = Option<WireEvent>> + Send;

    /// Encodes an event.
    fn to_bytes(event: &WireEvent) -> Bytes {
        let WireEvent { id: (seq, part), event, data } = event;
        Bytes::from(format!("event: {event}\r\ndata: {data}\r\nid: {seq}-{part}\r\n\r\n"))
    }
}

impl EventSource for RunEvents {
    async fn next(&mut self) -> Option<WireEvent> {
        Self::next(self).await
    }
}

/// Streams events to a client. `guard` is dropped when the stream ends or the client disconnects.
pub(in crate::langgraph) fn respond<S: EventSource, G: Send + 'static>(
    source: S,
    guard: G,
) -> Response {
    let events = stream::unfold((source, guard), |(mut source, guard)| async move {
        let bytes = match timeout(HEARTBEAT_INTERVAL, source.next()).await {
            Err(_) => Bytes::from_static(HEARTBEAT),
            Ok(Some(event)) => S::to_bytes(&event),
            Ok(None) => return None,
        };
        Some((Ok::<_, Infallible>(bytes), (source, guard)))
    });
    // A layer that compresses the response may poll the stream again after its end.
    let mut response = Response::new(Body::from_stream(events.fuse()));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Prevents proxies from buffering events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Responds with a stream that has no events.
pub(in crate::langgraph) fn empty_stream() -> Response {
    respond(NoEvents, ())
}

struct NoEvents;

impl EventSource for NoEvents {
    async fn next(&mut self) -> Option<WireEvent> {
        None
    }
}

/// Parses the id of an event. `-1` and `-` mean the beginning of the stream.
pub(in crate::langgraph) fn parse_event_id(text: &str) -> Option<EventId> {
    if matches!(text, "-1" | "-") {
        return Some((0, 0));
    }
    let (seq, part) = text.split_once('-').unwrap_or((text, "0"));
    Some((seq.parse().ok()?, part.parse().ok()?))
}
