//! Tools that run programs, written by the model, in a sandbox.

mod commands;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use graph_core::NodeError;
use sandbox_vm::{EntryKind, ExecLimits, Image, Output, Program, Sandbox, Sandboxes, Spec, Status};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{
    AgentError, ToolMessage, ToolRuntime,
    command::{Command, Update},
    files::{FILES, Files, changes, file_path, files_field, read_files},
    id::new_id,
    middleware::{Hooks, Middleware},
    state::StateField,
    tool::{ExceptionAnswer, Tool},
};

pub use commands::SandboxCommands;

/// Maximum number of files that are stored in the state.
const MAX_FILES: usize = 200;
/// Maximum size of all files in the state, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum depth of directories whose files are stored.
const MAX_DEPTH: usize = 8;

/// Gives the model the tools `python` and `shell`, which run programs in a sandbox.
///
/// Each thread has a sandbox. The text files in its working directory are stored in the state field `files`, together
/// with those of [`FileTools`](crate::files::FileTools): they are written to the sandbox before a program runs, and its
/// changes are stored afterwards. They are therefore kept for the thread even if the sandbox expires or the program
/// restarts. Binary files, hidden files, and files beyond 200 files or 1 MiB are kept only in the sandbox.
///
/// A program's output has a maximum size, and a program that fails or exceeds a limit produces a failed tool message.
/// Results are marked as [untrusted](Tool::untrusted), unless [`trusted`](Self::trusted) is set.
///
/// ```standalone_crate
/// use graph_agents::{Agent, AiMessage, ScriptedModel, code::CodeTools};
/// use sandbox_vm::{Sandboxes, backend::Jail, guest};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     // The jail starts this program again as the guest, which then never returns from `enter`.
///     guest::enter(guest::Agent::new);
///     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
///     runtime.block_on(async {
///         let sandboxes = Sandboxes::builder().backend(Jail::this_program()).open().await?;
///         let model = ScriptedModel::new([AiMessage::new("42")]);
///         let agent = Agent::new(model).middleware(CodeTools::new(sandboxes)).compile()?;
///         println!("{}", agent.run("What is 6 times 7?").await?.text());
///         Ok(())
///     })
/// }
/// ```
#[derive(Clone)]
#[must_use]
pub struct CodeTools {
    sandboxes: Sandboxes,
    limits: ExecLimits,
    lifetime: Duration,
    trusted: bool,
}

impl CodeTools {
    /// Creates the middleware. `sandboxes` must have a back end with Python.
    pub fn new(sandboxes: Sandboxes) -> Self {
        let limits = ExecLimits { output: 64 << 10, ..ExecLimits::default() };
        Self { sandboxes, limits, lifetime: Duration::from_secs(3600), trusted: false }
    }

    /// Sets the limits of each program. By default, 30 seconds and 64 KiB of output.
    pub fn limits(mut self, limits: ExecLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time after which a thread's sandbox is replaced. The default is one hour.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Does not mark results as untrusted data. Use it if the programs process only your own data.
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }

    fn tool<A>(&self, name: &str, description: &str, program: fn(A) -> Program) -> Tool
    where
        A: serde::de::DeserializeOwned + JsonSchema + Send + 'static,
    {
        let tools = self.clone();
        let tool = Tool::new(name, description, move |args: A, runtime| {
            let (tools, program) = (tools.clone(), program(args));
            async move { tools.run(program, &runtime).await }
        });
        let tool = tool.handle_exceptions(ExceptionAnswer::Message);
        if self.trusted { tool } else { tool.untrusted() }
    }

    async fn run(&self, program: Program, runtime: &ToolRuntime) -> Result<Command, NodeError> {
        let thread = runtime.context().thread();
        let sandbox = self.sandbox(thread).await.map_err(|it| unavailable(&it))?;
        let result = self.run_in(&sandbox, program, runtime).await;
        if thread.is_none() {
            sandbox.delete().await;
        }
        Ok(result.map_err(|it| unavailable(&it))?)
    }

    /// Returns the sandbox of a thread, or a new one for a run without a thread.
    async fn sandbox(&self, thread: Option<&str>) -> Result<Sandbox, sandbox_vm::Error> {
        // A thread's name may contain any characters, so the sandbox is named after its hash.
        let name = thread.map_or_else(new_id, |it| hex::encode(&Sha256::digest(it)[..16]));
        let spec = Spec::new(format!("agent-{name}")).image(Image::Python);
        self.sandboxes.create_if_not_exists(spec.lifetime(self.lifetime)).await
    }

    async fn run_in(
        &self,
        sandbox: &Sandbox,
        program: Program,
        runtime: &ToolRuntime,
    ) -> Result<Command, sandbox_vm::Error> {
        let before = read_files(runtime.state());
        for (path, text) in &before {
            sandbox.fs().write(path, text.as_bytes()).await?;
        }
        let output = sandbox.exec(program.limits(self.limits.clone())).await?;
        let after = stored_files(sandbox).await?;
        let (call, text) = (runtime.call(), describe(&output));
        let answer = match output.success() {
            true => ToolMessage::success(call, text),
            false => ToolMessage::error(call, text),
        };
        let update = Update::new().messages([answer]);
        Ok(Command::new().update(match changes(&before, &after) {
            Some(changed) => update.set(FILES, changed),
            None => update,
        }))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Python {
    /// The program. Print results to see them.
    code: String,
}

#[derive(Deserialize, JsonSchema)]
struct Shell {
    /// The command line, for `sh`.
    command: String,
}

#[async_trait]
impl Middleware for CodeTools {
    fn name(&self) -> String {
        "CodeTools".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new()
    }

    fn state_fields(&self) -> Vec<StateField> {
        vec![files_field()]
    }

    fn tools(&self) -> Vec<Tool> {
        let python = "Runs a Python program in a sandbox without network access. Files in the working directory \
                      are kept.";
        let shell = "Runs a shell command in a sandbox without network access. Files in the working directory \
                     are kept.";
        vec![
            self.tool("python", python, |args: Python| {
                Program::new("python3").arg("-").input(args.code)
            }),
            self.tool("shell", shell, |args: Shell| {
                Program::new("sh").args(["-c".to_owned(), args.command])
            }),
        ]
    }
}

fn unavailable(error: &sandbox_vm::Error) -> AgentError {
    AgentError::tool(format!("the sandbox failed: {error}"))
}

/// Returns the files in the working directory that belong in the state: text files that are not hidden, within the
/// limits.
async fn stored_files(sandbox: &Sandbox) -> Result<Files, sandbox_vm::Error> {
    let mut files = Files::new();
    let (mut directories, mut bytes) = (vec![(String::new(), 0)], 0);
    while let Some((directory, depth)) = directories.pop() {
        for entry in sandbox.fs().list(&directory).await? {
            let path = format!("{directory}{}{}", if depth > 0 { "/" } else { "" }, entry.name);
            let is_hidden = entry.name.starts_with('.') || entry.name == "__pycache__";
            // Skip names that `file_path` changes, because such a file could not be written back under its name.
            if is_hidden || file_path(&path).ok().as_ref() != Some(&path) {
                continue;
            }
            match entry.kind {
                EntryKind::Directory if depth < MAX_DEPTH => directories.push((path, depth + 1)),
                EntryKind::File if files.len() < MAX_FILES && bytes + entry.size <= MAX_BYTES => {
                    // A program that is still running may have changed the file's size.
                    let content = sandbox.fs().read(&path).await?;
                    if let Ok(text) = String::from_utf8(content) {
                        bytes += text.len() as u64;
                        files.insert(path, text);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(files)
}

/// Describes the result of a program to the model.
fn describe(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.stderr.is_empty() {
        text.push_str("\n[standard error]\n");
        text.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    let end = match output.status {
        Status::Exited(0) if text.is_empty() => "[no output]".to_owned(),
        Status::Exited(0) => return text,
        Status::Exited(code) => format!("[exit code {code}]"),
        Status::Killed(signal) => format!("[killed by signal {signal}]"),
        Status::Limit(limit) => format!("[stopped: the program exceeded its limit: {limit}]"),
        other => format!("[{other:?}]"),
    };
    if text.is_empty() { end } else { format!("{text}\n{end}") }
}

impl fmt::Debug for CodeTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeTools").field("limits", &self.limits).finish_non_exhaustive()
    }
}
