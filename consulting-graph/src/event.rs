//! What a run tells while it runs.
//!
//! A node tells by the engine's custom stream, from any depth, also from within a guest. One [`EventLog`] a run numbers
//! what it hears and keeps it in a file. Nothing happens twice in a run, so what is told once more, by a node that runs
//! again after a crash, is known by its content and left out; only a failure is told each time, and the end each time
//! that something came before it.

mod log;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::score::MakerScore;

pub use log::{EventLog, EventLogError, Numbered};

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PipelineEvent {
    /// A layer begins.
    LayerStart {
        /// The layer.
        layer: Layer,
        /// `running`.
        status: LayerStatus,
    },
    /// A layer is done.
    LayerComplete {
        /// The layer.
        layer: Layer,
        /// `done`.
        status: LayerStatus,
        /// What it made, by name.
        artifacts: Vec<String>,
        /// How many moves have a score, where it is the debates' layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_policies_scored: Option<usize>,
    },
    /// Someone begins.
    AgentStart {
        /// The layer.
        layer: Layer,
        /// Who.
        agent_id: String,
        /// What people call it.
        persona: String,
    },
    /// Someone is done.
    AgentComplete {
        /// The layer.
        layer: Layer,
        /// Who.
        agent_id: String,
        /// The first document it made.
        output: String,
        /// All of them.
        outputs: Vec<String>,
    },
    /// Someone failed.
    AgentFailed {
        /// The layer.
        layer: Layer,
        /// Who.
        agent_id: String,
        /// Why.
        reason: String,
    },
    /// A move's sandbox is there.
    SandboxReady {
        /// The move.
        #[serde(rename = "move")]
        move_id: String,
        /// What the move is called.
        title: String,
        /// What it runs in.
        backend: String,
        /// Whether that keeps it apart from the host.
        isolated: bool,
    },
    /// A debate goes on.
    SandboxRound {
        /// The move.
        #[serde(rename = "move")]
        move_id: String,
        /// The round.
        round: u32,
        /// Who speaks, or has spoken.
        status: RoundStatus,
        /// What was said, by the log's name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        said: BTreeMap<String, String>,
    },
    /// A move has its score.
    SandboxScored {
        /// The move.
        #[serde(rename = "move")]
        move_id: String,
        /// The sum.
        score: u32,
        /// Each decision maker's scores.
        breakdown: BTreeMap<String, MakerScore>,
    },
    /// Debates run without isolation.
    SandboxDegraded {
        /// What they run in.
        backend: String,
        /// Why nothing stronger is used.
        reason: String,
    },
    /// A move is not debated, or its debate failed.
    SandboxSkipped {
        /// The move.
        #[serde(rename = "move")]
        move_id: String,
        /// Why.
        reason: String,
    },
    /// Most of the budget is spent.
    BudgetWarning {
        /// How much of it, in hundredths.
        percent: u64,
    },
    /// The budget is spent: no new round is opened.
    BudgetExceeded {
        /// What could not be paid.
        reason: String,
    },
    /// The run is done.
    PipelineComplete {
        /// The best moves, best first.
        recommended: Vec<String>,
        /// The others.
        other: Vec<String>,
    },
    /// The run failed.
    PipelineError {
        /// Why.
        message: String,
    },
}

/// A layer: the first three by number, the debates by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Layer {
    /// 0 gathers, 1 infers, 2 proposes.
    Number(u8),
    /// The debates.
    Debate(Sandbox),
}

/// The name of the debates' layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// `"sandbox"`.
    Sandbox,
}

/// How a layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerStatus {
    /// It runs.
    Running,
    /// It is done.
    Done,
}

/// Where a round stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum RoundStatus {
    CriticResponding,
    CriticResponded,
    DmResponding,
    DmResponded,
}

impl Layer {
    /// The debates.
    pub const SANDBOX: Self = Self::Debate(Sandbox::Sandbox);
}

impl PipelineEvent {
    /// A layer begins.
    pub fn layer_start(layer: Layer) -> Self {
        Self::LayerStart { layer, status: LayerStatus::Running }
    }

    /// The move it is about, if it is about one.
    pub fn move_id(&self) -> Option<&str> {
        match self {
            Self::SandboxReady { move_id, .. }
            | Self::SandboxRound { move_id, .. }
            | Self::SandboxScored { move_id, .. }
            | Self::SandboxSkipped { move_id, .. } => Some(move_id),
            _ => None,
        }
    }

    /// A layer is done.
    pub fn layer_complete(layer: Layer, artifacts: Vec<String>) -> Self {
        let total_policies_scored = (layer == Layer::SANDBOX).then_some(artifacts.len());
        Self::LayerComplete { layer, status: LayerStatus::Done, artifacts, total_policies_scored }
    }
}
