//! Tests of whole graph runs with in-process agents.

use std::future::pending;

use graph_core::{Context, NodeError, START, State, StateGraph};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::GraphRun;
use crate::{
    CallError, CallPolicy, Error, Isolation, Sandbox, Sandboxes, Spec,
    backend::InProcess,
    guest::{Agent, Host},
};

#[derive(State, Clone, Debug, Default)]
struct Question {
    text: String,
    answer: String,
}

async fn ask(question: &Question, cx: &Context<Host>) -> Result<QuestionUpdate, NodeError> {
    let answer: String = cx.deps().call(cx, "llm.chat", 0, &question.text).await?;
    Ok(Question::update().answer(answer))
}

fn agent() -> Agent {
    Agent::new().graph("ask", |host: &Host| {
        let graph = StateGraph::<Question, Host>::new().node(ask).edge(START, ask);
        Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, host.clone()))
    })
}

async fn sandbox(
    agent: impl Fn() -> Agent + Send + Sync + 'static,
) -> (Sandbox, Sandboxes, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let builder = Sandboxes::builder().backend(InProcess::new(agent));
    let builder = builder.isolation(Isolation::Off).state_dir(dir.path().join("state"));
    let sandboxes = builder.open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    (sandbox, sandboxes, dir)
}

/// Returns a run that makes one call, and the policy that allows the call.
fn question() -> (GraphRun, CallPolicy) {
    let policy = CallPolicy::new(async |_: String, _: Value| {
        Ok::<_, CallError>(json!("well said ".repeat(300)))
    });
    let policy = policy.allow("llm.chat");
    (run_with(policy.clone()), policy)
}

fn run_with(policy: CallPolicy) -> GraphRun {
    let input = Map::from_iter([("text".to_owned(), json!("tea?"))]);
    GraphRun::new("ask").input(input).call_policy(policy)
}

#[tokio::test]
async fn run_fails_when_storage_quota_is_exhausted() {
    let (sandbox, _sandboxes, _dir) = sandbox(agent).await;
    let (run, _) = question();
    let outcome = sandbox.run_graph(run.storage_quota(2000)).await.unwrap().finish().await;
    let Err(Error::Graph { error, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("storage quota of 2000 bytes"), "{error}");
}

#[tokio::test]
async fn policy_drops_answers_of_completed_run() {
    let (sandbox, _sandboxes, _dir) = sandbox(agent).await;
    let (run, policy) = question();
    let exit = sandbox.run_graph(run).await.unwrap().finish().await.unwrap();
    assert!(exit.is_done() && policy.calls_made() == 1, "{exit:?}");
    assert_eq!(policy.journal_len(), 0);
}

type Results = mpsc::UnboundedSender<Result<String, NodeError>>;

/// Makes a call in a task that outlives the node, and sends its result to the test.
async fn ask_detached(
    question: &Question,
    cx: &Context<(Host, Results)>,
) -> Result<QuestionUpdate, NodeError> {
    let (cx, text) = (cx.clone(), question.text.clone());
    tokio::spawn(async move {
        let (host, results) = cx.deps();
        let result = host.call(&cx, "llm.chat", 0, &text).await;
        let _ = results.send(result);
    });
    pending().await
}

/// The agent is a task of this process, so tasks of its graphs can outlive it.
#[tokio::test]
async fn calls_in_flight_fail_when_the_sandbox_is_deleted() {
    let (results, mut received) = mpsc::unbounded_channel();
    let agent = move || {
        let results = results.clone();
        Agent::new().graph("ask", move |host: &Host| {
            let graph = StateGraph::<Question, (Host, Results)>::new()
                .node(ask_detached)
                .edge(START, ask_detached)
                .shared_checkpointer(host.checkpointer())
                .compile()?;
            Ok((graph, (host.clone(), results.clone())))
        })
    };
    let (sandbox, _sandboxes, _dir) = sandbox(agent).await;
    let (calls, mut called) = mpsc::unbounded_channel();
    let policy = CallPolicy::new(move |_: String, _: Value| {
        calls.send(()).unwrap();
        pending::<Result<Value, CallError>>()
    });
    let running = sandbox.run_graph(run_with(policy.allow("llm.chat"))).await.unwrap();
    called.recv().await.unwrap();
    sandbox.delete().await;
    let problem = received.recv().await.unwrap().unwrap_err().to_string();
    assert!(problem.contains("the run has ended"), "{problem}");
    let outcome = running.finish().await;
    assert!(matches!(outcome, Err(Error::Terminated { .. })), "{outcome:?}");
}
