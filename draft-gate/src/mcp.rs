//! The four tools over the Model Context Protocol, and the inbox.

use std::sync::Arc;

use rmcp::{
    Json, ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Decision, Error, Gate, Message, Request,
    tool::{Read, Requested, Submission, Written},
};

/// A server for one worker: its name is the server's to give, and no tool can change it.
#[derive(Clone, Debug)]
pub struct DraftServer {
    gate: Arc<Gate>,
    worker: Arc<str>,
    judging: Judging,
    tool_router: ToolRouter<Self>,
}

/// Who judges what was submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judging {
    /// The server itself, at once.
    #[default]
    AtOnce,
    /// Somebody else: `draft-gate judge`, or a graph.
    Elsewhere,
}

/// Names a draft.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DraftPath {
    /// The draft, as ollama_request_draft gave it.
    draft_path: String,
}

/// New content of a draft.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// The draft, as ollama_request_draft gave it.
    draft_path: String,
    /// The whole new text of the file: every line, also those that stay as they are.
    content: String,
}

/// What a submission came to.
#[derive(Debug, Serialize, JsonSchema)]
struct SubmitReply {
    /// Whether the draft was handed in.
    submitted: bool,
    /// The message DRAFT_READY about it; none while the set waits for more drafts.
    message_id: Option<String>,
    /// The change set that it is part of.
    set: String,
    /// ACCEPT, REJECT or ESCALATE; HELD while more drafts are to come; READY where somebody judges later.
    status: String,
    /// What was found, in words.
    findings: Vec<String>,
}

/// Which messages to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadInbox {
    /// The task.
    task_id: String,
    /// Only messages after this one.
    #[serde(default)]
    after: Option<String>,
}

/// Messages, the oldest first.
#[derive(Debug, Serialize, JsonSchema)]
struct Inbox {
    /// DRAFT_READY, DRAFT_ACCEPTED, DRAFT_REJECTED and DRAFT_ESCALATED, each with its reason and findings.
    messages: Vec<serde_json::Value>,
}

type Reply<T> = Result<Json<T>, String>;

#[tool_router]
impl DraftServer {
    /// A server for this worker.
    pub fn new(gate: Gate, worker: &str, judging: Judging) -> Result<Self, Error> {
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
        description = "Get a copy of a workspace file to edit. Returns the draft's path for the other tools."
    )]
    async fn request_draft(&self, Parameters(request): Parameters<Request>) -> Reply<Requested> {
        self.run(move |gate, worker| gate.worker(worker)?.request(&request)).await
    }

    #[tool(
        name = "ollama_write_draft",
        description = "Replace the whole content of a draft. Write the complete file, never a part of it."
    )]
    async fn write_draft(&self, Parameters(write): Parameters<Write>) -> Reply<Written> {
        self.run(move |gate, worker| gate.worker(worker)?.write(&write.draft_path, &write.content))
            .await
    }

    #[tool(name = "ollama_read_draft", description = "Read what a draft holds now.")]
    async fn read_draft(&self, Parameters(draft): Parameters<DraftPath>) -> Reply<Read> {
        self.run(move |gate, worker| gate.worker(worker)?.read(&draft.draft_path)).await
    }

    #[tool(
        name = "ollama_submit_draft",
        description = "Hand a draft in for review. It is frozen and judged: see status, findings and the inbox."
    )]
    async fn submit_draft(
        &self,
        Parameters(submission): Parameters<Submission>,
    ) -> Reply<SubmitReply> {
        let judging = self.judging;
        self.run(move |gate, worker| submit(gate, worker, &submission, judging)).await
    }

    #[tool(
        name = "ollama_read_inbox",
        description = "Read what became of your drafts of a task: DRAFT_READY, then DRAFT_ACCEPTED, DRAFT_REJECTED or DRAFT_ESCALATED, with reasons."
    )]
    async fn read_inbox(&self, Parameters(read): Parameters<ReadInbox>) -> Reply<Inbox> {
        self.run(move |gate, worker| {
            let messages = gate.worker(worker)?.inbox(&read.task_id, read.after.as_deref())?;
            let value = |it: &Message| serde_json::to_value(it).expect("plain data");
            Ok(Inbox { messages: messages.iter().map(value).collect() })
        })
        .await
    }

    /// Files and locks may let us wait, so this happens beside the server's own work.
    async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Gate, &str) -> Result<T, Error> + Send + 'static,
    ) -> Reply<T> {
        let (gate, worker) = (self.gate.clone(), self.worker.clone());
        let done = tokio::task::spawn_blocking(move || act(&gate, &worker)).await;
        done.map_err(|_| "the gate failed; see its standard error".to_owned())?
            .map(Json)
            .map_err(|it| it.to_string())
    }
}

fn submit(
    gate: &Gate,
    worker: &str,
    submission: &Submission,
    judging: Judging,
) -> Result<SubmitReply, Error> {
    let submitted = gate.worker(worker)?.submit(submission)?;
    let (status, findings) = match judging {
        _ if !submitted.is_complete => ("HELD", vec![]),
        Judging::Elsewhere => ("READY", vec![]),
        Judging::AtOnce => {
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
    instructions = "Edit files by drafts: request one, write the whole new content, read it back if you like, \
                    submit it. A gate decides what reaches the files; read_inbox tells what it decided and why."
)]
impl ServerHandler for DraftServer {}
