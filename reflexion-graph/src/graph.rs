//! The loop as a graph.
//!
//! ```text
//! START → generate → execute ─decide┬→ critique ─retry┬→ generate
//!                                   └→ finalize ←─────┘
//! ```
//!
//! Where the budget allows no more calls, generate leads to finalize.
//!
//! Calls of models and executions are effects: a session that is killed and gone on with repeats none of them.

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
    failure::{Attempt, Failure, is_stuck},
    job::{Job, Strategy},
    prompt,
    state::{Outcome, Paid, Session, SessionUpdate},
    workshop::Workshop,
};

/// The graph's name.
pub const GRAPH: &str = "reflexion";

/// The node behind which a session goes further whose budget was spent: it decides whether there is another attempt.
pub(crate) const REOPENED_AT: &str = "critique";

/// How often an answer is asked for that cannot be read: each time with one request for repair.
const READINGS: u32 = 2;

/// What the nodes work with.
#[derive(Clone, Debug)]
pub struct Deps {
    /// Who writes programs.
    pub generator: Llm,
    /// Who criticises them.
    pub critic: Llm,
    /// Where they are run.
    pub workshop: Workshop,
    /// What both may spend; without a bound where there is none. A [`Run`](crate::run::Run) makes its own.
    pub budget: Option<Budget>,
}

impl Deps {
    /// One model that writes and criticises, without a budget.
    pub fn new(llm: Llm, workshop: Workshop) -> Self {
        Self { generator: llm.clone(), critic: llm, workshop, budget: None }
    }
}

/// The graph, its threads kept by a checkpointer.
pub fn graph(saver: Arc<dyn Checkpointer>) -> Result<CompiledGraph<Session, Deps>, BuildError> {
    nodes().shared_checkpointer(saver).compile()
}

/// The graph without threads: a session that nobody goes on with.
pub fn unstored() -> Result<CompiledGraph<Session, Deps>, BuildError> {
    nodes().compile()
}

/// The most steps that a session can take.
pub(crate) fn most_steps(job: &Job) -> u32 {
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

/// Has a program written, with all that is known of earlier ones.
async fn generate(session: &Session, cx: &Context<Deps>) -> Result<SessionUpdate, NodeError> {
    let deps = cx.deps();
    let llm = voice(&deps.generator, cx);
    let attempt = session.history.len() as u32 + 1;
    if session.calls.is_empty() {
        let model = llm::Model::id(&llm).to_string();
        tracing::info!(task = session.job.task, "Agent workflow started");
        cx.emit(Progress::Started { task: session.job.task.clone(), model }).await;
    }
    let resampled = session.job.strategy == Strategy::Reflect && is_stuck(&session.history);
    cx.emit(Progress::Generating { attempt, resampled }).await;
    let request = prompt::generate(&session.job, &session.history, resampled, &deps.workshop);
    let asked = ask::<GeneratedCode>(&llm, request).await?;
    let calls = asked.paid("generator", attempt);
    if asked.refused.is_some() {
        return Ok(Session::update().calls(calls).spent(asked.refused));
    }
    // An attempt without a program is one that failed: the next is told why.
    let generated = asked.value.unwrap_or_default();
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

/// A program is run, if it could be paid for.
fn written(session: &Session) -> Written {
    if session.spent.is_some() { Written::Spent } else { Written::Program }
}

/// Runs the program.
async fn execute(session: &Session, cx: &Context<Deps>) -> Result<SessionUpdate, NodeError> {
    let attempt = session.attempt;
    let GeneratedCode { code, dependencies, .. } = &session.generated;
    cx.emit(Progress::Executing { attempt }).await;
    let run = async { Ok(cx.deps().workshop.run(code, dependencies, &session.job).await?) };
    let mut execution: Execution = cx.task("execute", attempt, run).await?;
    if execution.status == Status::NoProgram && code.is_empty() {
        execution.stderr =
            "the answer held no program; answer with JSON that has it in `code`".to_owned();
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

/// Success is more than exit code 0: no limit was reached, the output is the expected one, and the tests hold.
fn decide(session: &Session) -> Decision {
    match &session.execution {
        Some(execution) if execution.success() => Decision::Success,
        _ => Decision::Failure,
    }
}

/// Has the failure looked at, and puts the attempt to the others.
async fn critique(session: &Session, cx: &Context<Deps>) -> Result<SessionUpdate, NodeError> {
    let mut attempt = ended(session);
    let failure = Failure::of(&attempt.execution);
    attempt.failure = Some(failure.clone());
    if session.job.strategy == Strategy::Resample {
        return Ok(Session::update().history([attempt]));
    }
    cx.emit(Progress::critiquing(attempt.number, &failure)).await;
    let llm = voice(&cx.deps().critic, cx);
    let request = prompt::critique(&session.job, &attempt, &failure);
    let asked = ask::<Critique>(&llm, request).await?;
    let calls = asked.paid("critic", attempt.number);
    if asked.refused.is_some() {
        return Ok(Session::update().history([attempt]).calls(calls).spent(asked.refused));
    }
    // Without a critic the error itself is what there is to learn from.
    let critique = asked.value.unwrap_or_else(|| Critique {
        diagnosis: failure.error.clone(),
        should_retry: true,
        ..Critique::default()
    });
    cx.emit(Progress::Critique { attempt: attempt.number, critique: critique.clone() }).await;
    if goes_on(&session.job, attempt.number, Some(&critique)) {
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

/// Another attempt, unless all are used up, the critic sees no sense in one, or nobody could pay for it.
fn retry(session: &Session) -> Next {
    if session.spent.is_none() && goes_on(&session.job, session.attempt, session.critique.as_ref())
    {
        Next::Retry
    } else {
        Next::GiveUp
    }
}

fn goes_on(job: &Job, attempt: u32, critique: Option<&Critique>) -> bool {
    attempt < job.max_attempts && critique.is_none_or(|it| it.should_retry)
}

/// Says what the session came to.
async fn finalize(session: &Session, cx: &Context<Deps>) -> SessionUpdate {
    let last = ended(session);
    let success = last.execution.success();
    let message = if success {
        "the program ran, and all that was asked of it holds".to_owned()
    } else if let Some(why) = &session.spent {
        format!(
            "the budget is spent: {why}; resume the session with a larger --max-tokens or --max-cost to go further"
        )
    } else if session.attempt >= session.job.max_attempts {
        "max retries exceeded".to_owned()
    } else {
        "given up: the critic sees no way to do this here".to_owned()
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
    // One that failed was put to the others when it was criticised.
    if success { update.history([last]) } else { update }
}

/// The attempt under way, as it stands.
fn ended(session: &Session) -> Attempt {
    Attempt {
        number: session.attempt,
        generated: session.generated.clone(),
        resampled: session.resampled,
        execution: session.execution.clone().unwrap_or_default(),
        failure: None,
        critique: None,
    }
}

/// A model whose answers are journaled. The budget stands above the journal: so what a node asked for before a crash counts
/// in the one that goes on, too.
fn voice(llm: &Llm, cx: &Context<Deps>) -> Llm {
    let llm = llm.clone().journal(cx);
    match &cx.deps().budget {
        Some(budget) => llm.budget(budget),
        None => llm,
    }
}

/// What came of asking for a value.
struct Asked<T> {
    /// The value, if an answer could be read.
    value: Option<T>,
    /// All answers.
    responses: Vec<llm::Response>,
    /// Why the budget allowed no more of them.
    refused: Option<String>,
}

impl<T> Asked<T> {
    fn paid(&self, role: &str, attempt: u32) -> Vec<Paid> {
        self.responses.iter().map(|it| Paid::of(role, attempt, it)).collect()
    }
}

/// Asks for a value, and again where no answer can be read. A call that fails is the node's failure, unless the budget
/// does not allow it.
async fn ask<T: JsonSchema + DeserializeOwned>(
    llm: &Llm,
    request: Request,
) -> Result<Asked<T>, NodeError> {
    let mut responses = Vec::new();
    for _ in 0..READINGS {
        match llm.generate_json::<T>(request.clone()).await {
            Ok(Structured { value, response, rung, .. }) => {
                tracing::debug!(%rung, "an answer was read");
                responses.push(response);
                return Ok(Asked { value: Some(value), responses, refused: None });
            }
            Err(JsonError::Unreadable { unreadable, response }) => {
                tracing::warn!(%unreadable, "an answer cannot be read");
                responses.push(*response);
            }
            Err(JsonError::Call(error)) if error.kind == ErrorKind::Budget => {
                // What follows is for those who program with budgets.
                let why = error.message.split(';').next().unwrap_or_default().to_owned();
                return Ok(Asked { value: None, responses, refused: Some(why) });
            }
            Err(JsonError::Call(error)) => return Err(error.into()),
        }
    }
    Ok(Asked { value: None, responses, refused: None })
}
