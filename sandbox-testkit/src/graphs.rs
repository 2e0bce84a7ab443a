//! The graphs that the suite's guests can run.

use std::{io::Write, sync::Arc};

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, END, NodeError, Route, START, State,
    StateGraph,
};
use sandbox_vm::guest::{Agent, Host};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{attempts, check::PROGRAM, inquiry::inquiry};

/// Returns the agent that runs in the suite's guests.
pub fn agent() -> Agent {
    Agent::new()
        .graph("debate", |host: &Host| Ok((debate(host.checkpointer())?, Some(host.clone()))))
        .graph("inquiry", |host: &Host| Ok((inquiry(host.checkpointer())?, Some(host.clone()))))
        .graph("order", |host: &Host| Ok((order(host.checkpointer())?, ())))
        .graph("event-burst", |host: &Host| {
            let graph = StateGraph::<EventBurst>::new().node(event_burst).edge(START, event_burst);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
        })
        .graph("parallel-calls", |host: &Host| {
            let graph = StateGraph::<ParallelCalls, Host>::new().node(prepare).node(call);
            let graph = graph.edge(START, prepare).branch(prepare, fan_out);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, host.clone()))
        })
        .graph("foreign-thread", |host: &Host| {
            let graph = StateGraph::<Order, Arc<dyn Checkpointer>>::new()
                .node(read_foreign_thread)
                .edge(START, read_foreign_thread);
            let graph = graph.shared_checkpointer(host.checkpointer()).compile()?;
            Ok((graph, host.checkpointer()))
        })
        .graph("exhaust", |host: &Host| {
            let graph = StateGraph::<Order, Host>::new().node(exhaust).edge(START, exhaust);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, host.clone()))
        })
        .graph("open-files", |host: &Host| {
            let graph = StateGraph::<Files>::new().node(open_files).edge(START, open_files);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
        })
        .graph("attempts", |host: &Host| {
            let graph = StateGraph::<Attempts>::new().node(make_attempts);
            let graph = graph.edge(START, make_attempts);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
        })
        .graph("hang", |host: &Host| {
            let graph = StateGraph::<Order>::new().node(hang).edge(START, hang);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
        })
}

/// State of a debate with three rounds. In each round, two speakers run concurrently and call the host; then a judge
/// runs.
#[derive(State, Clone, Debug, Default)]
pub struct Debate {
    /// Topic of the debate.
    pub topic: String,
    /// Number of rounds started so far.
    pub round: u32,
    /// All statements, each prefixed with the side that made it.
    #[reduce(append)]
    pub turns: Vec<String>,
    /// The judge's verdict.
    pub verdict: String,
}

/// Builds the debate graph. The graph's dependency is an optional host, which answers the speakers' prompts. Without a
/// host, the speakers answer their prompts themselves.
pub fn debate(
    saver: Arc<dyn Checkpointer>,
) -> Result<CompiledGraph<Debate, Option<Host>>, BuildError> {
    StateGraph::new()
        .node(start_round)
        .node(speak)
        .node(judge)
        .edge(START, start_round)
        .branch(start_round, assign_turns)
        .edge(speak, judge)
        .branch(judge, next_round)
        .shared_checkpointer(saver)
        .compile()
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Turn {
    side: String,
    round: u32,
}

#[derive(Route)]
enum Turns {
    #[to(speak)]
    All(Vec<Turn>),
}

fn assign_turns(debate: &Debate) -> Turns {
    let turn = |side: &str| Turn { side: side.to_owned(), round: debate.round };
    Turns::All(vec![turn("for"), turn("against")])
}

fn next_round(debate: &Debate) -> Next {
    if debate.round < 3 { Next::Again } else { Next::Finish }
}

#[derive(Route)]
enum Next {
    #[to(start_round)]
    Again,
    #[to(END)]
    Finish,
}

async fn start_round(debate: &Debate) -> DebateUpdate {
    Debate::update().round(debate.round + 1)
}

async fn speak(turn: Turn, cx: &Context<Option<Host>>) -> Result<DebateUpdate, NodeError> {
    let Turn { side, round } = turn;
    let prompt = format!("{side} in round {round}");
    let answer: String = match cx.deps() {
        Some(host) => host.call(cx, "llm.chat", 0, json!({ "prompt": prompt })).await?,
        None => cx.task("llm.chat", 0, async { Ok(answer(&prompt)) }).await?,
    };
    Ok(Debate::update().turns([format!("{side}: {answer}")]))
}

/// Returns the answer that the suite gives to a prompt.
pub fn answer(prompt: &str) -> String {
    format!("I am {prompt}")
}

/// Writes the log of the debate to the workspace and updates the verdict. Runs after every round.
async fn judge(debate: &Debate, cx: &Context<Option<Host>>) -> Result<DebateUpdate, NodeError> {
    if let Some(host) = cx.deps() {
        let log = serde_json::to_vec_pretty(&debate.turns).map_err(NodeError::terminal)?;
        let logs = host.workspace().join("logs");
        std::fs::create_dir_all(&logs)?;
        std::fs::write(logs.join(format!("round-{}.json", debate.round)), log)?;
    }
    Ok(Debate::update().verdict(format!("{} turns on {}", debate.turns.len(), debate.topic)))
}

/// State of an order that needs approval.
#[derive(State, Clone, Debug, Default)]
pub struct Order {
    /// The ordered item.
    pub item: String,
    /// Whether the order was approved.
    pub approved: bool,
}

fn order(saver: Arc<dyn Checkpointer>) -> Result<CompiledGraph<Order>, BuildError> {
    StateGraph::new().node(approve).edge(START, approve).shared_checkpointer(saver).compile()
}

async fn approve(order: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
    let answer: bool = cx.interrupt(format!("buy {}?", order.item))?;
    Ok(Order::update().approved(answer))
}

#[derive(State, Clone, Debug, Default)]
struct EventBurst {
    events: u32,
}

/// Emits more events than the host can buffer.
async fn event_burst(event_burst: &EventBurst, cx: &Context) {
    for number in 0..event_burst.events {
        cx.emit(number).await;
    }
}

/// State of a graph that makes many concurrent host calls.
#[derive(State, Clone, Debug, Default)]
struct ParallelCalls {
    callers: u32,
    #[reduce(append)]
    answers: Vec<u32>,
}

#[derive(Route)]
enum Callers {
    #[to(call)]
    All(Vec<u32>),
}

fn fan_out(state: &ParallelCalls) -> Callers {
    Callers::All((0..state.callers).collect())
}

async fn prepare(_: &ParallelCalls) {}

async fn call(caller: u32, cx: &Context<Host>) -> Result<ParallelCallsUpdate, NodeError> {
    let answer = cx.deps().call(cx, "count", 0, caller).await?;
    Ok(ParallelCalls::update().answers([answer]))
}

/// Tries to read the newest checkpoint of a thread other than the run's own thread.
async fn read_foreign_thread(
    order: &Order,
    cx: &Context<Arc<dyn Checkpointer>>,
) -> Result<OrderUpdate, NodeError> {
    let at = graph_core::checkpoint::Lookup::head(&order.item, "");
    cx.deps().get(&at).await?;
    Ok(Order::update().approved(true))
}

/// Exhausts the resource that the order's item specifies.
async fn exhaust(order: &Order, cx: &Context<Host>) -> Result<OrderUpdate, NodeError> {
    let workspace = cx.deps().workspace();
    match order.item.as_str() {
        "memory" => {
            let mut allocated = Vec::new();
            loop {
                allocated.push(vec![1_u8; 1 << 20]);
                std::hint::black_box(&allocated);
            }
        }
        "disk" => {
            let mut file = std::fs::File::create(workspace.join("large"))?;
            let block = vec![1; 1 << 20];
            for _ in 0..64 {
                file.write_all(&block)?;
            }
        }
        "files" => {
            for number in 0..100_000 {
                std::fs::write(workspace.join(number.to_string()), "")?;
            }
        }
        "open-files" => {
            let path = workspace.join("open");
            std::fs::write(&path, "")?;
            let open: std::io::Result<Vec<_>> =
                (0..100_000).map(|_| std::fs::File::open(&path)).collect();
            std::fs::remove_file(&path)?;
            drop(open?);
        }
        "threads" => drop(std::thread::Builder::new().spawn(|| {})?),
        "programs" => drop(std::process::Command::new(PROGRAM).spawn()?),
        _ => std::process::abort(),
    }
    Ok(Order::update().approved(true))
}

/// State of a graph that tries to open files.
#[derive(State, Clone, Debug, Default)]
struct Files {
    paths: Vec<String>,
    readable: Vec<String>,
    writable: Vec<String>,
}

/// Tries to open each file for reading and for writing.
async fn open_files(files: &Files) -> FilesUpdate {
    let can_open = |options: &std::fs::OpenOptions| {
        let paths = files.paths.iter().filter(|it| options.open(it).is_ok());
        paths.cloned().collect::<Vec<_>>()
    };
    let mut options = std::fs::OpenOptions::new();
    let readable = can_open(options.read(true));
    Files::update().readable(readable).writable(can_open(options.write(true)))
}

/// State of a graph that attempts to escape.
#[derive(State, Clone, Debug, Default)]
struct Attempts {
    /// Name and arguments of each attempt.
    attempts: Vec<Vec<String>>,
    /// Attempts that were not blocked.
    failures: Vec<String>,
}

/// Makes the attempts in this process, which is the agent.
async fn make_attempts(state: &Attempts) -> AttemptsUpdate {
    Attempts::update().failures(attempts::failures(&state.attempts))
}

/// Never returns, and never yields to other tasks.
async fn hang(_: &Order) {
    loop {
        std::hint::spin_loop();
    }
}
