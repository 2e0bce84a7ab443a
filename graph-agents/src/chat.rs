//! A chat with an agent in the terminal.

mod review;
mod screen;

use std::io;

use graph_core::{Event, EventKind, Input, Interrupt, JsonState, RunError, StreamMode, Thread};
use screen::Screen;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, BufReader};

use crate::{
    AgentError, CompiledAgent, Message,
    message::{messages_from_json, pretty},
    state::MESSAGES,
};

const HELP: &str = "\
/history      Print the conversation
/thread NAME  Switch to another conversation
/retry        Resume a run that failed or was stopped
/exit         End the chat";

/// Starts a chat with an agent in the terminal, in the conversation `chat`. Returns when the user types `/exit` or ends
/// the input.
///
/// The agent needs a checkpointer. The chat prints the answer while it arrives, shows tool calls and their results, and
/// asks the user when the run is interrupted. Type `/help` for the commands.
///
/// ```no_run
/// # async fn run(agent: graph_agents::CompiledAgent) -> Result<(), graph_agents::ChatError> {
/// graph_agents::chat(&agent).await
/// # }
/// ```
pub async fn chat(agent: &CompiledAgent) -> Result<(), ChatError> {
    let input = BufReader::new(tokio::io::stdin());
    Chat::new(agent).run(input, tokio::io::stdout()).await
}

/// An error that ends a chat. Failed runs do not end it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The input cannot be read, or the output cannot be written.
    #[error("cannot access the terminal: {0}")]
    Io(#[from] io::Error),
    /// The conversation cannot be loaded.
    #[error("cannot load the conversation: {0}")]
    Thread(#[source] RunError),
}

graph_core::readable_debug!(ChatError);

/// A chat with an agent in any conversation, over any input and output. For a chat in the terminal, use [`chat`].
///
/// ```
/// use graph_agents::{Agent, AiMessage, Chat, ScriptedModel};
/// use graph_core::MemorySaver;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([AiMessage::new("Hello!")]);
/// let agent = Agent::new(model).checkpointer(MemorySaver::new()).compile()?;
/// let mut output = Vec::new();
/// Chat::new(&agent).conversation("ann").run("hi\n".as_bytes(), &mut output).await?;
/// assert_eq!(String::from_utf8(output)?, "> Hello!\n> \n");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Chat {
    agent: CompiledAgent,
    conversation: String,
}

impl Chat {
    /// Creates a chat in the conversation `chat`.
    pub fn new(agent: &CompiledAgent) -> Self {
        Self { agent: agent.clone(), conversation: "chat".to_owned() }
    }

    /// Sets the name of the conversation.
    pub fn conversation(mut self, name: impl Into<String>) -> Self {
        self.conversation = name.into();
        self
    }

    /// Runs the chat until `/exit` or the end of the input.
    pub async fn run(
        self,
        input: impl AsyncBufRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> Result<(), ChatError> {
        let thread = open(&self.agent, &self.conversation);
        Session { agent: self.agent, thread, input, screen: Screen::new(output) }.run().await
    }
}

/// Opens a conversation whose runs stream messages and updates.
fn open(agent: &CompiledAgent, name: &str) -> Thread<JsonState> {
    let options = CompiledAgent::run_options()
        .stream_modes([StreamMode::Messages, StreamMode::Updates])
        .subgraphs();
    agent.graph().thread(name, ()).with_options(options)
}

/// Returns whether a run failed because the decision of a reviewer was refused, possibly in a subgraph.
fn refuses_decision(error: &RunError) -> bool {
    match error.node_error::<AgentError>() {
        Some(error) => error.refuses_decision(),
        None => error.node_error::<RunError>().is_some_and(refuses_decision),
    }
}

struct Session<R, W> {
    agent: CompiledAgent,
    thread: Thread<JsonState>,
    input: R,
    screen: Screen<W>,
}

impl<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> Session<R, W> {
    async fn run(mut self) -> Result<(), ChatError> {
        self.answer_pending().await?;
        loop {
            let Some(line) = self.ask("> ").await? else {
                return Ok(self.screen.line("").await?);
            };
            match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
                ("", _) => {}
                ("/exit", _) => return Ok(()),
                ("/help", _) => self.screen.line(HELP).await?,
                ("/history", _) => self.history().await?,
                ("/retry", _) => self.turn(Input::proceed()).await?,
                ("/thread", name) if !name.trim().is_empty() => {
                    self.thread = open(&self.agent, name.trim());
                    self.answer_pending().await?;
                }
                (command, _) if command.starts_with('/') => {
                    self.screen.line("unknown command; type /help for the commands").await?;
                }
                _ => match self.agent.input(line.trim()) {
                    Ok(input) => self.turn(input).await?,
                    Err(error) => self.screen.error(&error).await?,
                },
            }
        }
    }

    /// Prints a prompt and reads a line. Returns `None` at the end of the input.
    async fn ask(&mut self, prompt: &str) -> Result<Option<String>, ChatError> {
        self.screen.text(prompt).await?;
        let mut line = String::new();
        let n_bytes = self.input.read_line(&mut line).await?;
        Ok((n_bytes > 0).then_some(line))
    }

    async fn history(&mut self) -> Result<(), ChatError> {
        let state = self.thread.state().await.map_err(ChatError::Thread)?;
        let messages = state.as_ref().and_then(|it| it.values.get(MESSAGES));
        let messages = messages.and_then(|it| messages_from_json(it).ok()).unwrap_or_default();
        Ok(self.screen.text(&pretty(&messages)).await?)
    }

    async fn pending_interrupts(&self) -> Result<Vec<Interrupt>, ChatError> {
        let state = self.thread.state().await.map_err(ChatError::Thread)?;
        Ok(state.into_iter().flat_map(|it| it.tasks).flat_map(|it| it.interrupts).collect())
    }

    /// Asks the user about the interrupts that an earlier run of the conversation waits for.
    async fn answer_pending(&mut self) -> Result<(), ChatError> {
        let pending = self.pending_interrupts().await?;
        self.answer_interrupts(pending).await
    }

    /// Runs the agent with `input`, and asks the user until the run is no longer interrupted.
    async fn turn(&mut self, input: Input<JsonState>) -> Result<(), ChatError> {
        let interrupts = self.run_once(input).await?;
        self.answer_interrupts(interrupts).await
    }

    async fn answer_interrupts(&mut self, mut pending: Vec<Interrupt>) -> Result<(), ChatError> {
        while !pending.is_empty() {
            let mut answers = Vec::new();
            for interrupt in &pending {
                let Some(answer) = self.answer(&interrupt.value).await? else { return Ok(()) };
                answers.push((interrupt.id.clone(), answer));
            }
            pending = self.run_once(Input::resume_by_id(answers)).await?;
        }
        Ok(())
    }

    /// Runs the agent and prints its events. Prints the error if the run fails. Returns the interrupts that the run
    /// waits for. An interrupt whose answer was refused is still pending, so the user is asked again.
    async fn run_once(&mut self, input: Input<JsonState>) -> Result<Vec<Interrupt>, ChatError> {
        let mut events = self.thread.stream(input);
        while let Some(event) = events.next().await {
            self.show(event).await?;
        }
        self.screen.end_message().await?;
        match events.finish().await {
            Ok(outcome) => Ok(outcome.interrupts().to_vec()),
            Err(error) => {
                self.screen.error(&error).await?;
                match refuses_decision(&error) {
                    true => self.pending_interrupts().await,
                    false => Ok(Vec::new()),
                }
            }
        }
    }

    async fn show(&mut self, event: Event) -> io::Result<()> {
        match event.kind {
            EventKind::Message(value) => match serde_json::from_value(value) {
                Ok(Message::Ai(piece)) => self.screen.piece(&piece.content.text()).await,
                Ok(Message::Tool(result)) => self.screen.result(&result).await,
                _ => Ok(()),
            },
            EventKind::Update { writes, .. } if event.node.as_deref() == Some("model") => {
                self.screen.end_message().await?;
                let messages = writes.into_iter().filter(|it| it.field == MESSAGES);
                let messages = messages.filter_map(|it| messages_from_json(&it.value).ok());
                let newest = messages.flatten().filter_map(|it| it.as_ai().cloned()).next_back();
                for call in newest.iter().flat_map(|it| &it.tool_calls) {
                    self.screen.call(call).await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Asks the user to answer an interrupt. Returns `None` at the end of the input.
    async fn answer(&mut self, question: &Value) -> Result<Option<Value>, ChatError> {
        let requests = review::requests(question);
        if requests.is_empty() {
            let text = question.as_str().map_or_else(|| format!("{question:#}"), str::to_owned);
            self.screen.line(&text).await?;
            let line = self.ask("? ").await?;
            return Ok(line.map(|it| Value::from(it.trim_end_matches(['\r', '\n']))));
        }
        let mut decisions = Vec::new();
        for request in &requests {
            self.screen.line(&request.description).await?;
            let decision = loop {
                let Some(line) = self.ask(&request.prompt()).await? else { return Ok(None) };
                match request.decision(&line) {
                    Ok(decision) => break decision,
                    Err(problem) => self.screen.line(&problem).await?,
                }
            };
            decisions.push(decision);
        }
        Ok(Some(review::to_answer(question, decisions)))
    }
}
