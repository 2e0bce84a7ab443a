//! Renders each event as one line, for log files and for terminals that cannot redraw a screen.

use consulting_graph::event::{Layer, PipelineEvent, RoundStatus};

use super::{
    dashboard::{Dashboard, degraded_text},
    text::first_line,
};
use sandbox_vm::report::IsolationLevel;

/// Renders an event as one line. The dashboard must already have applied the event.
pub(super) fn line(run: &Dashboard, event: &PipelineEvent) -> String {
    let line = match event {
        PipelineEvent::LayerStart { layer, .. } => format!("{} started", name(*layer)),
        PipelineEvent::LayerComplete { layer, artifacts, .. } => {
            format!("{} done: {}", name(*layer), artifacts.join(", "))
        }
        PipelineEvent::AgentStart { agent_id, persona, .. } => {
            format!("{agent_id} ({persona}) started")
        }
        PipelineEvent::AgentComplete { agent_id, outputs, .. } => {
            format!("{agent_id} done: {}", outputs.join(", "))
        }
        PipelineEvent::AgentFailed { agent_id, reason, .. } => {
            format!("{agent_id} FAILED: {reason}")
        }
        PipelineEvent::SandboxReady { move_id, title, backend, isolation } => {
            format!("{move_id} sandbox ready ({backend}, {}): {title}", isolation.description())
        }
        PipelineEvent::SandboxRound { move_id, round, status, texts } => {
            let rounds = run.header.rounds;
            let excerpt = texts.iter().next_back().map(|it| format!(": {}", first_line(it.1)));
            let excerpt = excerpt.unwrap_or_default();
            format!("{move_id} round {round}/{rounds}, {}{excerpt}", status_text(*status))
        }
        PipelineEvent::SandboxScored { move_id, score, .. } => {
            let (over, all) = run.debates();
            let best = run.header.max_score;
            let title = run.title(move_id);
            format!("{move_id} scored {score}/{best} ({over} of {all} debates): {title}")
        }
        PipelineEvent::SandboxDegraded { move_id, backend, isolation, reason } => {
            let warning = if *isolation == IsolationLevel::Off { "WARNING: " } else { "" };
            let text = degraded_text(move_id.as_deref(), backend, *isolation, reason);
            format!("{warning}{text}")
        }
        PipelineEvent::SandboxSkipped { move_id, reason } => {
            format!("{move_id} HAS NO SCORE: {reason}")
        }
        PipelineEvent::BudgetWarning { percent } => {
            format!("WARNING: {percent}% of the budget is used")
        }
        PipelineEvent::BudgetExceeded { reason } => format!("BUDGET EXHAUSTED: {reason}"),
        PipelineEvent::PipelineComplete { recommended, .. } => {
            format!("done; recommended: {}", recommended.join(", "))
        }
        PipelineEvent::PipelineError { message } => format!("FAILED: {message}"),
        // Required, because `PipelineEvent` is non-exhaustive.
        other => format!("{other:?}"),
    };
    first_line(&line)
}

fn name(layer: Layer) -> String {
    match layer {
        Layer::Number(0) => "layer 0 (data)".to_owned(),
        Layer::Number(1) => "layer 1 (findings)".to_owned(),
        Layer::Number(2) => "layer 2 (moves)".to_owned(),
        Layer::Number(number) => format!("layer {number}"),
        Layer::Debate(_) => "layer 3 (debates)".to_owned(),
    }
}

fn status_text(status: RoundStatus) -> &'static str {
    match status {
        RoundStatus::CriticResponding => "critic is responding",
        RoundStatus::CriticResponded => "critic responded",
        RoundStatus::DmResponding => "decision makers are responding",
        RoundStatus::DmResponded => "decision makers responded",
    }
}
