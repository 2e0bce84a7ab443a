//! Serves the worker's four tools and the inbox over the Model Context Protocol.

use std::sync::Arc;

use rmcp::{
    Json, ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Decision, DraftRequest, Error, Gate, Message,
    tool::{Draft, DraftContent, Submission, WriteReceipt},
};

/// An MCP server for one worker. The operator sets the worker's name, and tool calls cannot change it.
///
/// ```
/// use draft_gate::{Gate, mcp::{DraftServer, JudgingMode}};
///
/// # let dir = tempfile::tempdir()?;
/// # let workspace = dir.path();
/// let server = DraftServer::new(Gate::open(workspace)?, "implementer", JudgingMode::Immediate)?;
/// // Serve it with `rmcp`, for example over standard input and output, as `draft-gate serve` does.
/// # let _ = server;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DraftServer {
    gate: Arc<Gate>,
    worker: Arc<str>,
    judging: JudgingMode,
    tool_router: ToolRouter<Self>,
}

/// When submissions are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JudgingMode {
    /// The server judges each submission immediately.
    #[default]
    Immediate,
    /// `draft-gate judge` or a graph judges submissions later.
    Deferred,
}

/// Path of a draft.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DraftPath {
    /// Path of the draft as returned by ollama_request_draft.
    draft_path: String,
}

/// New content of a draft.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteDraft {
    /// Path of the draft as returned by ollama_request_draft.
    draft_path: String,
    /// The complete new text of the file, including unchanged lines.
    content: String,
}

/// Result of a submission.
#[derive(Debug, Serialize, JsonSchema)]
struct SubmitReply {
    /// Whether the draft was submitted.
    submitted: bool,
    /// Id of the message DRAFT_READY; absent while the set awaits more drafts.
    message_id: Option<String>,
    /// Id of the change set.
    set: String,
    /// ACCEPT, REJECT or ESCALATE; HELD while more drafts are expected; READY if the set is judged later.
    status: String,
    /// Findings as text.
    findings: Vec<String>,
}

/// Selects messages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InboxRequest {
    /// Id of the task.
    task_id: String,
    /// Return only messages after this one.
    #[serde(default)]
    after: Option<String>,
}

/// Messages, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
struct InboxReply {
    /// DRAFT_READY, DRAFT_ACCEPTED, DRAFT_REJECTED and DRAFT_ESCALATED, each with its reason and findings.
    messages: Vec<serde_json::Value>,
}

type ToolResult<T> = Result<Json<T>, String>;

#[tool_router]
impl DraftServer {
    /// Creates a server for the worker with this name.
    pub fn new(gate: Gate, worker: &str, judging: JudgingMode) -> Result<Self, Error> {
        gate.worker(worker)?;
        Ok(Self {
            gate: Arc::new(gate),
            worker: worker.into(),
            judging,
            tool_router: Self::tool_router(),
        })
    }

    #[tool(
        name = "ollama_request_draft",
        description = "Get a draft (an editable copy) of a workspace file. Returns its path for the other tools."
    )]
    async fn request_draft(
        &self,
        Parameters(request): Parameters<DraftRequest>,
    ) -> ToolResult<Draft> {
        self.run(move |gate, worker| gate.worker(worker)?.request(&request)).await
    }

    #[tool(
        name = "ollama_write_draft",
        description = "Replace the whole content of a draft. Write the complete file, never only a part."
    )]
    async fn write_draft(
        &self,
        Parameters(write): Parameters<WriteDraft>,
    ) -> ToolResult<WriteReceipt> {
        self.run(move |gate, worker| gate.worker(worker)?.write(&write.draft_path, &write.content))
            .await
    }

    #[tool(name = "ollama_read_draft", description = "Read the current content of a draft.")]
    async fn read_draft(
        &self,
        Parameters(draft): Parameters<DraftPath>,
    ) -> ToolResult<DraftContent> {
        self.run(move |gate, worker| gate.worker(worker)?.read(&draft.draft_path)).await
    }

    #[tool(
        name = "ollama_submit_draft",
        description = "Submit a draft for review. Its content is frozen and judged; see status, findings and the inbox."
    )]
    async fn submit_draft(
        &self,
        Parameters(submission): Parameters<Submission>,
    ) -> ToolResult<SubmitReply> {
        let judging = self.judging;
        self.run(move |gate, worker| submit(gate, worker, &submission, judging)).await
    }

    #[tool(
        name = "ollama_read_inbox",
        description = "Read the messages about your drafts of a task: DRAFT_READY, then DRAFT_ACCEPTED, DRAFT_REJECTED or DRAFT_ESCALATED, with reasons."
    )]
    async fn read_inbox(
        &self,
        Parameters(read): Parameters<InboxRequest>,
    ) -> ToolResult<InboxReply> {
        self.run(move |gate, worker| {
            let messages = gate.worker(worker)?.inbox(&read.task_id, read.after.as_deref())?;
            let value = |it: &Message| serde_json::to_value(it).expect("plain data");
            Ok(InboxReply { messages: messages.iter().map(value).collect() })
        })
        .await
    }

    /// Runs an operation on a blocking thread, because file access and locks may block.
    async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Gate, &str) -> Result<T, Error> + Send + 'static,
    ) -> ToolResult<T> {
        let (gate, worker) = (self.gate.clone(), self.worker.clone());
        let done = tokio::task::spawn_blocking(move || act(&gate, &worker)).await;
        done.map_err(|_| "internal error; see the standard error output of the server".to_owned())?
            .map(Json)
            .map_err(|it| it.to_string())
    }
}

fn submit(
    gate: &Gate,
    worker: &str,
    submission: &Submission,
    judging: JudgingMode,
) -> Result<SubmitReply, Error> {
    let submitted = gate.worker(worker)?.submit(submission)?;
    let (status, findings) = match judging {
        _ if !submitted.is_complete => ("HELD", vec![]),
        JudgingMode::Deferred => ("READY", vec![]),
        JudgingMode::Immediate => {
            let judgement = gate.judge(&submitted.set)?;
            let status = match judgement.decision {
                Decision::Accept => "ACCEPT",
                Decision::Reject => "REJECT",
                Decision::Escalate => "ESCALATE",
            };
            (status, judgement.findings)
        }
    };
    Ok(SubmitReply {
        submitted: true,
        message_id: submitted.message_id,
        set: submitted.set,
        status: status.to_owned(),
        findings: findings.iter().map(ToString::to_string).collect(),
    })
}

#[tool_handler(
    router = self.tool_router,
    name = "draft-gate",
    instructions = "Edit files through drafts: request a draft, write its complete new content, optionally read it back, \
                    submit it. A gate decides which changes are applied; ollama_read_inbox returns its decisions and reasons."
)]
impl ServerHandler for DraftServer {}
