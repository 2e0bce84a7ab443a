//! Agents with tools that count their executions, for workers that are killed.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use graph_agents::{
    Agent, AgentError, AiMessage, CompiledAgent, Message, Tool, ToolCall, ToolRuntime,
    message::messages_from_json,
    middleware::{HumanInTheLoop, ReviewRule},
    model::{ChatModel, ChunkSink, Prompt},
    multi::{OutputMode, Supervisor, Swarm, agent_tool, handoff_tool},
};
use graph_core::{
    Checkpointer, Durability, Input, NodeError, RunError,
    checkpoint::{CheckpointError, HistoryQuery, TaskEvent},
    state::FieldError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{job, logs};

const MESSAGES: &str = "messages";

/// Name of the tool that runs an agent.
const AGENT_TOOL: &str = "bob";

/// The agents that a worker can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentJob {
    /// One agent.
    Single,
    /// One agent whose calls a person reviews. It has a tool that asks a question.
    Reviewed,
    /// Two agents that hand the conversation to each other. One has a tool that asks a question.
    Swarm,
    /// A supervisor that hands a task to an agent, which has a tool that asks a question.
    Supervisor,
    /// An agent with a tool that runs another agent, which has a tool that asks a question.
    Delegated,
}

/// Name of a tool and id of a call.
type Call = (&'static str, &'static str);

impl AgentJob {
    pub const ALL: [Self; 5] =
        [Self::Single, Self::Reviewed, Self::Swarm, Self::Supervisor, Self::Delegated];

    pub fn parse(arg: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == arg)
    }

    /// Returns the command-line name of the job.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Reviewed => "reviewed",
            Self::Swarm => "swarm",
            Self::Supervisor => "supervisor",
            Self::Delegated => "delegated",
        }
    }

    /// Returns the tool calls of each AI message of the conversation.
    fn rounds(self) -> &'static [&'static [Call]] {
        match self {
            Self::Single => &[
                &[("count", "a"), ("count", "b"), ("count", "c")],
                &[("count", "d"), ("count", "e")],
            ],
            Self::Reviewed => &[&[("count", "a"), ("count", "b"), ("ask", "c")], &[("count", "d")]],
            Self::Swarm => &[
                &[("count", "a"), ("count", "b"), ("transfer_to_bob", "to bob")],
                &[("bob_count", "c"), ("bob_ask", "d")],
                &[("transfer_to_alice", "to alice")],
                &[("count", "e")],
            ],
            // The third message is Bob's answer, and the fourth hands the conversation back to the supervisor.
            Self::Supervisor => &[
                &[("count", "a"), ("count", "b"), ("transfer_to_bob", "to bob")],
                &[("bob_count", "c"), ("bob_ask", "d")],
                &[],
                &[],
                &[("count", "e")],
            ],
            Self::Delegated => &[&[("count", "a"), (AGENT_TOOL, "to bob")], &[("count", "b")]],
        }
    }

    /// Returns the tool calls of each AI message of the agent that runs as a tool and has its own conversation.
    fn inner_rounds(self) -> &'static [&'static [Call]] {
        match self {
            Self::Delegated => &[&[("bob_count", "c"), ("bob_ask", "d")]],
            Self::Single | Self::Reviewed | Self::Swarm | Self::Supervisor => &[],
        }
    }

    /// Returns the ids of the counted tool calls whose results are in the conversation, in its order.
    pub fn conversation_calls(self) -> Vec<&'static str> {
        counted(self.rounds())
    }

    /// Returns the ids of all counted tool calls.
    pub fn calls(self) -> Vec<&'static str> {
        [counted(self.rounds()), counted(self.inner_rounds())].concat()
    }

    /// Returns the names of the authors of the AI messages, in the order of the conversation.
    pub fn authors(self) -> &'static [&'static str] {
        match self {
            Self::Single | Self::Reviewed | Self::Delegated => &["alice", "alice", "alice"],
            Self::Swarm => &["alice", "bob", "bob", "alice", "alice"],
            Self::Supervisor => &["supervisor", "bob", "bob", "bob", "supervisor", "supervisor"],
        }
    }

    /// Compiles the agents. Their tools append the id of the call to the file `log` and return the number of its
    /// occurrences in the file.
    pub fn compile(
        self,
        saver: Arc<dyn Checkpointer>,
        log: &Path,
    ) -> Result<CompiledAgent, AgentError> {
        let agent = |name: &str| Agent::new(Model(self.rounds())).name(name);
        let bob_tools = [count("bob_count", log), ask("bob_ask", log)];
        match self {
            Self::Single => {
                agent("alice").tools([count("count", log)]).shared_checkpointer(saver).compile()
            }
            Self::Reviewed => agent("alice")
                .tools([count("count", log), ask("ask", log)])
                .middleware(HumanInTheLoop::new([("count", ReviewRule::all())]))
                .shared_checkpointer(saver)
                .compile(),
            Self::Swarm => {
                let alice = agent("alice").tools([count("count", log), handoff_tool("bob")]);
                let bob = agent("bob").tools(bob_tools).tools([handoff_tool("alice")]);
                let agents = [alice.compile()?, bob.compile()?];
                Swarm::new(agents, "alice").shared_checkpointer(saver).compile()
            }
            Self::Supervisor => {
                Supervisor::new(Model(self.rounds()), [agent("bob").tools(bob_tools).compile()?])
                    .tools([count("count", log)])
                    .output_mode(OutputMode::FullHistory)
                    .shared_checkpointer(saver)
                    .compile()
            }
            Self::Delegated => {
                let bob = Agent::new(Model(self.inner_rounds())).name("bob").tools(bob_tools);
                let bob = agent_tool(bob.compile()?, AGENT_TOOL, "Counts.");
                agent("alice")
                    .tools([count("count", log), bob])
                    .shared_checkpointer(saver)
                    .compile()
            }
        }
    }
}

fn is_counted(tool: &str) -> bool {
    !tool.starts_with("transfer_") && tool != AGENT_TOOL
}

fn counted(rounds: &'static [&'static [Call]]) -> Vec<&'static str> {
    let calls = rounds.iter().copied().flatten();
    calls.filter(|it| is_counted(it.0)).map(|it| it.1).collect()
}

/// Report that a worker prints when the agents have finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Call id and content of the result of each counted call, in the order of the conversation.
    pub results: Vec<(String, String)>,
    /// Names of the authors of the AI messages.
    pub authors: Vec<String>,
    /// Text of the last message.
    pub answer: String,
    /// Number of write points that the worker has passed.
    pub n_writes: usize,
}

/// A model that derives its answer from the conversation alone, so that it can be called again after a crash.
#[derive(Debug)]
struct Model(&'static [&'static [Call]]);

#[async_trait]
impl ChatModel for Model {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let round = prompt.messages.iter().filter(|it| it.as_ai().is_some()).count();
        let calls = self.0.get(round).copied().unwrap_or_default();
        let call = |(tool, id): &Call| ToolCall::new(*tool, json!({ "task": "count" }), *id);
        let text = if calls.is_empty() { "done" } else { "" };
        Ok(AiMessage { tool_calls: calls.iter().map(call).collect(), ..AiMessage::new(text) })
    }
}

/// Creates a tool that counts its executions.
fn count(name: &str, log: &Path) -> Tool {
    let log = log.to_owned();
    Tool::dynamic(name, "Counts.", json!({}), move |_, runtime| {
        let executed = execute(&log, &runtime);
        async move { executed.map_err(NodeError::terminal) }
    })
}

/// Creates a tool that asks a question before it counts.
fn ask(name: &str, log: &Path) -> Tool {
    let log: PathBuf = log.to_owned();
    Tool::dynamic(name, "Asks.", json!({}), move |_, runtime| {
        let log = log.clone();
        async move {
            runtime.interrupt::<Value>("sure?")?;
            execute(&log, &runtime).map_err(NodeError::terminal)
        }
    })
}

/// Returns the file that contains a line with the id and the idempotency key of the call for each execution.
pub fn key_log(log: &Path) -> PathBuf {
    log.with_extension("keys")
}

fn execute(log: &Path, runtime: &ToolRuntime) -> io::Result<usize> {
    let id = runtime.call().id();
    job::append_line(&key_log(log), &format!("{id} {}", runtime.idempotency_key()))?;
    job::append_line(log, id)?;
    Ok(logs::effects(log)?[id])
}

/// Approves all calls of a review, and answers any other question.
fn answer(question: &Value) -> Value {
    match question["action_requests"].as_array() {
        Some(requests) => json!({ "decisions": vec![json!({"type": "approve"}); requests.len()] }),
        None => json!("yes"),
    }
}

/// Runs the agents to their end, starting at the last checkpoint of the thread.
pub async fn finish(
    agent: &CompiledAgent,
    thread: &str,
    durability: Durability,
) -> Result<AgentReport, RunError> {
    let options = CompiledAgent::run_options().durability(durability);
    let thread = agent.thread(thread, ()).with_options(options);
    let question = json!({ MESSAGES: [{ "role": "user", "content": "go" }] });
    let input = Input::start_or_continue(agent.schema().update(question)?);
    let mut outcome = thread.run(input).await?;
    while !outcome.interrupts().is_empty() {
        let answers = outcome.interrupts().iter().map(|it| (it.id.clone(), answer(&it.value)));
        let answers: Vec<_> = answers.collect();
        outcome = thread.resume_by_id(answers).await?;
    }
    let messages = outcome.into_state().get(MESSAGES).cloned().unwrap_or_default();
    let messages = messages_from_json(&messages).map_err(|it| FieldError::new(MESSAGES, it))?;
    let results = messages.iter().filter_map(Message::as_tool);
    let results = results.filter(|it| it.name.as_deref().is_none_or(is_counted));
    let authors = messages.iter().filter_map(Message::as_ai);
    Ok(AgentReport {
        results: results.map(|it| (it.tool_call_id.clone(), it.content.text())).collect(),
        authors: authors.map(|it| it.name.clone().unwrap_or_default()).collect(),
        answer: messages.last().map(Message::text).unwrap_or_default(),
        n_writes: 0,
    })
}

/// Returns the ids of all calls whose results are stored, in a checkpoint or a record of any agent of the thread.
pub async fn stored_results(
    saver: &dyn Checkpointer,
    thread: &str,
) -> Result<BTreeSet<String>, CheckpointError> {
    let mut lists = Vec::new();
    for (namespace, _) in saver.namespaces(thread).await? {
        for mut checkpoint in saver.list(&HistoryQuery::new(thread, &namespace)).await? {
            lists.extend(checkpoint.values.remove(MESSAGES));
            for record in checkpoint.records {
                let TaskEvent::Done { writes, .. } = record.event else { continue };
                let writes = writes.into_iter().filter(|it| it.field == MESSAGES);
                lists.extend(writes.map(|it| it.value));
            }
        }
    }
    let messages = lists.iter().filter_map(|it| messages_from_json(it).ok()).flatten();
    Ok(messages.filter_map(|it| it.as_tool().map(|it| it.tool_call_id.clone())).collect())
}
