//! Tools that search files below a directory.

mod glob;
mod walk;

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use async_trait::async_trait;
use graph_core::NodeError;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError,
    tool::{ExceptionAnswer, Tool},
};
use walk::{Root, VisitedFile};

/// Gives the model the tools `glob_search` and `grep_search`, which find files below a directory by name and by
/// content.
///
/// Paths are relative to the directory, which the model sees as `/`. Symbolic links are not followed, so nothing
/// outside the directory is read. Binary and large files are skipped, and results are limited. Results are marked as
/// [untrusted](Tool::untrusted), unless [`trusted`](Self::trusted) is set.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, middleware::FileSearch};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// std::fs::write(path.join("notes.md"), "Buy tea.")?;
/// let call = ToolCall::new("glob_search", json!({"pattern": "*.md"}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("One file.")]);
/// let agent = Agent::new(model).middleware(FileSearch::new(path)?).compile()?;
/// let outcome = agent.run("Which notes do I have?").await?;
/// assert!(outcome.messages[2].text().contains("\n/notes.md\n"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FileSearch {
    root: Root,
    max_file_bytes: u64,
    trusted: bool,
}

/// Maximum number of files or lines in a result.
const MAX_RESULTS: usize = 500;
/// Maximum number of characters shown of a line.
const MAX_LINE: usize = 300;

#[derive(Deserialize, JsonSchema)]
struct GlobArgs {
    /// Pattern such as `**/*.rs` or `src/*.{ts,tsx}`.
    pattern: String,
    /// Directory to search.
    #[serde(default = "root_path")]
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct GrepArgs {
    /// Regular expression to search for in each line.
    pattern: String,
    /// Directory to search.
    #[serde(default = "root_path")]
    path: String,
    /// Pattern for the names of the files to search, such as `*.rs`.
    #[serde(default)]
    include: Option<String>,
    /// `files_with_matches` lists files, `content` lists matching lines, `count` lists the number of matches per file.
    #[serde(default)]
    output_mode: OutputMode,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    FilesWithMatches,
    Content,
    Count,
}

fn root_path() -> String {
    "/".to_owned()
}

impl FileSearch {
    /// Creates the middleware for a directory, which must exist.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        let root = Root::open(root.as_ref())?;
        Ok(Self { root, max_file_bytes: 10_000_000, trusted: false })
    }

    /// Sets the maximum size of the files that `grep_search` reads. The default is 10 MB.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes;
        self
    }

    /// Does not mark results as untrusted data. Use it only if all writers of the directory are trusted.
    #[must_use]
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }

    fn glob(&self, args: &GlobArgs) -> Result<String, AgentError> {
        let pattern = glob::to_regex(&args.pattern)?;
        let mut files: Vec<_> = self
            .root
            .files(&args.path)
            .into_iter()
            .filter(|it| pattern.is_match(&it.below_start))
            .map(|it| (modified(&it.path), it.shown))
            .collect();
        files.sort_by(|a, b| b.cmp(a));
        Ok(to_list(files.into_iter().map(|it| it.1), "No files found"))
    }

    fn grep(&self, args: &GrepArgs) -> Result<String, AgentError> {
        let invalid =
            |error: regex::Error| AgentError::tool(format!("invalid regular expression: {error}"));
        let pattern = Regex::new(&args.pattern).map_err(invalid)?;
        let include = args.include.as_deref().map(glob::to_regex).transpose()?;
        let is_included = |file: &VisitedFile| {
            let name = Path::new(&file.below_start).file_name().unwrap_or_default();
            let name = name.to_string_lossy();
            include.as_ref().is_none_or(|it| it.is_match(&name) || it.is_match(&file.below_start))
        };
        let mut lines = Vec::new();
        for file in self.root.files(&args.path).iter().filter(|it| is_included(it)) {
            let Some(text) = self.read_text(&file.path) else { continue };
            let matching = text.lines().enumerate().filter(|it| pattern.is_match(it.1));
            match args.output_mode {
                OutputMode::FilesWithMatches => {
                    lines.extend({ matching }.next().map(|_| file.shown.clone()));
                }
                OutputMode::Count => match matching.count() {
                    0 => {}
                    count => lines.push(format!("{}:{count}", file.shown)),
                },
                OutputMode::Content => lines.extend(matching.map(|(index, line)| {
                    let line: String = line.chars().take(MAX_LINE).collect();
                    format!("{}:{}:{line}", file.shown, index + 1)
                })),
            }
            if lines.len() > MAX_RESULTS {
                break;
            }
        }
        Ok(to_list(lines, "No matches found"))
    }

    /// Reads a text file. Returns `None` if it is too large, binary or unreadable.
    fn read_text(&self, path: &Path) -> Option<String> {
        let file = fs::File::open(path).ok()?;
        let mut bytes = Vec::new();
        file.take(self.max_file_bytes + 1).read_to_end(&mut bytes).ok()?;
        let is_large = bytes.len() as u64 > self.max_file_bytes;
        (!is_large && !bytes.contains(&0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn modified(path: &PathBuf) -> SystemTime {
    fs::metadata(path).and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Joins the lines of a result, up to the maximum number.
fn to_list(lines: impl IntoIterator<Item = String>, nothing: &str) -> String {
    let mut lines: Vec<_> = lines.into_iter().take(MAX_RESULTS + 1).collect();
    if lines.is_empty() {
        return nothing.to_owned();
    }
    if lines.len() > MAX_RESULTS {
        lines.truncate(MAX_RESULTS);
        lines.push(format!("[truncated: only the first {MAX_RESULTS} results are shown]"));
    }
    lines.join("\n")
}

/// Runs a search on a thread where it may block.
async fn blocking(
    search: impl FnOnce() -> Result<String, AgentError> + Send + 'static,
) -> Result<String, NodeError> {
    Ok(tokio::task::spawn_blocking(search).await.map_err(NodeError::terminal)??)
}

#[async_trait]
impl Middleware for FileSearch {
    fn name(&self) -> String {
        "FilesystemFileSearchMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new()
    }

    fn tools(&self) -> Vec<Tool> {
        let (search, shared) = (Arc::new(self.clone()), Arc::new(self.clone()));
        let glob = Tool::new(
            "glob_search",
            "Finds files by name, newest first.",
            move |args: GlobArgs, _| {
                let search = search.clone();
                blocking(move || search.glob(&args))
            },
        );
        let grep = Tool::new(
            "grep_search",
            "Finds files and lines by a regular expression.",
            move |args: GrepArgs, _| {
                let search = shared.clone();
                blocking(move || search.grep(&args))
            },
        );
        let tool = |it: Tool| {
            let it = it.reads_state(false).handle_exceptions(ExceptionAnswer::Message);
            if self.trusted { it } else { it.untrusted() }
        };
        vec![tool(glob), tool(grep)]
    }
}
