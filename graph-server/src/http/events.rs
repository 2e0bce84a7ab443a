//! A run's events as server-sent events.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, header, request::Parts},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        KnownFormat, Object, Required, SchemaFormat, Type,
        path::{Parameter, ParameterIn},
    },
};

use super::{Metrics, Params, Problem};
use crate::{
    run::{RunEvent, Status},
    service::{Read, Reader},
};

/// A sign of life goes out when nothing else did for so long.
const BEAT: Duration = Duration::from_secs(5);

/// No event has a larger number.
const LARGEST: u64 = i64::MAX.unsigned_abs();

/// How many readers there may be at once.
#[derive(Debug, Clone)]
pub struct EventStreams {
    free: Arc<Semaphore>,
    metrics: Metrics,
}

/// Where a reader wants to start: after the event it saw last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub u64);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    after: Option<u64>,
}

/// What a document says of it.
impl IntoParams for Place {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let number = Object::builder()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0))
            .build();
        let param = |name: &str, place, description| {
            let param =
                Parameter::builder().name(name).parameter_in(place).required(Required::False);
            param.description(Some(description)).schema(Some(number.clone())).build()
        };
        let header = "The same; it goes before `after`, since browsers send it when they come back";
        vec![
            param("after", ParameterIn::Query, "Only events after this one"),
            param("Last-Event-ID", ParameterIn::Header, header),
        ]
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Params(After { after }) = Params::from_request_parts(parts, state).await?;
        let after = after.unwrap_or(0);
        let seen = match parts.headers.get("last-event-id") {
            None => Some(after),
            Some(seen) => seen.to_str().ok().and_then(|it| it.trim().parse().ok()),
        };
        let wrong = || Problem::invalid("`after` and Last-Event-ID are numbers of events");
        seen.filter(|it| after.max(*it) <= LARGEST).map(Self).ok_or_else(wrong)
    }
}

impl EventStreams {
    /// At most so many at once.
    pub fn new(most: usize, metrics: Metrics) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), metrics }
    }

    fn take(&self) -> Result<Open, Problem> {
        let full = |_| Problem::too_many("too many streams are open", 5);
        let permit = self.free.clone().try_acquire_owned().map_err(full)?;
        self.metrics.streams.inc();
        Ok(Open { metrics: self.metrics.clone(), _permit: permit })
    }
}

/// An open stream, until it is dropped.
struct Open {
    metrics: Metrics,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.streams.dec();
    }
}

/// What is sent: an event of a run, or at the end where the run stands.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
pub struct Message {
    /// The event's number. The last message has none.
    pub id: Option<String>,
    /// `end` for the last message, and nothing for the others.
    pub event: Option<String>,
    /// JSON: the event, or where the run stands as `{"status": "complete"}`.
    #[schema(value_type = String)]
    pub data: Arc<str>,
}

impl Message {
    fn of(event: RunEvent) -> Self {
        Self { id: Some(event.seq.to_string()), event: None, data: event.data }
    }

    fn end(status: Status) -> Self {
        let data = format!(r#"{{"status":"{}"}}"#, status.name());
        Self { id: None, event: Some("end".to_owned()), data: data.into() }
    }
}

impl From<Message> for Event {
    fn from(message: Message) -> Self {
        let event = message.id.into_iter().fold(Self::default(), Self::id);
        let event = message.event.into_iter().fold(event, Self::event);
        event.data(message.data)
    }
}

/// What is still to be sent.
struct Sending {
    reader: Reader,
    ready: VecDeque<RunEvent>,
    is_over: bool,
    open: Open,
}

/// Sends a run's events, each under its number, and at the end where the run stands.
///
/// Without that last message the connection was lost, or the server ended: the reader comes back with the number it saw
/// last.
pub fn stream(reader: Reader, streams: &EventStreams) -> Result<Response, Problem> {
    let open = streams.take()?;
    let sending = Sending { reader, ready: VecDeque::new(), is_over: false, open };
    let events = stream::unfold(sending, |mut sending| async move {
        let message = sending.next().await?;
        Some((Ok::<_, Infallible>(Event::from(message)), sending))
    });
    let beat = KeepAlive::new().interval(BEAT).text("beat");
    let mut response = Sse::new(events).keep_alive(beat).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Or a proxy collects events until it has many.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl Sending {
    async fn next(&mut self) -> Option<Message> {
        if self.is_over {
            return None;
        }
        if self.ready.is_empty() {
            match self.reader.next().await {
                Ok(Read::Events(events)) => self.ready.extend(events),
                Ok(Read::End(status)) => {
                    self.is_over = true;
                    return Some(Message::end(status));
                }
                Ok(Read::Closing) => return None,
                Err(error) => {
                    tracing::error!(%error, "a stream broke off");
                    return None;
                }
            }
        }
        let event = self.ready.pop_front()?;
        self.open.metrics.events_sent.inc();
        Some(Message::of(event))
    }
}
