//! Pages of stored events, for clients that poll.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::{Problem, events::MAX_SEQ};
use crate::service::Service;

/// Maximum number of events per page.
const MAX_EVENTS: usize = 1000;

/// Query parameters that select events.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only return events after the event with this number.
    #[param(minimum = 0, default = 0)]
    pub after: Option<u64>,
    /// Maximum number of events.
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    pub limit: Option<usize>,
}

/// Events of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EventPage {
    /// The events. Each has a number `seq` and a `type`.
    pub events: Vec<Map<String, Value>>,
    /// Number of the last returned event. Use it as `after` to request the next page.
    pub last: u64,
}

impl EventPage {
    /// Reads the events of a run that the query selects.
    ///
    /// ```
    /// use axum::{Json, extract::State};
    /// use graph_server::{
    ///     Service,
    ///     http::{EventPage, EventsQuery, Params, Path, Problem},
    /// };
    ///
    /// /// Returns stored events of a run.
    /// async fn events(
    ///     State(service): State<Service>,
    ///     Path(id): Path<String>,
    ///     Params(query): Params<EventsQuery>,
    /// ) -> Result<Json<EventPage>, Problem> {
    ///     Ok(Json(EventPage::read(&service, &id, &query).await?))
    /// }
    /// ```
    pub async fn read(service: &Service, id: &str, query: &EventsQuery) -> Result<Self, Problem> {
        let (after, limit) = (query.after.unwrap_or(0), query.limit.unwrap_or(MAX_EVENTS));
        if !(1..=MAX_EVENTS).contains(&limit) {
            let message = format!("`limit` is {limit}; it must be between 1 and {MAX_EVENTS}");
            return Err(Problem::invalid(message));
        }
        if after > MAX_SEQ {
            return Err(Problem::invalid(format!(
                "`after` is {after}; it must be at most {MAX_SEQ}"
            )));
        }
        let found = service.stored_events(id, after, limit).await?;
        let last = found.last().map_or(after, |it| it.seq);
        let events = found.iter().map(|it| serde_json::from_str(&it.data));
        let events = events.collect::<Result<_, _>>().map_err(|it| Problem::internal(&it))?;
        Ok(Self { events, last })
    }
}
