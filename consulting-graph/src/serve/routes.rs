//! The routes about runs.

use std::io;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use graph_server::{
    Status,
    http::{Body, Message, Params, Path, Place, Problem, ProblemBody, stream},
};
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    desk::{Desk, blocking, problem},
    results,
    runner::read_moves,
    wire::{
        Analyze, BranchedOff, Budget, Cast, Events, EventsWanted, Files, ForkWanted, Kept, LARGEST,
        Order, Pair, PlanWanted, Results, Resume, RunDetail, RunSummary, Runs, RunsWanted,
        Settings, Started,
    },
};
use crate::{
    config::Config,
    diff::{DiffError, diff},
    run::Run,
    serve::trace,
};

type Answer<T> = Result<T, Problem>;

/// Runs on a page of the list.
const PAGE: usize = 50;
const MOST_ON_PAGE: usize = 200;

/// Events in one answer.
const MOST_EVENTS: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(analyze))
        .routes(routes!(events_live))
        .routes(routes!(results_of))
        .routes(routes!(runs))
        .routes(routes!(run))
        .routes(routes!(events))
        .routes(routes!(trace_of))
        .routes(routes!(review))
        .routes(routes!(resume))
        .routes(routes!(fork))
        .routes(routes!(cancel))
        .routes(routes!(compare))
        .routes(routes!(plan))
        .routes(routes!(files))
        .routes(routes!(file))
}

/// Why a run's folder cannot be read. The list of runs knows of it, though somebody may have removed it.
fn unreadable(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::NotFound => Problem::not_found("the run's folder is gone"),
        _ => Problem::internal(error),
    }
}

/// Starts a run.
#[utoipa::path(post, path = "/api/analyze", tag = "runs", request_body = Analyze, responses(
    (status = 202, description = "It is started", body = Started),
    (status = "4XX", description = "It cannot be", body = ProblemBody),
    (status = 503, description = "The server ends", body = ProblemBody)))]
async fn analyze(State(desk): State<Desk>, Body(wanted): Body<Analyze>) -> Answer<Response> {
    let run = desk.begin(wanted).await?;
    Ok((StatusCode::ACCEPTED, Json(Started::of(&run))).into_response())
}

/// Streams a run's events: from the start, or after the one that `Last-Event-ID` or `after` names.
#[utoipa::path(get, path = "/api/stream/{id}", tag = "runs",
    params(("id" = String, Path, description = "The run"), Place), responses(
    (status = 200, description = "Server-sent events, one for each event, and at the end where the run stands",
        body = Message, content_type = "text/event-stream"),
    (status = "4XX", description = "There is none", body = ProblemBody)))]
async fn events_live(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    Place(after): Place,
) -> Answer<Response> {
    stream(desk.service.read(&id, after).await?, &desk.streams)
}

/// What a run came to.
#[utoipa::path(get, path = "/api/results/{id}", tag = "runs",
    params(("id" = String, Path, description = "The run")), responses(
    (status = 200, description = "Where it stands, and its report once it is complete", body = Results),
    (status = "4XX", description = "There is no such run", body = ProblemBody)))]
async fn results_of(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Json<Results>> {
    let (info, folder) = desk.folder(&id).await?;
    let read = blocking(move || results::result(&folder).map_err(|error| unreadable(&error)));
    // A report that is there while the run goes on is an older one's.
    let result = read.await?.filter(|_| !info.status.is_live());
    if result.is_none() && info.status == Status::Complete {
        return Err(Problem::not_found("the run's report is gone"));
    }
    Ok(Json(Results {
        analysis_id: info.id,
        ticker: info.subject,
        status: info.status,
        error: info.error,
        result,
    }))
}

/// The runs, newest first.
#[utoipa::path(get, path = "/api/runs", tag = "runs", params(RunsWanted), responses(
    (status = 200, description = "A page of them", body = Runs),
    (status = "4XX", description = "There is no such page", body = ProblemBody)))]
async fn runs(State(desk): State<Desk>, Params(wanted): Params<RunsWanted>) -> Answer<Json<Runs>> {
    let limit = wanted.limit.unwrap_or(PAGE);
    if !(1..=MOST_ON_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit is from 1 to {MOST_ON_PAGE}")));
    }
    if let Some(before) = &wanted.before {
        desk.service.get(before).await?;
    }
    // One more than is wanted shows whether others follow.
    let mut found = desk.runs(wanted.before, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|it| it.id.clone());
    Ok(Json(Runs { runs: found.iter().map(RunSummary::of).collect(), next }))
}

/// A run.
#[utoipa::path(get, path = "/api/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "The run")), responses(
    (status = 200, description = "Where it stands, what it was given and has spent", body = RunDetail),
    (status = "4XX", description = "There is no such run", body = ProblemBody)))]
async fn run(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Json<RunDetail>> {
    let (info, folder) = desk.folder(&id).await?;
    let run = blocking(move || Run::look(folder).map_err(problem)).await?;
    let kept: Kept = serde_json::from_value(info.input.clone()).unwrap_or_default();
    let (config, manifest) = (run.config(), run.manifest());
    let given = &manifest.given;
    let limit = Budget {
        max_tokens: manifest.limit.tokens.or(kept.limit.max_tokens),
        max_dollars: manifest.limit.money.map(|it| it.dollars()).or(kept.limit.max_dollars),
    };
    Ok(Json(RunDetail {
        summary: RunSummary::of(&info),
        usage: desk.spent(&id).await?.into(),
        planned_calls: desk.plan(config, given.baseline, kept.concurrency).all.calls,
        settings: Settings {
            rounds: config.rounds,
            concurrency: kept.concurrency,
            baseline: given.baseline,
            review: given.review,
            seed: given.choice.seed,
            provider: given.choice.provider.clone(),
            model: given.choice.model.clone(),
            limit,
        },
        config: Cast::from(config),
        branch: manifest.branch.as_ref().map(|it| BranchedOff {
            from: it.from.given.run_id.clone(),
            at: it.at.clone(),
            only: it.only,
            set: it.set.clone(),
        }),
    }))
}

/// Events of a run.
#[utoipa::path(get, path = "/api/runs/{id}/events", tag = "runs",
    params(("id" = String, Path, description = "The run"), EventsWanted), responses(
    (status = 200, description = "Events, in order", body = Events),
    (status = "4XX", description = "There is no such run", body = ProblemBody)))]
async fn events(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    Params(wanted): Params<EventsWanted>,
) -> Answer<Json<Events>> {
    let (after, limit) = (wanted.after.unwrap_or(0), wanted.limit.unwrap_or(MOST_EVENTS));
    if !(1..=MOST_EVENTS).contains(&limit) {
        return Err(Problem::invalid(format!("limit is from 1 to {MOST_EVENTS}")));
    }
    if after > LARGEST {
        return Err(Problem::invalid(format!("after is up to {LARGEST}")));
    }
    let found = desk.service.stored(&id, after, limit).await?;
    let last = found.last().map_or(after, |it| it.seq);
    let events = found.iter().map(|it| serde_json::from_str(&it.data)).collect::<Result<_, _>>();
    Ok(Json(Events { events: events.map_err(|it| Problem::internal(&it))?, last }))
}

/// What a complete run did, step by step.
#[utoipa::path(get, path = "/api/runs/{id}/trace", tag = "runs",
    params(("id" = String, Path, description = "The run")), responses(
    (status = 200, description = "The trace of the pipeline and of every debate, by name", body = Object),
    (status = "4XX", description = "There is no such run, or it is not complete", body = ProblemBody)))]
async fn trace_of(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Response> {
    let (info, folder) = desk.folder(&id).await?;
    if info.status != Status::Complete {
        return Err(Problem::conflict("the run is not complete"));
    }
    let text = trace::of(folder, desk.replaying).await?;
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([kind], text).into_response())
}

/// The moves that wait for a person to look at them.
#[utoipa::path(get, path = "/api/runs/{id}/review", tag = "runs",
    params(("id" = String, Path, description = "The run")), responses(
    (status = 200, description = "The moves", body = Object),
    (status = "4XX", description = "There is no such run, or it does not wait", body = ProblemBody)))]
async fn review(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Json<Value>> {
    let (_, folder) = desk.folder(&id).await?;
    let read = move || {
        let run = Run::look(folder).map_err(problem)?;
        let review = run.review().map_err(problem)?;
        review.ok_or_else(|| Problem::conflict("the run does not wait for a review"))
    };
    Ok(Json(json!(blocking(read).await?)))
}

/// Goes on with a run that rests; with a complete one if moves have no score or debates ended too soon.
#[utoipa::path(post, path = "/api/runs/{id}/resume", tag = "runs",
    params(("id" = String, Path, description = "The run")), request_body = Option<Resume>, responses(
    (status = 202, description = "It goes on", body = Started),
    (status = "4XX", description = "It cannot", body = ProblemBody),
    (status = 503, description = "The server ends", body = ProblemBody)))]
async fn resume(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    Body(wanted): Body<Resume>,
) -> Answer<Response> {
    let (_, folder) = desk.folder(&id).await?;
    let limit = Budget { max_tokens: wanted.max_tokens, max_dollars: wanted.max_dollars };
    if limit != Budget::default() {
        desk.allowed(limit)?;
    }
    if let Some(moves) = &wanted.moves {
        read_moves(moves.clone()).map_err(Problem::invalid)?;
    }
    let has_moves = wanted.moves.is_some();
    let look = move || {
        let run = Run::open(folder).map_err(problem)?;
        match (run.awaits_review(), has_moves) {
            (true, false) => Err(Problem::invalid("the run waits for `moves` to debate")),
            (false, true) => Err(Problem::invalid("the run does not wait for `moves`")),
            _ => Ok(()),
        }
    };
    blocking(look).await?;
    let order = Order { moves: wanted.moves, limit };
    let run = desk.service.resume(&id, json!(order)).await?;
    Ok((StatusCode::ACCEPTED, Json(Started::of(&run))).into_response())
}

/// Branches off from a run that rests, and starts the new one.
#[utoipa::path(post, path = "/api/runs/{id}/fork", tag = "runs",
    params(("id" = String, Path, description = "The run")), request_body = ForkWanted, responses(
    (status = 202, description = "The new run is started", body = Started),
    (status = "4XX", description = "It cannot be", body = ProblemBody),
    (status = 503, description = "The server ends", body = ProblemBody)))]
async fn fork(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    Body(wanted): Body<ForkWanted>,
) -> Answer<Response> {
    let run = desk.branch(&id, wanted).await?;
    Ok((StatusCode::ACCEPTED, Json(Started::of(&run))).into_response())
}

/// Stops a run, also one that waits for a person to look at its moves; it can go on later.
#[utoipa::path(post, path = "/api/runs/{id}/cancel", tag = "runs",
    params(("id" = String, Path, description = "The run")), responses(
    (status = 202, description = "It is stopped", body = Started),
    (status = "4XX", description = "There is no such run, or it rests", body = ProblemBody)))]
async fn cancel(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Response> {
    let run = desk.service.cancel(&id).await?;
    Ok((StatusCode::ACCEPTED, Json(Started::of(&run))).into_response())
}

/// How two complete runs differ.
#[utoipa::path(get, path = "/api/compare", tag = "runs", params(Pair), responses(
    (status = 200, description = "Settings, the first difference, scores, ranks and cost", body = Object),
    (status = "4XX", description = "They cannot be compared", body = ProblemBody)))]
async fn compare(State(desk): State<Desk>, Params(pair): Params<Pair>) -> Answer<Json<Value>> {
    let ((_, a), (_, b)) = (desk.folder(&pair.a).await?, desk.folder(&pair.b).await?);
    let compared = move || {
        let (a, b) = (Run::look(a).map_err(problem)?, Run::look(b).map_err(problem)?);
        diff(&a, &b).map_err(|error| match error {
            DiffError::NoReport(_) => Problem::conflict("only complete runs can be compared"),
            other => Problem::internal(&other),
        })
    };
    Ok(Json(json!(blocking(compared).await?)))
}

/// What a run would take, before anything is spent.
#[utoipa::path(get, path = "/api/plan", tag = "runs", params(PlanWanted), responses(
    (status = 200, description = "Calls, tokens, money and time, for each role and in all", body = Object),
    (status = "4XX", description = "There cannot be such a run", body = ProblemBody)))]
async fn plan(State(desk): State<Desk>, Params(wanted): Params<PlanWanted>) -> Answer<Json<Value>> {
    let config = desk.config_with(wanted.rounds)?;
    let config = Config::parse(&config).map_err(|error| Problem::internal(&error))?;
    let concurrency = desk.at_once(wanted.concurrency)?;
    Ok(Json(json!(desk.plan(&config, wanted.baseline.unwrap_or(false), concurrency))))
}

/// The files that a run left.
#[utoipa::path(get, path = "/api/runs/{id}/files", tag = "runs",
    params(("id" = String, Path, description = "The run")), responses(
    (status = 200, description = "Their names", body = Files),
    (status = "4XX", description = "There is no such run", body = ProblemBody)))]
async fn files(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Json<Files>> {
    let (_, folder) = desk.folder(&id).await?;
    let read = move || results::files(&folder).map_err(|error| unreadable(&error));
    Ok(Json(Files { files: blocking(read).await? }))
}

/// A file that a run left.
#[utoipa::path(get, path = "/api/runs/{id}/files/{name}", tag = "runs",
    params(("id" = String, Path, description = "The run"), ("name" = String, Path, description = "The file")),
    responses(
    (status = 200, description = "The file, to be saved", content((String = "text/markdown"), (String = "text/html"),
        (String = "text/csv"), (String = "text/plain"), (Object = "application/json"))),
    (status = "4XX", description = "There is no such file", body = ProblemBody)))]
async fn file(
    State(desk): State<Desk>,
    Path((id, name)): Path<(String, String)>,
) -> Answer<Response> {
    let (_, folder) = desk.folder(&id).await?;
    let wanted = name.clone();
    let read = move || results::file(&folder, &wanted).map_err(|it| Problem::internal(&it));
    let Some((bytes, kind)) = blocking(read).await? else {
        return Err(Problem::not_found("the run left no such file"));
    };
    let saved = format!("attachment; filename=\"{id}-{name}\"");
    let saved = HeaderValue::from_str(&saved).map_err(|error| Problem::internal(&error))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, saved),
        // Wherever it is shown all the same, nothing in it runs.
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, bytes).into_response())
}
