//! The routes of any compiled graph.

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use graph_core::{Mode, RunError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{
    IntoParams, ToSchema,
    openapi::schema::{Array, Object, Schema, SchemaType, Type},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Answers, Given, Graphs, served::Served};
use crate::{
    http::{
        Body, EventStreams, Message, Metrics, Params, Path, Place, Problem, ProblemBody, stream,
    },
    run::{NewRun, RunInfo, Status, is_id, to_millis},
    service::Service,
};

type Answer<T> = Result<T, Problem>;

/// Checkpoints and runs in one answer.
const MOST: usize = 200;

#[derive(Clone)]
struct Desk {
    graphs: Graphs,
    service: Service,
    streams: EventStreams,
}

/// A run that is asked for.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RunWanted {
    /// The fields of the state to start with.
    #[serde(default)]
    input: Map<String, Value>,
    /// The thread to run on; a new one if there is none.
    #[schema(max_length = 100, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    thread: Option<String>,
    /// Which events are kept; `updates`, `custom` and `messages` if nothing is said.
    #[schema(schema_with = modes, required = false)]
    modes: Option<Vec<Mode>>,
}

/// How a run is to go on.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResumeWanted {
    /// The answer to the one question that waits.
    answer: Option<Value>,
    /// Answers by the ids of the questions.
    #[serde(default)]
    answers: Map<String, Value>,
}

/// A run.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct RunShown {
    id: String,
    graph: String,
    thread: String,
    status: Status,
    error: Option<String>,
    created_at_ms: i64,
    ended_at_ms: Option<i64>,
    /// The state at the end of a complete run.
    output: Value,
}

/// How much of a list is wanted.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Limit {
    /// At most so many.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<usize>,
}

/// The names of modes, as a document says it.
fn modes() -> Schema {
    let name = Object::builder()
        .schema_type(Type::String)
        .enum_values(Some(Mode::DEBUG.map(|it| json!(it))));
    let types = SchemaType::from_iter([Type::Array, Type::Null]);
    Array::builder().schema_type(types).items(name).into()
}

impl RunShown {
    fn of(run: RunInfo) -> Self {
        let thread = run.input.get("thread").and_then(Value::as_str).unwrap_or_default();
        Self {
            thread: thread.to_owned(),
            id: run.id,
            graph: run.subject,
            status: run.status,
            error: run.error,
            created_at_ms: to_millis(run.created_at),
            ended_at_ms: run.ended_at.map(to_millis),
            output: run.outcome,
        }
    }
}

/// All routes, and the document that describes them. At most so many streams are open at once.
pub fn routes(
    graphs: Graphs,
    service: Service,
    streams: usize,
    metrics: Metrics,
) -> (Router, utoipa::openapi::OpenApi) {
    let streams = EventStreams::new(streams, metrics);
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(draw))
        .routes(routes!(start))
        .routes(routes!(state))
        .routes(routes!(history))
        .routes(routes!(runs))
        .routes(routes!(run))
        .routes(routes!(events))
        .routes(routes!(resume))
        .routes(routes!(cancel))
        .with_state(Desk { graphs, service, streams })
        .split_for_parts()
}

/// The names of all graphs.
#[utoipa::path(get, path = "/graphs", responses((status = 200, body = Vec<String>)))]
async fn list(State(desk): State<Desk>) -> Json<Vec<String>> {
    Json(desk.graphs.served.keys().cloned().collect())
}

/// A graph as nodes and edges.
#[utoipa::path(get, path = "/graphs/{graph}", params(("graph" = String, Path)), responses(
    (status = 200, body = Object), (status = "4XX", body = ProblemBody)))]
async fn draw(State(desk): State<Desk>, Path(graph): Path<String>) -> Answer<Json<Value>> {
    Ok(Json(desk.graph(&graph)?.drawing()))
}

/// Starts a run.
#[utoipa::path(post, path = "/graphs/{graph}/runs", params(("graph" = String, Path)),
    request_body = Option<RunWanted>, responses(
    (status = 202, body = RunShown), (status = "4XX", body = ProblemBody), (status = 503, body = ProblemBody)))]
async fn start(
    State(desk): State<Desk>,
    Path(graph): Path<String>,
    Body(wanted): Body<RunWanted>,
) -> Answer<Response> {
    desk.graph(&graph)?.check(&wanted.input).map_err(Problem::invalid)?;
    let id = chance()?;
    let thread = wanted.thread.unwrap_or_else(|| format!("thread-{id}"));
    if !is_id(&thread) {
        return Err(Problem::invalid(
            "a thread's name has up to 100 letters, digits, `-`, `_` and `.`",
        ));
    }
    let modes = wanted.modes.unwrap_or_else(|| vec![Mode::Updates, Mode::Custom, Mode::Messages]);
    let given = Given { graph: graph.clone(), thread, input: wanted.input, modes };
    let run = desk.service.start(NewRun { id, subject: graph, input: json!(given) }).await?;
    Ok((StatusCode::ACCEPTED, Json(RunShown::of(run))).into_response())
}

/// How a thread stands.
#[utoipa::path(get, path = "/graphs/{graph}/threads/{thread}/state",
    params(("graph" = String, Path), ("thread" = String, Path)), responses(
    (status = 200, body = Object), (status = "4XX", body = ProblemBody)))]
async fn state(
    State(desk): State<Desk>,
    Path((graph, thread)): Path<(String, String)>,
) -> Answer<Json<Value>> {
    let state = desk.graph(&graph)?.state(&thread).await.map_err(internal)?;
    state.map(Json).ok_or_else(|| Problem::not_found("the thread never ran"))
}

/// A thread's checkpoints, newest first.
#[utoipa::path(get, path = "/graphs/{graph}/threads/{thread}/history",
    params(("graph" = String, Path), ("thread" = String, Path), Limit), responses(
    (status = 200, body = Vec<Object>), (status = "4XX", body = ProblemBody)))]
async fn history(
    State(desk): State<Desk>,
    Path((graph, thread)): Path<(String, String)>,
    Params(limit): Params<Limit>,
) -> Answer<Json<Vec<Value>>> {
    let history = desk.graph(&graph)?.history(&thread, limit.get()?).await.map_err(internal)?;
    Ok(Json(history))
}

/// The newest runs.
#[utoipa::path(get, path = "/runs", params(Limit), responses(
    (status = 200, body = Vec<RunShown>), (status = "4XX", body = ProblemBody)))]
async fn runs(
    State(desk): State<Desk>,
    Params(limit): Params<Limit>,
) -> Answer<Json<Vec<RunShown>>> {
    let runs = desk.service.list(None, limit.get()?).await?;
    Ok(Json(runs.into_iter().map(RunShown::of).collect()))
}

/// A run.
#[utoipa::path(get, path = "/runs/{id}", params(("id" = String, Path)), responses(
    (status = 200, body = RunShown), (status = "4XX", body = ProblemBody)))]
async fn run(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Json<RunShown>> {
    Ok(Json(RunShown::of(desk.service.get(&id).await?)))
}

/// Streams a run's events: from the start, or after the one that `Last-Event-ID` or `after` names.
#[utoipa::path(get, path = "/runs/{id}/events",
    params(("id" = String, Path), Place), responses(
    (status = 200, body = Message, content_type = "text/event-stream"), (status = "4XX", body = ProblemBody)))]
async fn events(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    Place(after): Place,
) -> Answer<Response> {
    stream(desk.service.read(&id, after).await?, &desk.streams)
}

/// Answers what a run asks, or lets one go on that failed or was stopped.
#[utoipa::path(post, path = "/runs/{id}/resume", params(("id" = String, Path)),
    request_body = Option<ResumeWanted>, responses(
    (status = 202, body = RunShown), (status = "4XX", body = ProblemBody), (status = 503, body = ProblemBody)))]
async fn resume(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    Body(wanted): Body<ResumeWanted>,
) -> Answer<Response> {
    let run = desk.service.get(&id).await?;
    let thread = run.input.get("thread").and_then(Value::as_str).unwrap_or_default();
    let here = desk.graph(&run.subject)?.questions(thread).await.map_err(internal)?;
    let questions = match here {
        Some((asking, _)) if asking != id => {
            return Err(Problem::conflict("a later run is on this run's thread; start a new one"));
        }
        here => here.map_or_else(Vec::new, |it| it.1),
    };
    let mut answers = wanted.answers;
    if let Some(answer) = wanted.answer {
        // By its id, so that it answers this question and no later one.
        let [question] = &questions[..] else {
            let message =
                format!("{} questions wait; give `answers` by their ids", questions.len());
            return Err(Problem::conflict(message));
        };
        answers.insert(question.id.clone(), answer);
    }
    if let Some(id) = answers.keys().find(|id| questions.iter().all(|it| it.id != **id)) {
        return Err(Problem::conflict(format!("no question `{id}` waits")));
    }
    let run = desk.service.resume(&id, json!(Answers { answers })).await?;
    Ok((StatusCode::ACCEPTED, Json(RunShown::of(run))).into_response())
}

/// Stops a run, also one that waits for an answer; it can go on later.
#[utoipa::path(post, path = "/runs/{id}/cancel", params(("id" = String, Path)), responses(
    (status = 202, body = RunShown), (status = "4XX", body = ProblemBody)))]
async fn cancel(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Response> {
    let run = desk.service.cancel(&id).await?;
    Ok((StatusCode::ACCEPTED, Json(RunShown::of(run))).into_response())
}

impl Desk {
    fn graph(&self, name: &str) -> Answer<&dyn Served> {
        let missing = || Problem::not_found(format!("there is no graph `{name}`"));
        self.graphs.get(name).map(|it| &**it).ok_or_else(missing)
    }
}

impl Limit {
    fn get(&self) -> Answer<usize> {
        let limit = self.limit.unwrap_or(50);
        let wrong = || Problem::invalid(format!("limit is from 1 to {MOST}"));
        (1..=MOST).contains(&limit).then_some(limit).ok_or_else(wrong)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn internal(error: RunError) -> Problem {
    Problem::internal(&error)
}

/// A new run's id.
fn chance() -> Answer<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Problem::internal(&error))?;
    Ok(bytes.iter().map(|it| format!("{it:02x}")).collect())
}
