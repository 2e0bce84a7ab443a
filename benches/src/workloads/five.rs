//! LangGraph's benchmark programs that are more than a chain: a fan-out to a subgraph, a wide state and an agent.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use graph_agents::{
    Agent, AiMessage, CompiledAgent, Message, Tool, ToolCall,
    model::{ChatModel, ChunkSink, Prompt},
};
use graph_core::{
    CompiledGraph, END, NodeError, Route, START, State, StateGraph, subgraph_on_payload,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::simple::{at_exit, saver};
use crate::{
    data::{self, Document, Shared, Texts},
    protocol::{Job, job},
};

pub(super) fn prepare(workload: &str, size: usize) -> Option<Job> {
    let (name, checkpoint) = match workload.strip_suffix("-checkpoint") {
        Some(name) => (name, true),
        None => (workload, false),
    };
    Some(match name {
        "fanout-to-subgraph" => fanout_to_subgraph(size, checkpoint),
        "wide-state" => wide_state(size, checkpoint),
        "react-agent" => agent(size, Texts::Long, checkpoint),
        "agent-loop" => agent(size, Texts::Short, checkpoint),
        _ => return None,
    })
}

/// Runs a graph, on a new thread if it has a checkpointer, and describes its final state.
fn run<S: State>(
    graph: CompiledGraph<S>,
    checkpoint: bool,
    input: impl Fn() -> S + Send + Sync + 'static,
    answer: fn(S) -> String,
) -> Job {
    let (graph, input) = (Arc::new(graph), Arc::new(input));
    job(move || {
        let (graph, input) = (graph.clone(), input());
        async move {
            let exit = if checkpoint {
                graph.thread(data::new_thread(), ()).with_options(at_exit()).run(input).await
            } else {
                graph.with(at_exit()).run(input, ()).await
            };
            answer(exit.expect("the run succeeds").into_state())
        }
    })
}

/// Compiles a graph, with a saver in memory if it stores checkpoints.
fn compile<S: State>(graph: StateGraph<S>, checkpoint: bool) -> CompiledGraph<S> {
    let graph = match saver(checkpoint) {
        Some(saver) => graph.shared_checkpointer(saver),
        None => graph,
    };
    graph.compile().expect("the graph is valid")
}

#[derive(State, Clone, Debug, Default)]
struct Jokes {
    subjects: Vec<Subject>,
    #[reduce(append)]
    jokes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Subject(Shared<Vec<String>>);

#[derive(State, Clone, Debug, Default)]
struct OneJoke {
    letters: Shared<Vec<String>>,
    subject: String,
    joke: String,
}

async fn edit(joke: &OneJoke) -> OneJokeUpdate {
    OneJoke::update().subject(data::edit(&joke.letters.0))
}

async fn generate(joke: &OneJoke) -> OneJokeUpdate {
    OneJoke::update().joke(data::joke(&joke.subject))
}

async fn bump(joke: &OneJoke) -> OneJokeUpdate {
    OneJoke::update().joke(data::bump(&joke.joke))
}

#[derive(Route)]
enum Bump {
    #[to(bump)]
    Again,
    #[to(END)]
    Done,
}

fn bump_again(joke: &OneJoke) -> Bump {
    if data::is_bumped(&joke.joke) { Bump::Done } else { Bump::Again }
}

#[derive(Route)]
enum Scatter {
    #[to("generate_joke")]
    Each(Vec<Subject>),
}

fn scatter(jokes: &Jokes) -> Scatter {
    Scatter::Each(jokes.subjects.clone())
}

fn fanout_to_subgraph(size: usize, checkpoint: bool) -> Job {
    let one = StateGraph::<OneJoke>::new()
        .node(edit)
        .node(generate)
        .node(bump)
        .edge(START, edit)
        .edge(edit, generate)
        .edge(generate, bump)
        .branch(bump, bump_again)
        .compile()
        .expect("the graph is valid");
    let write = subgraph_on_payload(
        "generate_joke",
        &one,
        |Subject(letters)| OneJoke { letters, ..OneJoke::default() },
        |it: OneJoke| Jokes::update().jokes([it.joke]),
    );
    let graph = StateGraph::<Jokes>::new().node(write).branch(START, scatter);
    let subjects: Vec<Subject> =
        (0..size).map(|it| Subject(Shared(Arc::new(data::subject(it))))).collect();
    let input = move || Jokes { subjects: subjects.clone(), ..Jokes::default() };
    run(compile(graph, checkpoint), checkpoint, input, |it| data::describe(it.jokes))
}

/// A state with many fields and reducers.
#[derive(State, Clone, Debug, Default)]
struct Wide {
    size: usize,
    #[reduce(append)]
    messages: Vec<Document>,
    #[reduce(append)]
    trigger_events: Vec<Document>,
    #[reduce(append)]
    categorizations: Vec<Document>,
    #[reduce(append)]
    responses: Vec<Document>,
    #[reduce(with = new_or_old)]
    primary_issue_medium: Option<String>,
    autoresponse: Option<Document>,
    #[reduce(with = new_or_old)]
    issue: Option<Document>,
    relevant_rules: Vec<Document>,
    memory_docs: Vec<Document>,
    #[reduce(with = new_or_old)]
    user_info: Option<Document>,
    #[reduce(with = new_or_old)]
    crm_info: Option<Document>,
    #[reduce(with = new_or_old)]
    email_thread_id: Option<String>,
    #[reduce(merge)]
    slack_participants: BTreeMap<String, Shared<Value>>,
    bot_id: Option<String>,
    #[reduce(merge)]
    notified_assignees: BTreeMap<String, Shared<Value>>,
}

fn new_or_old<T>(value: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *value = new;
    }
}

async fn one(wide: &Wide) -> WideUpdate {
    let text = data::wide_text(wide.size);
    Wide::update().trigger_events(wide.messages.clone()).primary_issue_medium(Some(text))
}

async fn two(wide: &Wide) -> WideUpdate {
    let last = wide.trigger_events.last().cloned();
    Wide::update().autoresponse(last.clone()).issue(last)
}

async fn three(wide: &Wide) -> WideUpdate {
    Wide::update().relevant_rules(wide.autoresponse.iter().cloned().collect::<Vec<_>>())
}

async fn four(wide: &Wide) -> WideUpdate {
    let events = &wide.trigger_events;
    Wide::update()
        .categorizations(events.clone())
        .responses(events.clone())
        .memory_docs(events.clone())
}

async fn five(wide: &Wide) -> WideUpdate {
    let last = wide.categorizations.last().cloned();
    let people = last.as_ref().map_or_else(BTreeMap::new, |it| (*it.0).clone());
    let text = Some(data::wide_text(wide.size));
    Wide::update()
        .user_info(last.clone())
        .crm_info(last)
        .email_thread_id(text.clone())
        .bot_id(text)
        .slack_participants(people.clone())
        .notified_assignees(people)
}

async fn six(wide: &Wide) -> WideUpdate {
    Wide::update().messages(wide.responses.clone())
}

#[derive(Route)]
enum Again {
    #[to(one)]
    Again,
    #[to(END)]
    Done,
}

fn again(wide: &Wide) -> Again {
    if wide.messages.len() > wide.size { Again::Done } else { Again::Again }
}

fn wide_state(size: usize, checkpoint: bool) -> Job {
    let graph = StateGraph::<Wide>::new()
        .node(one)
        .node(two)
        .node(three)
        .node(four)
        .node(five)
        .node(six)
        .edge(START, one)
        .edge(one, two)
        .edge(two, three)
        .edge(two, four)
        .join((three, four), five)
        .edge(five, six)
        .branch(six, again);
    let document = data::document(size);
    let input = move || Wide { size, messages: vec![document.clone()], ..Wide::default() };
    run(compile(graph, checkpoint), checkpoint, input, |it| {
        let Wide { messages, trigger_events, categorizations, responses, .. } = it;
        data::wide_answer(
            messages.len(),
            trigger_events.len(),
            categorizations.len(),
            responses.len(),
        )
    })
}

/// A model that calls the tool once per turn until it has called it often enough.
#[derive(Debug)]
struct FakeModel {
    calls: usize,
    texts: Texts,
}

#[async_trait]
impl ChatModel for FakeModel {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let turn = prompt.messages.len() / 2;
        if turn >= self.calls {
            return Ok(AiMessage::new(self.texts.answer()));
        }
        let call =
            ToolCall::new("search", json!({"query": self.texts.query(turn)}), turn.to_string());
        Ok(AiMessage::new("").tool_call(call))
    }
}

fn agent(calls: usize, texts: Texts, checkpoint: bool) -> Job {
    let agent = compile_agent(calls, texts, checkpoint);
    job(move || {
        let agent = agent.clone();
        async move { ask(&agent, checkpoint).await }
    })
}

/// Runs an agent that calls a tool `calls` times, several times on the runtime of the caller. Returns the total length
/// of the answers.
pub async fn run_agent(calls: usize, runs: usize) -> u64 {
    let agent = compile_agent(calls, Texts::Short, false);
    let mut length = 0;
    for _ in 0..runs {
        length += ask(&agent, false).await.len() as u64;
    }
    length
}

fn compile_agent(calls: usize, texts: Texts, checkpoint: bool) -> CompiledAgent {
    let schema = json!({"properties": {"query": {"type": "string"}}, "required": ["query"]});
    let search = Tool::dynamic("search", "Searches.", schema, move |args, _| async move {
        texts.result(args["query"].as_str().unwrap_or_default())
    });
    let mut agent = Agent::new(FakeModel { calls, texts }).tools([search.reads_state(false)]);
    if let Some(saver) = saver(checkpoint) {
        agent = agent.shared_checkpointer(saver);
    }
    agent.compile().expect("the agent is valid")
}

/// Runs an agent, on a new thread if it has a checkpointer, and describes its messages.
async fn ask(agent: &CompiledAgent, checkpoint: bool) -> String {
    let input = agent.input("hi?").expect("the message is valid");
    let exit = if checkpoint {
        agent.thread(data::new_thread(), ()).with_options(at_exit()).run(input).await
    } else {
        agent.with(at_exit()).run(input, ()).await
    };
    let state = exit.expect("the run succeeds").into_state();
    let messages = state.get("messages").expect("an agent has messages");
    let messages = Vec::<Message>::deserialize(messages).expect("messages are valid");
    data::describe(messages.iter().map(Message::text))
}
