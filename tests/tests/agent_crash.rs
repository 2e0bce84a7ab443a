//! Stops an agent at every write, resumes it, and checks that no tool result is lost or produced twice.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_agents::{
    Agent, AiMessage, CompiledAgent, Message, Tool, ToolCall,
    message::messages_from_json,
    model::{ChatModel, ChunkSink, Prompt},
};
use graph_core::{
    Durability, JsonState, NodeError, Thread,
    checkpoint::{CheckpointError, CheckpointWrite, Checkpointer},
};
use graph_store::{Sqlite, SqliteSaver, sqlite::Synchronous};
use serde_json::json;
use tokio::{runtime::Builder, sync::Notify};

/// The calls of the two rounds of the agent's loop.
const ROUNDS: [&[&str]; 2] = [&["a", "b", "c"], &["d", "e"]];

/// A model that derives its answer from the conversation alone, so that it can be asked again after a crash.
#[derive(Debug)]
struct Model;

#[async_trait]
impl ChatModel for Model {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let round = prompt.messages.iter().filter(|it| it.as_ai().is_some()).count();
        let calls = ROUNDS.get(round).copied().unwrap_or_default();
        let call = |id: &&str| ToolCall::new("count", json!({}), *id);
        let text = if calls.is_empty() { "done" } else { "" };
        Ok(AiMessage { tool_calls: calls.iter().map(call).collect(), ..AiMessage::new(text) })
    }
}

/// Number of executions per call id, over all runs of a case.
type Executions = Arc<Mutex<BTreeMap<String, usize>>>;

/// Creates an agent whose only tool returns how often the call was executed.
fn agent(saver: impl Checkpointer + 'static, executions: &Executions) -> CompiledAgent {
    let executions = executions.clone();
    let count = Tool::dynamic("count", "Counts.", json!({}), move |_, runtime| {
        let mut executions = executions.lock().unwrap();
        let n = executions.entry(runtime.call().id().to_owned()).or_default();
        *n += 1;
        let n = *n;
        async move { n }
    });
    Agent::new(Model).tools([count]).checkpointer(saver).compile().unwrap()
}

fn thread(agent: &CompiledAgent, durability: Durability) -> Thread<JsonState> {
    let options = CompiledAgent::run_options().durability(durability);
    agent.thread("t", ()).with_options(options)
}

/// Opens a file. The test does not simulate power failures, so writes do not wait for the disk.
fn open(file: &Path) -> SqliteSaver {
    SqliteSaver::new(&Sqlite::settings().synchronous(Synchronous::Normal).open(file).unwrap())
}

/// When a run is stopped: before or after the write with this number, starting at 1.
#[derive(Clone, Copy, Debug)]
enum StopAt {
    Never,
    Before(usize),
    After(usize),
}

/// A hook that blocks forever at one write.
#[derive(Clone, Debug)]
struct StoppingHook {
    at: StopAt,
    n_writes: Arc<AtomicUsize>,
    stopped: Arc<Notify>,
}

impl StoppingHook {
    async fn stop(&self) {
        self.stopped.notify_one();
        std::future::pending::<()>().await;
    }
}

#[async_trait]
impl WriteHook for StoppingHook {
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        for write in writes {
            let nth = self.n_writes.fetch_add(1, Ordering::SeqCst) + 1;
            if matches!(self.at, StopAt::Before(at) if at == nth) {
                self.stop().await;
            }
            to.write(vec![write]).await?;
            if matches!(self.at, StopAt::After(at) if at == nth) {
                self.stop().await;
            }
        }
        Ok(())
    }
}

/// Runs the agent until the stop. Returns the number of writes, and whether the run was stopped.
///
/// The runtime is dropped at the stop, with all tasks of the run.
fn run_until(
    file: &Path,
    executions: &Executions,
    at: StopAt,
    durability: Durability,
) -> (usize, bool) {
    let (n_writes, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let hook = StoppingHook { at, n_writes: n_writes.clone(), stopped: stopped.clone() };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let was_stopped = runtime.block_on(async {
        let saver = Arc::new(open(file));
        let agent = agent(HookedSaver::new(saver, hook), executions);
        let thread = thread(&agent, durability);
        tokio::select! {
            outcome = thread.run(agent.input("go").unwrap()) => {
                drop(outcome.unwrap());
                false
            }
            () = stopped.notified() => true,
        }
    });
    (n_writes.load(Ordering::SeqCst), was_stopped)
}

/// Returns the ids of the calls whose results are stored.
async fn stored_results(thread: &Thread<JsonState>) -> BTreeSet<String> {
    let Some(state) = thread.state().await.unwrap() else { return BTreeSet::new() };
    let writes = state.tasks.into_iter().filter_map(|it| it.result).flatten();
    let lists = state.values.get("messages").cloned().into_iter();
    let lists = lists.chain(writes.filter(|it| it.field == "messages").map(|it| it.value));
    let messages = lists.flat_map(|it| messages_from_json(&it).unwrap());
    messages.filter_map(|it| it.as_tool().map(|it| it.tool_call_id.clone())).collect()
}

/// Continues a stopped run to its end and checks the results.
fn finish(file: &Path, executions: &Executions, durability: Durability, case: &str) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let agent = agent(open(file), executions);
        let thread = thread(&agent, durability);
        let stored = stored_results(&thread).await;
        let before = executions.lock().unwrap().clone();
        let outcome = match thread.state().await.unwrap() {
            None => thread.run(agent.input("go").unwrap()).await,
            Some(_) => thread.proceed().await,
        };
        let state = outcome.unwrap().into_state();
        let messages = messages_from_json(state.get("messages").unwrap()).unwrap();
        assert_eq!(messages.last().unwrap().text(), "done", "{case}");
        let results: Vec<_> = messages.iter().filter_map(Message::as_tool).collect();
        let ids: Vec<_> = results.iter().map(|it| it.tool_call_id.as_str()).collect();
        assert_eq!(ids, ROUNDS.concat(), "each call has one result, in the order of calls: {case}");
        let executions = executions.lock().unwrap();
        for result in results {
            let (id, n) = (&result.tool_call_id, executions[&result.tool_call_id]);
            // A result is lost only together with the process that computed it.
            assert_eq!(
                result.content.text(),
                n.to_string(),
                "result of the last execution: {case}"
            );
            if stored.contains(id) {
                assert_eq!(
                    before.get(id),
                    Some(&n),
                    "stored result {id} was computed again: {case}"
                );
            }
            assert!(n <= 2, "{case}: call {id} was executed {n} times");
        }
    });
}

#[test]
fn stopped_agent_neither_loses_nor_repeats_stored_results() {
    for durability in [Durability::Sync, Durability::Async] {
        let dir = tempfile::tempdir().unwrap();
        let executions = Executions::default();
        let (n_writes, _) =
            run_until(&dir.path().join("all.db"), &executions, StopAt::Never, durability);
        assert_eq!(executions.lock().unwrap().values().sum::<usize>(), ROUNDS.concat().len());
        let mut repeated = 0;
        for nth in 1..=n_writes {
            for at in [StopAt::Before(nth), StopAt::After(nth)] {
                let case = format!("{durability:?}, {at:?}");
                let file = dir.path().join(format!("{case}.db"));
                let executions = Executions::default();
                let (_, was_stopped) = run_until(&file, &executions, at, durability);
                assert!(was_stopped, "{case}");
                finish(&file, &executions, durability, &case);
                repeated += executions.lock().unwrap().values().filter(|it| **it > 1).count();
            }
        }
        assert!(repeated > 0, "no stop fell between an execution and its write");
    }
}
