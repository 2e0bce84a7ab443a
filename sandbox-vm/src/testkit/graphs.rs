//! The graphs of the suite's guests.

use std::sync::Arc;

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, END, NodeError, Route, START, State,
    StateGraph,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::guest::{Agent, Host};

/// Registers the suite's graphs with an agent.
pub(super) fn register(agent: Agent) -> Agent {
    agent
        .graph("debate", |host: &Host| Ok((debate(host.checkpointer())?, Some(host.clone()))))
        .graph("order", |host: &Host| Ok((order(host.checkpointer())?, ())))
        .graph("chatter", |host: &Host| {
            let graph = StateGraph::<Chatter>::new().node(chatter).edge(START, chatter);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
        })
        .graph("crowd", |host: &Host| {
            let graph = StateGraph::<Crowd, Host>::new().node(gather).node(call);
            let graph = graph.edge(START, gather).branch(gather, call_up);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, host.clone()))
        })
        .graph("thief", |host: &Host| {
            let graph =
                StateGraph::<Order, Arc<dyn Checkpointer>>::new().node(thief).edge(START, thief);
            let graph = graph.shared_checkpointer(host.checkpointer()).compile()?;
            Ok((graph, host.checkpointer()))
        })
        .graph("glutton", |host: &Host| {
            let graph = StateGraph::<Order, Host>::new().node(glutton).edge(START, glutton);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, host.clone()))
        })
        .graph("hang", |host: &Host| {
            let graph = StateGraph::<Order>::new().node(hang).edge(START, hang);
            Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
        })
}

/// A debate of three rounds: two speakers at once, each asking the host for words, and a judge.
#[derive(State, Clone, Debug, Default)]
pub struct Debate {
    /// What it is about.
    pub topic: String,
    /// How many rounds are over.
    pub round: u32,
    /// What was said, and by whom.
    #[reduce(append)]
    pub turns: Vec<String>,
    /// What the judge says.
    pub verdict: String,
}

/// The debate. Its dependency is the host; without one a speaker says what it has to say by itself.
pub fn debate(
    saver: Arc<dyn Checkpointer>,
) -> Result<CompiledGraph<Debate, Option<Host>>, BuildError> {
    StateGraph::new()
        .node(open)
        .node(speak)
        .node(judge)
        .edge(START, open)
        .branch(open, give_turns)
        .edge(speak, judge)
        .branch(judge, go_on)
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

fn give_turns(debate: &Debate) -> Turns {
    let turn = |side: &str| Turn { side: side.to_owned(), round: debate.round };
    Turns::All(vec![turn("for"), turn("against")])
}

fn go_on(debate: &Debate) -> Next {
    if debate.round < 3 { Next::Again } else { Next::Over }
}

#[derive(Route)]
enum Next {
    #[to(open)]
    Again,
    #[to(END)]
    Over,
}

async fn open(debate: &Debate) -> DebateUpdate {
    Debate::update().round(debate.round + 1)
}

async fn speak(turn: Turn, cx: &Context<Option<Host>>) -> Result<DebateUpdate, NodeError> {
    let Turn { side, round } = turn;
    let words = format!("{side} in round {round}");
    let answer: String = match cx.deps() {
        Some(host) => host.call(cx, "llm.chat", 0, json!({ "prompt": words })).await?,
        None => cx.task("llm.chat", 0, async { Ok(answer(&words)) }).await?,
    };
    Ok(Debate::update().turns([format!("{side}: {answer}")]))
}

/// What the suite's hosts answer to a prompt.
pub fn answer(prompt: &str) -> String {
    format!("I am {prompt}")
}

/// Decides, and keeps the log of the debate in the workspace after every round.
async fn judge(debate: &Debate, cx: &Context<Option<Host>>) -> Result<DebateUpdate, NodeError> {
    if let Some(host) = cx.deps() {
        let log = serde_json::to_vec_pretty(&debate.turns).map_err(NodeError::terminal)?;
        let logs = host.workspace().join("logs");
        std::fs::create_dir_all(&logs)?;
        std::fs::write(logs.join(format!("round-{}.json", debate.round)), log)?;
    }
    Ok(Debate::update().verdict(format!("{} turns on {}", debate.turns.len(), debate.topic)))
}

/// An order that needs somebody's word.
#[derive(State, Clone, Debug, Default)]
pub struct Order {
    /// What is ordered.
    pub item: String,
    /// Whether it was approved.
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
struct Chatter {
    events: u32,
}

/// Says more than the host has room for at once.
async fn chatter(chatter: &Chatter, cx: &Context) {
    for number in 0..chatter.events {
        cx.emit(number).await;
    }
}

/// Many who all call the host at once.
#[derive(State, Clone, Debug, Default)]
struct Crowd {
    callers: u32,
    #[reduce(append)]
    answers: Vec<u32>,
}

#[derive(Route)]
enum Callers {
    #[to(call)]
    All(Vec<u32>),
}

fn call_up(crowd: &Crowd) -> Callers {
    Callers::All((0..crowd.callers).collect())
}

async fn gather(_: &Crowd) {}

async fn call(caller: u32, cx: &Context<Host>) -> Result<CrowdUpdate, NodeError> {
    let answer = cx.deps().call(cx, "count", 0, caller).await?;
    Ok(Crowd::update().answers([answer]))
}

/// Reaches for a thread that is not its own.
async fn thief(
    order: &Order,
    cx: &Context<Arc<dyn Checkpointer>>,
) -> Result<OrderUpdate, NodeError> {
    let at = graph_core::checkpoint::Lookup::head(&order.item, "");
    cx.deps().get(&at).await?;
    Ok(Order::update().approved(true))
}

/// Takes more than it may, of what the order names.
async fn glutton(order: &Order, cx: &Context<Host>) -> Result<OrderUpdate, NodeError> {
    let workspace = cx.deps().workspace();
    match order.item.as_str() {
        "memory" => {
            let mut held = Vec::new();
            loop {
                held.push(vec![1_u8; 1 << 20]);
                std::hint::black_box(&held);
            }
        }
        "disk" => std::fs::write(workspace.join("large"), vec![1; 64 << 20])?,
        "files" => {
            for number in 0..100_000 {
                std::fs::write(workspace.join(number.to_string()), "")?;
            }
        }
        "threads" => drop(std::thread::Builder::new().spawn(|| {})?),
        "programs" => drop(std::process::Command::new(super::PROGRAM).spawn()?),
        _ => std::process::abort(),
    }
    Ok(Order::update().approved(true))
}

/// Never ends, and never lets anybody else run.
async fn hang(_: &Order) {
    loop {
        std::hint::spin_loop();
    }
}
