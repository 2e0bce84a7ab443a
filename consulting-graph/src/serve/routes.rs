//! Routes for runs.

use std::{io, path::PathBuf};

use app_support::server::blocking;
use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use graph_server::{
    RunInfo, Status,
    http::{
        Body, ClientNetwork, EventPage, EventsQuery, LastEventId, Message, Params, Path, Problem,
        ProblemBody, stream_events,
    },
};
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    app_state::AppState,
    calls,
    problem::http_problem,
    results,
    runner::read_moves,
    trace,
    wire::{
        AnalyzeRequest, Budget, CallList, CallsQuery, FileList, ForkInfo, ForkRequest, Pair,
        Participants, PlanQuery, Results, ResumeOrder, ResumeRequest, RunDetail, RunPage,
        RunStarted, RunSummary, RunsQuery, Settings, StoredInput,
    },
};
use crate::{
    config::Config,
    diff::{DiffError, diff},
    run::Run,
};

type HttpResult<T> = Result<T, Problem>;

/// Default number of runs per page.
const DEFAULT_PAGE: usize = 50;

/// Maximum number of runs per page.
const MAX_PAGE: usize = 200;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(analyze))
        .routes(routes!(events_live))
        .routes(routes!(results_of))
        .routes(routes!(runs))
        .routes(routes!(run, delete))
        .routes(routes!(events))
        .routes(routes!(trace_of))
        .routes(routes!(trace_page))
        .routes(routes!(calls))
        .routes(routes!(review))
        .routes(routes!(resume))
        .routes(routes!(fork))
        .routes(routes!(cancel))
        .routes(routes!(compare))
        .routes(routes!(plan))
        .routes(routes!(files))
        .routes(routes!(file))
}

/// Converts an I/O error in a run directory to an HTTP response. The directory of a registered run may have been
/// deleted.
fn unreadable(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::NotFound => Problem::not_found("the run directory no longer exists"),
        _ => Problem::internal(error),
    }
}

/// Starts a run.
#[utoipa::path(post, path = "/api/analyze", tag = "runs", request_body = AnalyzeRequest, responses(
    (status = 202, description = "The run was started", body = RunStarted),
    (status = 429, description = "Too many requests, or the queue is full", body = ProblemBody),
    (status = 503, description = "The server is shutting down", body = ProblemBody)))]
async fn analyze(
    State(app): State<AppState>,
    Body(request): Body<AnalyzeRequest>,
) -> HttpResult<Response> {
    let run = app.start_run(request).await?;
    Ok((StatusCode::ACCEPTED, Json(RunStarted::of(&run))).into_response())
}

/// Streams the events of a run, from the start or after the event given by `Last-Event-ID` or `after`.
///
/// An event about one debate contains the id of its move as `move`. The event `sandbox_degraded` contains it if only
/// this debate runs with less isolation, and does not contain it if no debate runs in a virtual machine.
#[utoipa::path(get, path = "/api/stream/{id}", tag = "runs",
    params(("id" = String, Path, description = "Id of the run"), LastEventId), responses(
    (status = 200, description = "Server-sent events, one per event; the last one has the status of the run",
        body = Message, content_type = "text/event-stream"),
    (status = 204, description = "The run has ended, and the client has received all its events"),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 429, description = "Too many requests, or too many open streams", body = ProblemBody)))]
async fn events_live(
    State(app): State<AppState>,
    Path(id): Path<String>,
    LastEventId(after): LastEventId,
    client: ClientNetwork,
) -> HttpResult<Response> {
    // Status 204 tells a browser that reconnects after the end of the run not to connect again.
    if after > 0 {
        let (info, _) = app.find_run(&id).await?;
        if !info.status.is_active() && app.service.stored_events(&id, after, 1).await?.is_empty() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    stream_events(app.service.read_events(&id, after).await?, &app.streams, client)
}

/// Returns the result of a run.
#[utoipa::path(get, path = "/api/results/{id}", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), responses(
    (status = 200, description = "The status, and the report once the run is complete", body = Results),
    (status = 404, description = "The run does not exist", body = ProblemBody)))]
async fn results_of(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> HttpResult<Json<Results>> {
    let (info, dir) = app.find_run(&id).await?;
    let read = blocking(move || results::result(&dir).map_err(|error| unreadable(&error)));
    // While the run is active, an existing report is outdated, because an earlier execution wrote it.
    let result = read.await?.filter(|_| !info.status.is_active());
    if result.is_none() && info.status == Status::Complete {
        return Err(Problem::not_found("the report of the run no longer exists"));
    }
    Ok(Json(Results {
        analysis_id: info.id,
        ticker: info.subject,
        status: info.status,
        error: info.error,
        result,
    }))
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/api/runs", tag = "runs", params(RunsQuery), responses(
    (status = 200, description = "A page of runs", body = RunPage),
    (status = 404, description = "The run in `before` does not exist", body = ProblemBody)))]
async fn runs(
    State(app): State<AppState>,
    Params(request): Params<RunsQuery>,
) -> HttpResult<Json<RunPage>> {
    let limit = request.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("`limit` must be between 1 and {MAX_PAGE}")));
    }
    if let Some(before) = &request.before {
        app.service.get(before).await?;
    }
    // Requests one extra run to find out whether there are more.
    let mut found = app.list_runs(request.before, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|it| it.id.clone());
    Ok(Json(RunPage { runs: found.iter().map(RunSummary::of).collect(), next }))
}

/// Returns the details of a run.
#[utoipa::path(get, path = "/api/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), responses(
    (status = 200, description = "The status, settings and spending of the run", body = RunDetail),
    (status = 404, description = "The run does not exist", body = ProblemBody)))]
async fn run(State(app): State<AppState>, Path(id): Path<String>) -> HttpResult<Json<RunDetail>> {
    let (info, dir) = app.find_run(&id).await?;
    let (run, titles) = blocking(move || {
        let run = Run::open_unchecked(&dir).map_err(http_problem)?;
        let titles = results::move_titles(&dir);
        Ok((run, titles))
    })
    .await?;
    let input: StoredInput = serde_json::from_value(info.input.clone()).unwrap_or_default();
    let (config, manifest) = (run.config(), run.manifest());
    let run_config = &manifest.run_config;
    let limit = Budget {
        max_tokens: manifest.limit.tokens.or(input.limit.max_tokens),
        max_dollars: manifest.limit.money.map(|it| it.dollars()).or(input.limit.max_dollars),
    };
    let inherited_calls = manifest.fork_origin.as_ref().map_or(0, |it| it.inherited_calls);
    Ok(Json(RunDetail {
        summary: RunSummary::of(&info),
        usage: app.spending(&id, inherited_calls).await?.into(),
        planned_calls: app.plan(config, run_config.baseline, input.concurrency).all.calls,
        settings: Settings {
            rounds: config.rounds,
            concurrency: input.concurrency,
            baseline: run_config.baseline,
            review: run_config.review,
            seed: run_config.choice.seed,
            provider: run_config.choice.provider.clone(),
            model: run_config.choice.model.clone(),
            limit,
        },
        config: Participants::from(config),
        titles,
        branch: manifest.fork_origin.as_ref().map(|it| ForkInfo {
            from: it.from.run_config.run_id.clone(),
            at: it.at.clone(),
            only: it.only,
            set: it.set.clone(),
        }),
    }))
}

/// Deletes an inactive run with all its files.
#[utoipa::path(delete, path = "/api/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), responses(
    (status = 204, description = "The run was deleted"),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run is active", body = ProblemBody)))]
async fn delete(State(app): State<AppState>, Path(id): Path<String>) -> HttpResult<StatusCode> {
    app.delete_run(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns events of a run.
#[utoipa::path(get, path = "/api/runs/{id}/events", tag = "runs",
    params(("id" = String, Path, description = "Id of the run"), EventsQuery), responses(
    (status = 200, description = "Events, in order", body = EventPage),
    (status = 404, description = "The run does not exist", body = ProblemBody)))]
async fn events(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Params(request): Params<EventsQuery>,
) -> HttpResult<Json<EventPage>> {
    Ok(Json(EventPage::read(&app.service, &id, &request).await?))
}

/// Returns the trace of a complete run.
#[utoipa::path(get, path = "/api/runs/{id}/trace", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), responses(
    (status = 200, description = "The trace of the pipeline, with the debates inside it", body = Object),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run is not complete, or this server cannot replay it", body = ProblemBody)))]
async fn trace_of(State(app): State<AppState>, Path(id): Path<String>) -> HttpResult<Response> {
    let (_, dir) = find_complete_run(&app, &id).await?;
    let _permit = app.whole_file_permit().await?;
    let text = trace::load_or_replay(dir, app.replaying.clone()).await?;
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([kind], text).into_response())
}

/// Returns the trace of the pipeline or of one debate as a web page.
#[utoipa::path(get, path = "/api/runs/{id}/trace/{name}", tag = "runs",
    params(("id" = String, Path, description = "Id of the run"),
        ("name" = String, Path, description = "`pipeline`, or the id of a move")), responses(
    (status = 200, description = "The page, which loads no other files", body = String, content_type = "text/html"),
    (status = 404, description = "The run or its trace does not exist", body = ProblemBody),
    (status = 409, description = "The run is not complete, or this server cannot replay it", body = ProblemBody)))]
async fn trace_page(
    State(app): State<AppState>,
    Path((id, name)): Path<(String, String)>,
) -> HttpResult<Html<String>> {
    let (info, dir) = find_complete_run(&app, &id).await?;
    let _permit = app.whole_file_permit().await?;
    let trace = trace::load_or_replay(dir, app.replaying.clone()).await?;
    let page = blocking(move || trace::render_page(&trace, &name, &info.subject)).await?;
    page.map(Html).ok_or_else(|| Problem::not_found("the run has no such trace"))
}

async fn find_complete_run(app: &AppState, id: &str) -> HttpResult<(RunInfo, PathBuf)> {
    let (info, dir) = app.find_run(id).await?;
    if info.status != Status::Complete {
        return Err(Problem::conflict("the run is not complete"));
    }
    Ok((info, dir))
}

/// Returns the answered model calls of one agent, with prompts and answers.
#[utoipa::path(get, path = "/api/runs/{id}/calls", tag = "runs",
    params(("id" = String, Path, description = "Id of the run"), CallsQuery), responses(
    (status = 200, description = "The calls, in order of completion", body = CallList),
    (status = 404, description = "The run or the agent does not exist", body = ProblemBody)))]
async fn calls(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Params(request): Params<CallsQuery>,
) -> HttpResult<Json<CallList>> {
    let (_, dir) = app.find_run(&id).await?;
    let _permit = app.whole_file_permit().await?;
    let read = move || {
        let run = Run::open_unchecked(dir).map_err(http_problem)?;
        calls::calls_of(&run, &request.agent, request.move_id.as_deref())
    };
    Ok(Json(CallList { calls: blocking(read).await? }))
}

/// Returns the moves to review.
#[utoipa::path(get, path = "/api/runs/{id}/review", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), responses(
    (status = 200, description = "The moves to review", body = Object),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run is not waiting for a review", body = ProblemBody)))]
async fn review(State(app): State<AppState>, Path(id): Path<String>) -> HttpResult<Json<Value>> {
    let (_, dir) = app.find_run(&id).await?;
    Ok(Json(json!(blocking(move || results::review(&dir)).await?)))
}

/// Resumes an inactive run.
///
/// A complete run can be resumed if some of its moves have no score or some of its debates ended early.
#[utoipa::path(post, path = "/api/runs/{id}/resume", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), request_body = Option<ResumeRequest>, responses(
    (status = 202, description = "The run was resumed", body = RunStarted),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run is active or complete, or this server cannot resume it", body = ProblemBody),
    (status = 422, description = "The request is invalid, or does not fit the state of the run", body = ProblemBody),
    (status = 429, description = "Too many requests, or the queue is full", body = ProblemBody),
    (status = 503, description = "The server is shutting down", body = ProblemBody)))]
async fn resume(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Body(request): Body<ResumeRequest>,
) -> HttpResult<Response> {
    let (_, dir) = app.find_run(&id).await?;
    let limit = Budget { max_tokens: request.max_tokens, max_dollars: request.max_dollars };
    if limit != Budget::default() {
        app.bounded_budget(limit)?;
    }
    if let Some(moves) = &request.moves {
        read_moves(moves.clone()).map_err(Problem::invalid)?;
    }
    let has_moves = request.moves.is_some();
    let look = move || {
        let run = Run::open(dir).map_err(http_problem)?;
        match (run.awaits_review(), has_moves) {
            (true, false) => {
                Err(Problem::invalid("the run is waiting for a review; send the reviewed `moves`"))
            }
            (false, true) => {
                Err(Problem::invalid("the run is not waiting for a review; omit `moves`"))
            }
            _ => Ok(()),
        }
    };
    blocking(look).await?;
    let order = ResumeOrder { moves: request.moves, limit };
    let run = app.service.resume(&id, json!(order)).await?;
    Ok((StatusCode::ACCEPTED, Json(RunStarted::of(&run))).into_response())
}

/// Forks an inactive run and starts the fork.
#[utoipa::path(post, path = "/api/runs/{id}/fork", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), request_body = ForkRequest, responses(
    (status = 202, description = "The fork was started", body = RunStarted),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run is not complete, or this server cannot fork it", body = ProblemBody),
    (status = 429, description = "Too many requests, or the queue is full", body = ProblemBody),
    (status = 503, description = "The server is shutting down", body = ProblemBody)))]
async fn fork(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Body(request): Body<ForkRequest>,
) -> HttpResult<Response> {
    let run = app.fork_run(&id, request).await?;
    Ok((StatusCode::ACCEPTED, Json(RunStarted::of(&run))).into_response())
}

/// Cancels a run that is active or waiting for a review. The run can be resumed later.
#[utoipa::path(post, path = "/api/runs/{id}/cancel", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), responses(
    (status = 202, description = "The run was cancelled", body = RunStarted),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run is not active", body = ProblemBody)))]
async fn cancel(State(app): State<AppState>, Path(id): Path<String>) -> HttpResult<Response> {
    let run = app.service.cancel(&id).await?;
    Ok((StatusCode::ACCEPTED, Json(RunStarted::of(&run))).into_response())
}

/// Compares two complete runs.
#[utoipa::path(get, path = "/api/compare", tag = "runs", params(Pair), responses(
    (status = 200, description = "Settings, the first difference, scores, ranks and cost", body = Object),
    (status = 404, description = "A run does not exist", body = ProblemBody),
    (status = 409, description = "A run is not complete", body = ProblemBody)))]
async fn compare(
    State(app): State<AppState>,
    Params(pair): Params<Pair>,
) -> HttpResult<Json<Value>> {
    let ((_, a), (_, b)) = (app.find_run(&pair.a).await?, app.find_run(&pair.b).await?);
    let compared = move || {
        let (a, b) = (
            Run::open_unchecked(a).map_err(http_problem)?,
            Run::open_unchecked(b).map_err(http_problem)?,
        );
        diff(&a, &b).map_err(|error| match error {
            DiffError::NoReport(_) => Problem::conflict("only complete runs can be compared"),
            other => Problem::internal(&other),
        })
    };
    Ok(Json(json!(blocking(compared).await?)))
}

/// Estimates the calls, tokens, cost and time of a run.
#[utoipa::path(get, path = "/api/plan", tag = "runs", params(PlanQuery), responses(
    (status = 200, description = "Calls, tokens, cost and time, per role and in total", body = Object)))]
async fn plan(
    State(app): State<AppState>,
    Params(request): Params<PlanQuery>,
) -> HttpResult<Json<Value>> {
    let config = app.config_with_rounds(request.rounds)?;
    let config = Config::parse(&config).map_err(|error| Problem::internal(&error))?;
    let concurrency = app.concurrency_or_default(request.concurrency)?;
    Ok(Json(json!(app.plan(&config, request.baseline.unwrap_or(false), concurrency))))
}

/// Lists the files of a run.
#[utoipa::path(get, path = "/api/runs/{id}/files", tag = "runs",
    params(("id" = String, Path, description = "Id of the run")), responses(
    (status = 200, description = "Names and sizes of the files", body = FileList),
    (status = 404, description = "The run does not exist", body = ProblemBody)))]
async fn files(State(app): State<AppState>, Path(id): Path<String>) -> HttpResult<Json<FileList>> {
    let (_, dir) = app.find_run(&id).await?;
    let read = move || results::files(&dir).map_err(|error| unreadable(&error));
    Ok(Json(FileList { files: blocking(read).await? }))
}

/// Returns a file of a run.
#[utoipa::path(get, path = "/api/runs/{id}/files/{name}", tag = "runs",
    params(("id" = String, Path, description = "Id of the run"), ("name" = String, Path, description = "Name of the file")),
    responses(
    (status = 200, description = "The file, as an attachment", content((String = "text/markdown"), (String = "text/html"),
        (String = "text/csv"), (String = "text/plain"), (Object = "application/json"))),
    (status = 404, description = "The run or the file does not exist", body = ProblemBody)))]
async fn file(
    State(app): State<AppState>,
    Path((id, name)): Path<(String, String)>,
) -> HttpResult<Response> {
    let (_, dir) = app.find_run(&id).await?;
    let request = name.clone();
    let read = move || results::file(&dir, &request).map_err(|it| Problem::internal(&it));
    let Some((bytes, kind)) = blocking(read).await? else {
        return Err(Problem::not_found("the run has no such file"));
    };
    let saved = format!("attachment; filename=\"{id}-{name}\"");
    let saved = HeaderValue::from_str(&saved).map_err(|error| Problem::internal(&error))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, saved),
        // Prevents a browser that displays the file from executing anything in it.
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, bytes).into_response())
}
