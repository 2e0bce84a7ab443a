//! A small application with its own routes, whose runner is a [`Counter`].

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::StatusCode, response::Response, routing::get};
use graph_server::{
    Capacity, NewRun, Registry, Service,
    http::{Body, ClientNetwork, LastEventId, Metrics, Path, Problem, StreamLimit, stream_events},
};
use serde_json::{Map, Value};

use crate::service::Counter;

/// Opens a service with the runner `counter`. Returns the service and its routes, which allow this number of event
/// streams.
pub(crate) async fn open(counter: Counter, streams: usize, metrics: Metrics) -> (Service, Router) {
    let registry = Registry::in_memory().unwrap();
    let service = Service::open(registry, Arc::new(counter), Capacity::default()).await.unwrap();
    let routes = Router::new()
        .route("/runs", get(list).post(start))
        .route("/runs/{id}/events", get(events))
        .with_state((service.clone(), StreamLimit::new(streams, metrics)));
    (service, routes)
}

async fn list(
    State((service, _)): State<(Service, StreamLimit)>,
) -> Result<Json<Vec<String>>, Problem> {
    let runs = service.list(None, 9).await?;
    Ok(Json(runs.into_iter().map(|it| it.id).collect()))
}

/// Starts the run `a`, whose input is the body.
async fn start(
    State((service, _)): State<(Service, StreamLimit)>,
    Body(input): Body<Map<String, Value>>,
) -> Result<StatusCode, Problem> {
    let (id, subject) = ("a".to_owned(), "counting".to_owned());
    service.start(NewRun { id, subject, input: Value::Object(input) }).await?;
    Ok(StatusCode::ACCEPTED)
}

async fn events(
    State((service, limit)): State<(Service, StreamLimit)>,
    Path(id): Path<String>,
    LastEventId(after): LastEventId,
    client: ClientNetwork,
) -> Result<Response, Problem> {
    stream_events(service.read_events(&id, after).await?, &limit, client)
}
