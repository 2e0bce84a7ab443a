//! Events of a run.
//!
//! Nodes send events through the engine's custom stream. This includes the nodes of nested graphs and the nodes inside
//! a guest. The [`EventLog`] of the run numbers the events and writes them to a file.

use std::collections::BTreeMap;

use app_support::event_log::{self, LoggedEvent, Repetition};
use serde::{Deserialize, Serialize};

use crate::score::MakerScore;

/// An event with its sequence number.
pub type NumberedEvent = event_log::NumberedEvent<PipelineEvent>;

/// Event log of a run.
pub type EventLog = event_log::EventLog<PipelineEvent>;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PipelineEvent {
    /// A layer starts.
    LayerStart {
        /// Layer that starts.
        layer: Layer,
        /// Always `running`.
        status: LayerStatus,
    },
    /// A layer is complete.
    LayerComplete {
        /// Layer that is complete.
        layer: Layer,
        /// Always `done`.
        status: LayerStatus,
        /// Names of the documents that the layer produced.
        artifacts: Vec<String>,
        /// Number of scored moves. Only set for the debate layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_policies_scored: Option<usize>,
    },
    /// An agent starts.
    AgentStart {
        /// Layer to which the agent belongs.
        layer: Layer,
        /// Id of the agent.
        agent_id: String,
        /// Display name of the agent.
        persona: String,
    },
    /// An agent is done.
    AgentComplete {
        /// Layer to which the agent belongs.
        layer: Layer,
        /// Id of the agent.
        agent_id: String,
        /// First document that the agent produced.
        output: String,
        /// All documents that the agent produced.
        outputs: Vec<String>,
    },
    /// An agent failed.
    AgentFailed {
        /// Layer to which the agent belongs.
        layer: Layer,
        /// Id of the agent.
        agent_id: String,
        /// Error message.
        reason: String,
    },
    /// The sandbox of a move's debate is ready.
    SandboxReady {
        /// Id of the move, such as `m4`.
        #[serde(rename = "move")]
        move_id: String,
        /// Title of the move.
        title: String,
        /// Sandbox back end.
        backend: String,
        /// Whether the back end isolates the guest from the host.
        isolated: bool,
    },
    /// Progress within one round of a debate.
    SandboxRound {
        /// Id of the move, such as `m4`.
        #[serde(rename = "move")]
        move_id: String,
        /// Number of the round, starting at 1.
        round: u32,
        /// Progress of the round.
        status: RoundStatus,
        /// Texts of the finished turns, by log name.
        #[serde(default, rename = "said", skip_serializing_if = "BTreeMap::is_empty")]
        texts: BTreeMap<String, String>,
    },
    /// A move was scored.
    SandboxScored {
        /// Id of the move, such as `m4`.
        #[serde(rename = "move")]
        move_id: String,
        /// Sum of all scores.
        score: u32,
        /// Scores by decision maker id.
        breakdown: BTreeMap<String, MakerScore>,
    },
    /// Debates run without isolation.
    SandboxDegraded {
        /// Sandbox back end.
        backend: String,
        /// Why no isolating back end is used.
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
    /// Most of the budget is used.
    BudgetWarning {
        /// Used share of the budget in percent, rounded down to a multiple of ten.
        percent: u64,
    },
    /// The budget is exhausted, so no further rounds are started.
    BudgetExceeded {
        /// Error message of the refused call.
        reason: String,
    },
    /// The run is complete.
    PipelineComplete {
        /// Recommended moves, best first.
        recommended: Vec<String>,
        /// All other ranked moves.
        other: Vec<String>,
    },
    /// The run failed.
    PipelineError {
        /// Error message.
        message: String,
    },
}

/// A layer of the pipeline. In events, the first three layers are identified by number, and the debates by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Layer {
    /// Layer 0 gathers data, layer 1 draws findings, and layer 2 proposes moves.
    Number(u8),
    /// The debates.
    Debate(SandboxLayer),
}

/// Name of the debate layer in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLayer {
    /// Serialized as `"sandbox"`.
    Sandbox,
}

/// Progress of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerStatus {
    /// The layer is running.
    Running,
    /// The layer is complete.
    Done,
}

/// Progress of a debate round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum RoundStatus {
    CriticResponding,
    CriticResponded,
    DmResponding,
    DmResponded,
}

impl Layer {
    /// The debate layer.
    pub const SANDBOX: Self = Self::Debate(SandboxLayer::Sandbox);
}

impl LoggedEvent for PipelineEvent {
    /// A resumed run may fail for the same reason as before or complete with the same result, and readers of the log
    /// have to learn about that.
    fn repetition(&self) -> Repetition {
        match self {
            Self::PipelineError { .. } => Repetition::Always,
            Self::PipelineComplete { .. } => Repetition::AfterOtherEvents,
            _ => Repetition::Never,
        }
    }
}

impl PipelineEvent {
    /// Creates the event for the start of a layer.
    pub fn layer_start(layer: Layer) -> Self {
        Self::LayerStart { layer, status: LayerStatus::Running }
    }

    /// Returns the move that the event is about.
    pub fn move_id(&self) -> Option<&str> {
        match self {
            Self::SandboxReady { move_id, .. }
            | Self::SandboxRound { move_id, .. }
            | Self::SandboxScored { move_id, .. }
            | Self::SandboxSkipped { move_id, .. } => Some(move_id),
            _ => None,
        }
    }

    /// Creates the event for the completion of a layer.
    pub fn layer_complete(layer: Layer, artifacts: Vec<String>) -> Self {
        let total_policies_scored = (layer == Layer::SANDBOX).then_some(artifacts.len());
        Self::LayerComplete { layer, status: LayerStatus::Done, artifacts, total_policies_scored }
    }
}
