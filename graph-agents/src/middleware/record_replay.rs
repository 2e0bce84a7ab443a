//! Records model and tool calls to a file, and replays them.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use graph_core::NodeError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError,
    message::{Message, ToolMessage},
    model::{ModelAnswer, ModelHandler, ModelRequest, RequestTool},
    tool::{ToolAnswer, ToolHandler, ToolRequest},
};

/// Records the model and tool calls of an agent to a file, or answers them from such a file without calling the model
/// or a tool.
///
/// A call is identified by a hash of its request without message ids; equal requests are answered in the order in which
/// they were recorded. A replayed call that is not in the file fails. Errors and commands are not recorded: recording
/// fails for a tool that returns a command.
///
/// Add it last, so that the other middleware also runs during a replay. The file contains the conversation in plain
/// text.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, middleware::RecordReplay};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let file = dir.path().join("calls.jsonl");
/// let model = ScriptedModel::new([AiMessage::new("Hello!")]);
/// let agent = Agent::new(model).middleware(RecordReplay::record(&file)?).compile()?;
/// agent.run("Hi").await?;
///
/// // The model of the replay is never called.
/// let no_model = ScriptedModel::new(Vec::<AiMessage>::new());
/// let agent = Agent::new(no_model).middleware(RecordReplay::replay(&file)?).compile()?;
/// assert_eq!(agent.run("Hi").await?.text(), "Hello!");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RecordReplay {
    mode: Mode,
}

#[derive(Clone, Debug)]
enum Mode {
    Record(Arc<Mutex<File>>),
    Replay(Arc<Mutex<BTreeMap<String, VecDeque<Value>>>>),
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    answer: Value,
}

/// A recorded answer of the model.
#[derive(Serialize, Deserialize)]
struct RecordedAnswer {
    messages: Vec<Message>,
    structured: Option<Value>,
}

impl RecordReplay {
    /// Records calls. Appends to the file, and creates it if it is missing.
    pub fn record(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { mode: Mode::Record(Arc::new(Mutex::new(file))) })
    }

    /// Replays the calls in the file.
    pub fn replay(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut answers: BTreeMap<String, VecDeque<Value>> = BTreeMap::new();
        for line in BufReader::new(File::open(path)?).lines() {
            let entry: Entry = serde_json::from_str(&line?)?;
            answers.entry(entry.key).or_default().push_back(entry.answer);
        }
        Ok(Self { mode: Mode::Replay(Arc::new(Mutex::new(answers))) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash(request: &Value) -> String {
    Sha256::digest(request.to_string()).iter().map(|it| format!("{it:02x}")).collect()
}

/// Returns the key of a model call.
fn model_key(request: &ModelRequest) -> String {
    let messages = request.messages.iter().map(|message| {
        let mut value = serde_json::to_value(message).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.remove("id");
        }
        value
    });
    hash(&json!({
        "system": request.system,
        "messages": messages.collect::<Vec<_>>(),
        "tools": request.tools.iter().map(RequestTool::name).collect::<Vec<_>>(),
        "settings": request.settings,
    }))
}

/// Returns the key of a tool call.
fn tool_key(request: &ToolRequest) -> String {
    hash(&json!({"tool": request.call.name, "args": request.call.args}))
}

/// Appends an entry to the file.
fn append(file: &Mutex<File>, key: String, answer: &impl Serialize) -> Result<(), NodeError> {
    let answer = serde_json::to_value(answer).map_err(NodeError::terminal)?;
    let line = serde_json::to_string(&Entry { key, answer }).map_err(NodeError::terminal)?;
    lock(file).write_all(format!("{line}\n").as_bytes()).map_err(NodeError::terminal)
}

/// Removes and returns the next answer to a request.
fn next_answer(
    answers: &Mutex<BTreeMap<String, VecDeque<Value>>>,
    key: &str,
    call: &str,
) -> Result<Value, NodeError> {
    let answer = lock(answers).get_mut(key).and_then(VecDeque::pop_front);
    answer.ok_or_else(|| {
        let problem =
            format!("the recording has no answer to this {call}; record the conversation again");
        NodeError::terminal(AgentError::named("ReplayError", problem))
    })
}

#[async_trait]
impl Middleware for RecordReplay {
    fn name(&self) -> String {
        "RecordReplay".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call().wrap_tool_call()
    }

    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        let key = model_key(&request);
        match &self.mode {
            Mode::Record(file) => {
                let answer = next.call(request).await?;
                let (messages, structured) = (answer.messages.clone(), answer.structured.clone());
                append(file, key, &RecordedAnswer { messages, structured })?;
                Ok(answer)
            }
            Mode::Replay(answers) => {
                let answer = next_answer(answers, &key, "model call")?;
                let recorded: RecordedAnswer =
                    serde_json::from_value(answer).map_err(NodeError::terminal)?;
                let RecordedAnswer { messages, structured } = recorded;
                Ok(ModelAnswer { messages, structured, commands: Vec::new() })
            }
        }
    }

    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let (key, call) = (tool_key(&request), request.call.clone());
        match &self.mode {
            Mode::Record(file) => {
                let answer = next.call(request).await?;
                let ToolAnswer::Message(message) = &answer else {
                    return Err(NodeError::terminal(AgentError::value(format!(
                        "tool `{}` returned a command, which cannot be recorded; record an agent without this tool",
                        call.name
                    ))));
                };
                append(file, key, message)?;
                Ok(answer)
            }
            Mode::Replay(answers) => {
                let answer = next_answer(answers, &key, &format!("call of tool `{}`", call.name))?;
                let message: ToolMessage =
                    serde_json::from_value(answer).map_err(NodeError::terminal)?;
                // An equal call of an earlier message may have another id.
                Ok(ToolMessage { tool_call_id: call.id().to_owned(), ..message }.into())
            }
        }
    }
}
