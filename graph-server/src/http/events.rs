//! Streams the events of a run as server-sent events.

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
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        KnownFormat, Object, Required, SchemaFormat, Type,
        path::{Parameter, ParameterIn},
    },
};

use super::{ClientNetwork, Params, Problem, StreamLimit, stream_limit::StreamPermit};
use crate::{
    run::{RunEvent, Status},
    service::{EventReader, ReadOutcome},
};

/// Interval between keep-alive messages on idle streams.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Largest possible sequence number.
pub(super) const MAX_SEQ: u64 = i64::MAX.unsigned_abs();

/// Sequence number of the last event that the client has received. The stream starts after this event. Extracted
/// from the `Last-Event-ID` header or the query parameter `after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEventId(pub u64);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AfterQuery {
    after: Option<u64>,
}

/// Describes the header and the query parameter in OpenAPI documents.
impl IntoParams for LastEventId {
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
        let header = "Same as `after`, but takes precedence over it; browsers send this header when they reconnect";
        vec![
            param("after", ParameterIn::Query, "Return only events after this sequence number"),
            param("Last-Event-ID", ParameterIn::Header, header),
        ]
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Params(AfterQuery { after }) = Params::from_request_parts(parts, state).await?;
        let after = after.unwrap_or(0);
        let seen = match parts.headers.get("last-event-id") {
            None => Some(after),
            Some(seen) => seen.to_str().ok().and_then(|it| it.trim().parse().ok()),
        };
        let wrong =
            || Problem::invalid("`after` and `Last-Event-ID` must be sequence numbers of events");
        seen.filter(|it| after.max(*it) <= MAX_SEQ).map(Self).ok_or_else(wrong)
    }
}

/// A message in the stream. It is an event or, as the last message, the status of the run.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
pub struct Message {
    /// Sequence number of the event. Absent in the last message.
    pub id: Option<String>,
    /// `end` for the last message. For all others, the `type` of the event, if it has one.
    pub event: Option<String>,
    /// The event as JSON or, in the last message, the status of the run, such as `{"status": "complete"}`.
    #[schema(value_type = String)]
    pub data: Arc<str>,
}

/// An event of a run that states its type.
#[derive(Deserialize)]
struct TypedEvent {
    #[serde(rename = "type")]
    name: String,
}

impl Message {
    fn of(event: RunEvent) -> Self {
        let typed = serde_json::from_str::<TypedEvent>(&event.data).ok();
        Self { id: Some(event.seq.to_string()), event: typed.map(|it| it.name), data: event.data }
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

/// The state of an open stream.
struct EventStream {
    reader: EventReader,
    ready: VecDeque<RunEvent>,
    is_finished: bool,
    permit: StreamPermit,
}

/// Streams the events of a run, each with its sequence number as its id, followed by a final message with the
/// status of the run.
///
/// If the final message is missing, the connection was lost, the server has shut down, or a stream of another client
/// has replaced this one. The client can then reconnect with the last id that it received.
///
/// ```
/// use axum::{Router, extract::State, response::Response, routing::get};
/// use graph_server::{
///     Service,
///     http::{ClientNetwork, LastEventId, Metrics, Path, Problem, StreamLimit, stream_events},
/// };
///
/// /// Streams the events of a run, starting after the last event that the client has received.
/// async fn events(
///     State((service, limit)): State<(Service, StreamLimit)>,
///     Path(id): Path<String>,
///     LastEventId(after): LastEventId,
///     client: ClientNetwork,
/// ) -> Result<Response, Problem> {
///     stream_events(service.read_events(&id, after).await?, &limit, client)
/// }
///
/// fn routes(service: Service) -> Router {
///     let limit = StreamLimit::new(1_000, Metrics::default());
///     Router::new().route("/runs/{id}/events", get(events)).with_state((service, limit))
/// }
/// ```
pub fn stream_events(
    reader: EventReader,
    limit: &StreamLimit,
    client: ClientNetwork,
) -> Result<Response, Problem> {
    let permit = limit.acquire(client)?;
    let stream = EventStream { reader, ready: VecDeque::new(), is_finished: false, permit };
    let messages = stream::unfold(stream, |mut events| async move {
        let message = events.next().await?;
        Some((Ok::<_, Infallible>(Event::from(message)), events))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE_INTERVAL).text("beat");
    let mut response = Sse::new(messages).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Prevents proxies from buffering events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl EventStream {
    async fn next(&mut self) -> Option<Message> {
        if self.is_finished {
            return None;
        }
        if self.ready.is_empty() {
            let outcome = tokio::select! {
                biased;
                () = self.permit.replaced.notified() => return None,
                outcome = self.reader.next() => outcome,
            };
            match outcome {
                Ok(ReadOutcome::Events(events)) => self.ready.extend(events),
                Ok(ReadOutcome::End(status)) => {
                    self.is_finished = true;
                    return Some(Message::end(status));
                }
                Ok(ReadOutcome::ShuttingDown) => return None,
                Err(error) => {
                    tracing::error!(%error, "cannot read the events of a run; closing the event stream");
                    return None;
                }
            }
        }
        let event = self.ready.pop_front()?;
        self.permit.metrics().events_sent.inc();
        Some(Message::of(event))
    }
}
