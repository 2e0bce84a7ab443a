//! Dependencies of the nodes, and how a node calls a model.

use std::{path::PathBuf, sync::Arc};

use app_support::files::write_unsynced;
use graph_core::{Checkpointer, Context, NodeError};
use tempfile::TempDir;

use crate::{
    call::{CallOutcome, LLM, ModelCall},
    config::{Config, Group, Persona},
    data::DataSource,
    debate_host::DebateHost,
    fence::Fence,
    markdown::escape_markup,
    models::Models,
};

/// Dependencies that all nodes of the pipeline share.
#[derive(Debug)]
pub struct Deps {
    /// Agents, metrics and debate settings.
    pub config: Config,
    pub data: DataSource,
    /// Delimiters around untrusted text in prompts.
    pub fence: Fence,
    /// Models that answer the agents' calls.
    pub models: Arc<Models>,
    /// Host that runs the debates in sandboxes.
    pub debates: Arc<DebateHost>,
    /// Checkpointer for debates on separate threads. `None` if the debates are part of the pipeline's thread.
    pub debate_saver: Option<Arc<dyn Checkpointer>>,
    /// Whether the run pauses before the debates so that a person can review the moves.
    pub review: bool,
    /// Directory of the run.
    pub dir: PathBuf,
    /// Temporary directory that contains `dir` and is deleted with these dependencies. `None` if `dir` is kept.
    pub scratch: Option<Arc<TempDir>>,
}

impl Deps {
    /// Writes a document to the directory of the run, so that it exists when an event announces it. A node that runs
    /// again writes the same document again. HTML, links and images in the document have no effect.
    pub(super) fn write_document(&self, name: &str, text: &str) -> Result<(), NodeError> {
        let written = write_unsynced(&self.dir.join(name), &escape_markup(text));
        written.map_err(NodeError::terminal)
    }
}

/// Makes a model call for an agent outside of debates. The answer is stored in the journal of the thread. A node that
/// runs again after a crash reads the answer from the journal and does not repeat the call.
pub(super) async fn call_model(
    cx: &Context<Deps>,
    group: Group,
    persona: &Persona,
    key: &str,
    request: llm::Request,
) -> Result<CallOutcome, NodeError> {
    let models = &cx.deps().models;
    let request = models.call_settings(group, &persona.id).apply(request);
    let agent_id = persona.id.clone();
    let call = ModelCall { agent_id, group, move_id: None, round: 0, reply_to: None, request };
    // Failures are not journaled, so that a resumed run makes the call again.
    let mut failure = None;
    let answer = cx.task(LLM.kind(), (&persona.id, key), async {
        match models.call(&call).await {
            CallOutcome::Answered(answer) => Ok(answer),
            CallOutcome::Failed(it) => {
                let reason = it.reason.clone();
                failure = Some(it);
                Err(NodeError::terminal(reason))
            }
        }
    });
    let answer = answer.await;
    match (answer, failure) {
        (Ok(answer), _) => Ok(CallOutcome::Answered(answer)),
        (Err(_), Some(failure)) if !failure.kind.ends_run() => Ok(CallOutcome::Failed(failure)),
        (Err(error), _) => Err(error),
    }
}
