//! The graph for the generate–execute–critique loop.
//!
//! ```text
//! START → generate → execute ─decide┬→ critique ─retry┬→ generate
//!                                   └→ finalize ←─────┘
//! ```
//!
//! If the budget allows no further call, `finalize` follows directly after `generate`.
//!
//! Model calls and executions are journaled, so a session that is resumed after a crash repeats none of the completed
//! ones.

use std::sync::Arc;

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, END, NodeError, Route, START, StateGraph,
};
use llm::{Budget, ErrorKind, JsonError, Llm, Request, Structured};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    answer::{Critique, GeneratedCode},
    event::Progress,
    execution::{Execution, Status},
    executor::Executor,
    failure::{Attempt, Failure, is_stuck},
    job::{Job, Strategy},
    prompt,
    state::{CallCost, Outcome, Session, SessionUpdate},
};

pub(crate) const GRAPH: &str = "reflexion";

/// Name of the node after which a session continues when it gets a new budget. The branch after this node decides
/// whether there is another attempt.
pub(crate) const REOPEN_AFTER: &str = "critique";

/// Maximum number of calls that are made to get an answer that can be parsed. Each call may include a second request,
/// in which the model repairs its answer.
const MAX_PARSE_ATTEMPTS: u32 = 2;

/// Dependencies of the nodes.
#[derive(Clone, Debug)]
pub struct Deps {
    /// The model that writes programs.
    pub generator: Llm,
    /// The model that explains failures.
    pub critic: Llm,
    /// The executor that runs programs.
    pub executor: Executor,
    /// Common budget for both models; `None` means unlimited. A [`Run`](crate::run::Run) replaces it with its own
    /// budget.
    pub budget: Option<Budget>,
}

impl Deps {
    /// Creates dependencies in which one model has both roles, without a budget.
    pub fn new(llm: Llm, executor: Executor) -> Self {
        Self { generator: llm.clone(), critic: llm, executor, budget: None }
    }
}

pub fn graph(saver: Arc<dyn Checkpointer>) -> Result<CompiledGraph<Session, Deps>, BuildError> {
    nodes().shared_checkpointer(saver).compile()
}

/// Builds the graph without a checkpointer. Sessions of this graph cannot be resumed.
pub fn without_checkpointer() -> Result<CompiledGraph<Session, Deps>, BuildError> {
    nodes().compile()
}

/// Returns the maximum number of graph steps in a session.
pub(crate) fn max_steps(job: &Job) -> u32 {
    job.max_attempts.saturating_mul(4).saturating_add(4)
}

fn nodes() -> StateGraph<Session, Deps> {
    StateGraph::new()
        .name(GRAPH)
        .node(generate)
        .node(execute)
        .node(critique)
        .node(finalize)
        .edge(START, generate)
        .branch(generate, written)
        .branch(execute, decide)
        .branch(critique, retry)
        .edge(finalize, END)
}

/// Calls the generator with the task and the earlier failures.
async fn generate(session: &Session, cx: &Context<Deps>) -> Result<SessionUpdate, NodeError> {
    let deps = cx.deps();
    let llm = journaled(&deps.generator, cx);
    let attempt = session.history.len() as u32 + 1;
    if session.calls.is_empty() {
        let model = llm::Model::id(&llm).to_string();
        tracing::info!(task = session.job.task, "Agent workflow started");
        cx.emit(Progress::Started { task: session.job.task.clone(), model }).await;
    }
    let resampled = session.job.strategy == Strategy::Reflect && is_stuck(&session.history);
    cx.emit(Progress::Generating { attempt, resampled }).await;
    let request = prompt::generate(&session.job, &session.history, resampled, &deps.executor);
    let reply = request_json::<GeneratedCode>(&llm, request).await?;
    let calls = reply.paid("generator", attempt);
    if reply.refused.is_some() {
        return Ok(Session::update().calls(calls).spent(reply.refused));
    }
    // An answer without a program is a failed attempt. The prompt of the next attempt states the reason.
    let generated = reply.value.unwrap_or_default();
    tracing::info!(
        task = session.job.task.chars().take(100).collect::<String>(),
        code_lines = generated.code.lines().count(),
        confidence = generated.confidence,
        provider = llm::Model::id(&llm).provider,
        "Code generated"
    );
    let GeneratedCode { code, dependencies, reasoning, confidence } = generated.clone();
    cx.emit(Progress::Code { attempt, code, dependencies, reasoning, confidence }).await;
    Ok(Session::update()
        .attempt(attempt)
        .generated(generated)
        .resampled(resampled)
        .execution(None)
        .critique(None)
        .calls(calls))
}

#[derive(Route)]
enum Written {
    #[to(execute)]
    Program,
    #[to(finalize)]
    Spent,
}

/// Routes to `execute`, or to `finalize` if the budget refused the call to the generator.
fn written(session: &Session) -> Written {
    if session.spent.is_some() { Written::Spent } else { Written::Program }
}

/// Executes the program.
async fn execute(session: &Session, cx: &Context<Deps>) -> Result<SessionUpdate, NodeError> {
    let attempt = session.attempt;
    let GeneratedCode { code, dependencies, .. } = &session.generated;
    cx.emit(Progress::Executing { attempt }).await;
    let run = async { Ok(cx.deps().executor.run(code, dependencies, &session.job).await?) };
    let mut execution: Execution = cx.task("execute", attempt, run).await?;
    if execution.status == Status::NoProgram && code.is_empty() {
        execution.stderr =
            "the answer contained no program; answer with JSON that has the program in `code`"
                .to_owned();
    }
    cx.emit(Progress::of_execution(attempt, &execution)).await;
    Ok(Session::update().execution(Some(execution)))
}

#[derive(Route)]
enum Decision {
    #[to(finalize)]
    Success,
    #[to(critique)]
    Failure,
}

/// Routes a successful execution to `finalize` and a failed one to `critique`. Success requires more than exit code 0:
/// the program must also stay within its limits, print the expected output and pass its tests.
fn decide(session: &Session) -> Decision {
    match &session.execution {
        Some(execution) if execution.success() => Decision::Success,
        _ => Decision::Failure,
    }
}

/// Calls the critic and adds the attempt to the history.
async fn critique(session: &Session, cx: &Context<Deps>) -> Result<SessionUpdate, NodeError> {
    let mut attempt = current_attempt(session);
    let failure = Failure::of(&attempt.execution);
    attempt.failure = Some(failure.clone());
    if session.job.strategy == Strategy::Resample {
        return Ok(Session::update().history([attempt]));
    }
    cx.emit(Progress::critiquing(attempt.number, &failure)).await;
    let llm = journaled(&cx.deps().critic, cx);
    let request = prompt::critique(&session.job, &attempt, &failure);
    let reply = request_json::<Critique>(&llm, request).await?;
    let calls = reply.paid("critic", attempt.number);
    if reply.refused.is_some() {
        return Ok(Session::update().history([attempt]).calls(calls).spent(reply.refused));
    }
    // If no critique could be parsed, the error itself is used as the diagnosis.
    let critique = reply.value.unwrap_or_else(|| Critique {
        diagnosis: failure.error.clone(),
        should_retry: true,
        ..Critique::default()
    });
    cx.emit(Progress::Critique { attempt: attempt.number, critique: critique.clone() }).await;
    if may_retry(&session.job, attempt.number, Some(&critique)) {
        cx.emit(Progress::Retrying { attempt: attempt.number + 1 }).await;
    }
    attempt.critique = Some(critique.clone());
    Ok(Session::update().critique(Some(critique)).history([attempt]).calls(calls))
}

#[derive(Route)]
enum Next {
    #[to(generate)]
    Retry,
    #[to(finalize)]
    GiveUp,
}

/// Starts another attempt unless all attempts are used, the critic advises against it, or the budget is spent.
fn retry(session: &Session) -> Next {
    if session.spent.is_none()
        && may_retry(&session.job, session.attempt, session.critique.as_ref())
    {
        Next::Retry
    } else {
        Next::GiveUp
    }
}

fn may_retry(job: &Job, attempt: u32, critique: Option<&Critique>) -> bool {
    attempt < job.max_attempts && critique.is_none_or(|it| it.should_retry)
}

/// Sets the outcome of the session.
async fn finalize(session: &Session, cx: &Context<Deps>) -> SessionUpdate {
    let last = current_attempt(session);
    let success = last.execution.success();
    let message = if success {
        "the program ran and passed all checks".to_owned()
    } else if let Some(why) = &session.spent {
        format!(
            "the budget is spent: {why}; resume the session with a larger --max-tokens or --max-cost"
        )
    } else if session.attempt >= session.job.max_attempts {
        "max retries exceeded".to_owned()
    } else {
        "given up: the critic advises against another attempt".to_owned()
    };
    tracing::info!(success, attempts = session.attempt, "Agent workflow completed");
    let outcome = Outcome {
        success,
        attempts: session.attempt,
        output: last.execution.stdout.clone(),
        code: last.generated.code.clone(),
        message,
    };
    cx.emit(Progress::Complete { outcome: outcome.clone() }).await;
    let update = Session::update().outcome(Some(outcome));
    // `critique` has already added a failed attempt to the history.
    if success { update.history([last]) } else { update }
}

/// Assembles the current attempt from the state.
fn current_attempt(session: &Session) -> Attempt {
    Attempt {
        number: session.attempt,
        generated: session.generated.clone(),
        resampled: session.resampled,
        execution: session.execution.clone().unwrap_or_default(),
        failure: None,
        critique: None,
    }
}

/// Wraps a model so that its answers are journaled. The budget wraps the journal, so answers that are replayed from the
/// journal after a crash still count against the budget.
fn journaled(llm: &Llm, cx: &Context<Deps>) -> Llm {
    let llm = llm.clone().journal(cx);
    match &cx.deps().budget {
        Some(budget) => llm.budget(budget),
        None => llm,
    }
}

/// The answers of a model to a request for a JSON value.
struct ModelReply<T> {
    /// The value, if an answer could be parsed.
    value: Option<T>,
    /// All answers, including those that could not be parsed.
    responses: Vec<llm::Response>,
    /// Why the budget refused a call, if it did.
    refused: Option<String>,
}

impl<T> ModelReply<T> {
    fn paid(&self, role: &str, attempt: u32) -> Vec<CallCost> {
        self.responses.iter().map(|it| CallCost::of(role, attempt, it)).collect()
    }
}

/// Requests a JSON value, and repeats the request if the answer cannot be parsed. Returns an error if a call fails,
/// unless the budget refused the call.
async fn request_json<T: JsonSchema + DeserializeOwned>(
    llm: &Llm,
    request: Request,
) -> Result<ModelReply<T>, NodeError> {
    let mut responses = Vec::new();
    for _ in 0..MAX_PARSE_ATTEMPTS {
        match llm.generate_json::<T>(request.clone()).await {
            Ok(Structured { value, response, method, .. }) => {
                tracing::debug!(%method, "parsed an answer");
                responses.push(response);
                return Ok(ModelReply { value: Some(value), responses, refused: None });
            }
            Err(JsonError::Unreadable { error, response }) => {
                tracing::warn!(%error, "cannot parse an answer");
                responses.push(*response);
            }
            Err(JsonError::Call(error)) if error.kind == ErrorKind::Budget => {
                // Omit the part of the message after the semicolon, because it is advice for developers.
                let why = error.message.split(';').next().unwrap_or_default().to_owned();
                return Ok(ModelReply { value: None, responses, refused: Some(why) });
            }
            Err(JsonError::Call(error)) => return Err(error.into()),
        }
    }
    Ok(ModelReply { value: None, responses, refused: None })
}
