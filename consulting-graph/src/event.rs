//! Events of a run.
//!
//! Nodes send events through the engine's custom stream. This includes the nodes of nested graphs and the nodes inside
//! a guest. The [`EventLog`] of the run numbers the events and writes them to a file.

use std::collections::BTreeMap;

use app_support::event_log::{self, LoggedEvent, Repetition};
use sandbox_vm::report::IsolationLevel;
use serde::{Deserialize, Serialize};

use crate::{call::Failure, score::MakerScore};

/// An event with its sequence number.
pub type NumberedEvent = event_log::NumberedEvent<PipelineEvent>;

pub type EventLog = event_log::EventLog<PipelineEvent>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PipelineEvent {
    LayerStart {
        layer: Layer,
        /// Always `running`.
        status: LayerStatus,
    },
    LayerComplete {
        layer: Layer,
        /// `done`, or `incomplete` if an agent or a debate of the layer failed.
        status: LayerStatus,
        /// Names of the documents that the layer produced.
        artifacts: Vec<String>,
        /// Number of scored moves. Only set for the debate layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_policies_scored: Option<usize>,
    },
    AgentStart {
        /// Layer to which the agent belongs.
        layer: Layer,
        agent_id: String,
        persona: String,
    },
    AgentComplete {
        /// Layer to which the agent belongs.
        layer: Layer,
        agent_id: String,
        /// First document that the agent produced.
        output: String,
        /// All documents that the agent produced.
        outputs: Vec<String>,
    },
    AgentFailed {
        /// Layer to which the agent belongs.
        layer: Layer,
        agent_id: String,
        reason: String,
    },
    /// The sandbox of a move's debate is ready.
    SandboxReady {
        /// Id of the move, such as `m4`.
        #[serde(rename = "move")]
        move_id: String,
        title: String,
        backend: String,
        /// How strongly the back end isolates the guest from the host.
        isolation: IsolationLevel,
    },
    /// Progress within one round of a debate.
    SandboxRound {
        /// Id of the move, such as `m4`.
        #[serde(rename = "move")]
        move_id: String,
        round: u32,
        status: RoundStatus,
        /// Texts of the finished turns, by log name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        texts: BTreeMap<String, String>,
    },
    SandboxScored {
        /// Id of the move, such as `m4`.
        #[serde(rename = "move")]
        move_id: String,
        /// Sum of all scores.
        score: u32,
        /// Scores by decision maker id.
        breakdown: BTreeMap<String, MakerScore>,
    },
    /// Debates do not run in virtual machines, or one debate runs with less isolation than the others.
    SandboxDegraded {
        /// Id of the move if only its debate runs with less isolation, because no better sandbox could be created for
        /// it. `None` if the event concerns all debates, and in logs of older versions.
        #[serde(rename = "move", default, skip_serializing_if = "Option::is_none")]
        move_id: Option<String>,
        backend: String,
        isolation: IsolationLevel,
        /// Why no stronger back end is used, or how to get virtual machines.
        reason: String,
    },
    /// A move has no score, because it was not debated or its debate failed.
    SandboxSkipped {
        /// Id of the move, such as `m4`.
        #[serde(rename = "move")]
        move_id: String,
        /// Reason why the move has no score.
        reason: String,
    },
    BudgetWarning {
        /// Used share of the budget in percent, rounded down to a multiple of ten.
        percent: u64,
    },
    /// The budget is exhausted, so no further rounds are started.
    BudgetExceeded {
        /// Error message of the refused call.
        reason: String,
    },
    PipelineComplete {
        /// Recommended moves, best first.
        recommended: Vec<String>,
        /// All other ranked moves.
        other: Vec<String>,
    },
    /// The run failed.
    PipelineError { message: String },
}

/// A layer of the pipeline. In events, the first three layers are identified by number, and the debates by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Layer {
    /// Layer 0 gathers data, layer 1 draws findings, and layer 2 proposes moves.
    Number(u8),
    Debate(SandboxLayer),
}

/// Name of the debate layer in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLayer {
    /// Serialized as `"sandbox"`.
    Sandbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerStatus {
    Running,
    Done,
    /// The layer ended, but one of its agents or debates failed.
    Incomplete,
}

/// Progress of a debate round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundStatus {
    CriticResponding,
    CriticResponded,
    DmResponding,
    DmResponded,
}

impl Layer {
    pub const SANDBOX: Self = Self::Debate(SandboxLayer::Sandbox);
}

impl LoggedEvent for PipelineEvent {
    /// Returns the condition under which an event is logged although the log already contains an equal event. The end
    /// of a run may have to be logged again, because a resumed run may fail for the same reason as before or complete
    /// with the same result.
    fn repetition(&self) -> Repetition {
        match self {
            Self::PipelineError { .. } => Repetition::Always,
            Self::PipelineComplete { .. } => Repetition::AfterOtherEvents,
            _ => Repetition::Never,
        }
    }
}

impl PipelineEvent {
    pub fn layer_start(layer: Layer) -> Self {
        Self::LayerStart { layer, status: LayerStatus::Running }
    }

    /// Returns the id of the move that the event concerns. Returns `None` if it concerns several moves or none.
    pub fn move_id(&self) -> Option<&str> {
        match self {
            Self::SandboxReady { move_id, .. }
            | Self::SandboxRound { move_id, .. }
            | Self::SandboxScored { move_id, .. }
            | Self::SandboxSkipped { move_id, .. } => Some(move_id),
            Self::SandboxDegraded { move_id, .. } => move_id.as_deref(),
            _ => None,
        }
    }

    /// Creates the event of the end of a layer. The layer is incomplete if it has failures.
    pub fn layer_end(layer: Layer, artifacts: Vec<String>, failures: &[Failure]) -> Self {
        let total_policies_scored = (layer == Layer::SANDBOX).then_some(artifacts.len());
        let status = if failures.is_empty() { LayerStatus::Done } else { LayerStatus::Incomplete };
        Self::LayerComplete { layer, status, artifacts, total_policies_scored }
    }
}
