//! The workloads on graph-flow. See `peer_support::protocol` for the requests.

use std::{io, sync::Arc};

use async_trait::async_trait;
use graph_flow::{
    Context, ExecutionStatus, FanOutTask, FlowRunner, Graph, GraphBuilder, InMemorySessionStorage,
    NextAction, Session, SessionStorage, Task, TaskResult,
};
use peer_support::{
    data,
    protocol::{Job, concurrent, job, serve, unknown},
};

fn main() -> io::Result<()> {
    serve("0.8.1", prepare)
}

fn prepare(workload: &str, size: usize) -> Result<Job, String> {
    let count = size as u64;
    Ok(match workload {
        "loop" => run(loop_graph(count, NextAction::ContinueAndExecute), "tick", counted),
        "growing-list" => run(growing_list(size), "write", |it| it.chat_history_len().to_string()),
        "sequential" => run(sequential(size), "node000000", counted),
        "sequential-checkpoint" => stored_sequential(size),
        "fan-out" => run(fan_out(count, |it| it), "fan", counted),
        "cpu-branches" => run(fan_out(count, data::spin), "fan", counted),
        "threads" => threads(size),
        "fanout-to-subgraph" | "fanout-to-subgraph-checkpoint" | "nested" => {
            return Err("no subgraphs".to_owned());
        }
        "wide-state" | "wide-state-checkpoint" => return Err("no reducers".to_owned()),
        "react-agent" | "react-agent-checkpoint" | "agent-loop" => {
            return Err("no agent in this crate".to_owned());
        }
        "sqlite-loop" | "sqlite-loop-16" | "resume" => {
            return Err("no storage in SQLite".to_owned());
        }
        "server" => return Err("no server in this crate".to_owned()),
        _ => return Err(unknown(workload)),
    })
}

/// Runs a graph from a task and describes its final context.
fn run(graph: Graph, start: &'static str, answer: fn(&Context) -> String) -> Job {
    let graph = Arc::new(graph);
    job(move || {
        let graph = graph.clone();
        async move {
            let mut session = Session::new_from_task("session".to_owned(), start);
            // The history of a default context keeps 1,000 messages.
            session.context = Context::with_max_chat_messages(usize::MAX);
            graph.execute_session(&mut session).await.expect("the run succeeds");
            answer(&session.context)
        }
    })
}

fn count(context: &Context) -> u64 {
    context.get("count").unwrap_or_default()
}

fn counted(context: &Context) -> String {
    count(context).to_string()
}

/// A task that increments the counter.
struct Tick {
    name: String,
    next: NextAction,
}

#[async_trait]
impl Task for Tick {
    fn id(&self) -> &str {
        &self.name
    }

    async fn run(&self, context: Context) -> graph_flow::Result<TaskResult> {
        context.set("count", count(&context) + 1)?;
        Ok(TaskResult::new(None, self.next.clone()))
    }
}

/// The last task of a graph.
struct End;

#[async_trait]
impl Task for End {
    fn id(&self) -> &str {
        "end"
    }

    async fn run(&self, _: Context) -> graph_flow::Result<TaskResult> {
        Ok(TaskResult::new(None, NextAction::End))
    }
}

/// Builds a loop of one task, which ends in another one.
fn loop_graph(until: u64, next: NextAction) -> Graph {
    GraphBuilder::new("loop")
        .add_task(Arc::new(Tick { name: "tick".to_owned(), next }))
        .add_task(Arc::new(End))
        .add_conditional_edge("tick", move |it| count(it) < until, "tick", "end")
        .build()
        .expect("the graph is valid")
}

/// A task that appends a message to the history, the only list that a context can append to.
struct Write;

#[async_trait]
impl Task for Write {
    fn id(&self) -> &str {
        "write"
    }

    async fn run(&self, context: Context) -> graph_flow::Result<TaskResult> {
        context.add_user_message(context.chat_history_len().to_string());
        Ok(TaskResult::new(None, NextAction::ContinueAndExecute))
    }
}

fn growing_list(until: usize) -> Graph {
    GraphBuilder::new("growing-list")
        .add_task(Arc::new(Write))
        .add_task(Arc::new(End))
        .add_conditional_edge("write", move |it| it.chat_history_len() < until, "write", "end")
        .build()
        .expect("the graph is valid")
}

fn sequential(nodes: usize) -> Graph {
    use data::node_name as name;
    let mut graph = GraphBuilder::new("sequential");
    for index in 0..nodes {
        let last = index + 1 == nodes;
        let next = if last { NextAction::End } else { NextAction::ContinueAndExecute };
        graph = graph.add_task(Arc::new(Tick { name: name(index), next }));
        if index > 0 {
            graph = graph.add_edge(name(index - 1), name(index));
        }
    }
    graph.build().expect("the graph is valid")
}

/// Prepares a chain whose session is stored at the end.
fn stored_sequential(nodes: usize) -> Job {
    let storage = Arc::new(InMemorySessionStorage::new());
    let runner = Arc::new(FlowRunner::new(Arc::new(sequential(nodes)), storage.clone()));
    concurrent(1, move || run_session(runner.clone(), storage.clone(), "node000000"))
}

/// A child of the fan-out, which answers with a number. The children are part of the graph, because their number is
/// fixed when it is built.
struct Child {
    name: String,
    part: u64,
    compute: fn(u64) -> u64,
}

#[async_trait]
impl Task for Child {
    fn id(&self) -> &str {
        &self.name
    }

    async fn run(&self, _: Context) -> graph_flow::Result<TaskResult> {
        let result = (self.compute)(self.part).to_string();
        Ok(TaskResult::new(Some(result), NextAction::End))
    }
}

/// A task that adds the answers of the children, because there are no reducers.
struct Add {
    parts: u64,
}

#[async_trait]
impl Task for Add {
    fn id(&self) -> &str {
        "add"
    }

    async fn run(&self, context: Context) -> graph_flow::Result<TaskResult> {
        let part = |it: u64| context.get::<String>(&format!("fanout.{it}.response"));
        let parts = (0..self.parts).filter_map(part).filter_map(|it| it.parse::<u64>().ok());
        context.set("count", parts.fold(0, |sum: u64, it| sum.wrapping_add(it)))?;
        Ok(TaskResult::new(None, NextAction::End))
    }
}

fn fan_out(parts: u64, compute: fn(u64) -> u64) -> Graph {
    let child =
        |part: u64| Arc::new(Child { name: part.to_string(), part, compute }) as Arc<dyn Task>;
    let fan = FanOutTask::new("fan", (0..parts).map(child).collect());
    GraphBuilder::new("fan-out")
        .add_task(fan.with_next_action(NextAction::ContinueAndExecute))
        .add_task(Arc::new(Add { parts }))
        .add_edge("fan", "add")
        .build()
        .expect("the graph is valid")
}

/// Prepares concurrent sessions that are stored after every step.
fn threads(sessions: usize) -> Job {
    let graph = Arc::new(loop_graph(data::THREAD_STEPS, NextAction::Continue));
    let storage = Arc::new(InMemorySessionStorage::new());
    let runner = Arc::new(FlowRunner::new(graph, storage.clone()));
    concurrent(sessions, move || run_session(runner.clone(), storage.clone(), "tick"))
}

/// Runs a new session from a task to its end and returns its counter. The runner stores the session after every call.
async fn run_session(
    runner: Arc<FlowRunner>,
    storage: Arc<InMemorySessionStorage>,
    start: &'static str,
) -> usize {
    let id = data::new_thread();
    let session = Session::new_from_task(id.clone(), start);
    storage.save(session).await.expect("memory can be written");
    loop {
        let result = runner.run(&id).await.expect("the run succeeds");
        if matches!(result.status, ExecutionStatus::Completed) {
            break;
        }
    }
    let session = storage.get(&id).await.expect("memory can be read");
    count(&session.expect("the session is stored").context) as usize
}
