//! Tools that read and write files in the agent's state.

use async_trait::async_trait;
use graph_core::NodeError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    path::file_path,
    snapshot::{FILES, files_field, read_files},
};
use crate::{
    AgentError, AgentState, ToolRuntime,
    command::{Command, Update},
    message::{ToolMessage, last_ai},
    middleware::{Hooks, Middleware},
    state::StateField,
    tool::{ExceptionAnswer, Tool},
};

/// Maximum size of a file, in bytes.
const MAX_FILE: usize = 1 << 20;
/// Default number of lines that `read_file` returns.
const DEFAULT_LINES: usize = 2_000;
/// Tools that change the file at their argument `path`.
const CHANGING: [&str; 2] = ["write_file", "edit_file"];

/// Gives the model the file tools `list_files`, `read_file`, `write_file` and `edit_file`.
///
/// The files are in the state field `files`, an object that maps paths to contents. They are stored with the thread,
/// and a run can start with files in its input. They do not exist in the file system of this machine.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, files::FileTools};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let note = json!({"path": "note.md", "content": "Buy milk."});
/// let model = ScriptedModel::new([
///     AiMessage::new("").tool_call(ToolCall::new("write_file", note, "call-1")),
///     AiMessage::new("Noted."),
/// ]);
/// let agent = Agent::new(model).middleware(FileTools::new()).compile()?;
/// let outcome = agent.run("Remember the milk.").await?;
/// assert_eq!(outcome.state.get("files"), Some(&json!({"note.md": "Buy milk."})));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FileTools;

impl FileTools {
    /// Creates the middleware.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Middleware for FileTools {
    fn name(&self) -> String {
        "FileTools".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new()
    }

    fn state_fields(&self) -> Vec<StateField> {
        vec![files_field()]
    }

    fn tools(&self) -> Vec<Tool> {
        let tools = [
            Tool::dynamic(
                "list_files",
                "Lists the paths of all files.",
                json!({}),
                |_, runtime| async move { read_files(runtime.state()).into_keys().collect::<Vec<_>>() },
            ),
            Tool::new(
                "read_file",
                "Returns lines of a file, each with its number.",
                |args: ReadFile, runtime| async move { read(&args, runtime.state()) },
            ),
            Tool::new(
                "write_file",
                "Creates a file, or replaces its whole content.",
                |args: WriteFile, runtime| async move {
                    change(&runtime, &args.path, |_| Ok(args.content))
                },
            ),
            Tool::new(
                "edit_file",
                "Replaces a text in a file. The text must occur exactly once, unless `all` is true.",
                |args: EditFile, runtime| async move {
                    change(&runtime, &args.path, |content| edited(content, &args))
                },
            ),
        ];
        tools.map(|it| it.handle_exceptions(ExceptionAnswer::Message)).into()
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    /// Path of the file.
    path: String,
    /// Number of lines to skip.
    #[serde(default)]
    offset: usize,
    /// Maximum number of lines.
    #[serde(default = "default_lines")]
    limit: usize,
}

#[derive(Deserialize, JsonSchema)]
struct WriteFile {
    /// Path of the file, such as `notes/plan.md`.
    path: String,
    /// The whole content.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
struct EditFile {
    /// Path of the file.
    path: String,
    /// Text to replace, exactly as it is in the file.
    old: String,
    /// Text that replaces it.
    new: String,
    /// Replaces all occurrences.
    #[serde(default)]
    all: bool,
}

fn default_lines() -> usize {
    DEFAULT_LINES
}

fn read(args: &ReadFile, state: &AgentState) -> Result<String, NodeError> {
    let path = file_path(&args.path)?;
    let files = read_files(state);
    let content = files.get(&path).ok_or_else(|| unknown(&path))?;
    let lines = content.lines().enumerate().skip(args.offset).take(args.limit);
    Ok(lines.map(|(index, line)| format!("{}\t{line}\n", index + 1)).collect())
}

fn unknown(path: &str) -> AgentError {
    AgentError::tool(format!("there is no file `{path}`; call `list_files` to see all files"))
}

/// Replaces the content of a file with the result of `edit`. `edit` receives the current content, or `None` if the file
/// does not exist.
fn change(
    runtime: &ToolRuntime,
    path: &str,
    edit: impl FnOnce(Option<&String>) -> Result<String, AgentError>,
) -> Result<Command, NodeError> {
    let path = file_path(path)?;
    if changes_earlier(runtime, &path) {
        return Err(AgentError::tool(format!(
            "another call in the same message changes `{path}`; change a file once per message"
        ))
        .into());
    }
    let content = edit(read_files(runtime.state()).get(&path)).map_err(|error| {
        AgentError::tool(format!("cannot change `{path}`: {}", error.message()))
    })?;
    if content.len() > MAX_FILE {
        let text = format!("`{path}` would have more than {MAX_FILE} bytes; split it");
        return Err(AgentError::tool(text).into());
    }
    let answer = ToolMessage::success(runtime.call(), format!("Changed `{path}`."));
    Ok(Command::new().update(Update::new().set(FILES, json!({ path: content })).messages([answer])))
}

/// Returns whether an earlier call of the same message changes the file. Parallel calls do not see each other's
/// changes, so the later change would undo the earlier one.
fn changes_earlier(runtime: &ToolRuntime, path: &str) -> bool {
    let Some((message, _)) = last_ai(runtime.state().messages()) else { return false };
    let earlier = message.tool_calls.iter().take_while(|it| it.id != runtime.call().id);
    let mut changed = earlier.filter(|it| CHANGING.contains(&it.name.as_str()));
    changed.any(|it| {
        let changed = it.args.get("path").and_then(Value::as_str);
        changed.is_some_and(|it| file_path(it).is_ok_and(|it| it == path))
    })
}

fn edited(content: Option<&String>, args: &EditFile) -> Result<String, AgentError> {
    let content = content.ok_or_else(|| AgentError::tool("it does not exist; use `write_file`"))?;
    match content.matches(args.old.as_str()).count() {
        _ if args.old.is_empty() => {
            Err(AgentError::tool("`old` is empty; set it to the text to replace"))
        }
        0 => Err(AgentError::tool("it does not contain the text `old`; read it first")),
        count if count > 1 && !args.all => Err(AgentError::tool(format!(
            "the text `old` occurs {count} times; make it longer, or set `all`"
        ))),
        _ => Ok(content.replace(&args.old, &args.new)),
    }
}
