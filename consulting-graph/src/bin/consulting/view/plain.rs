//! One line an event, for files and for those who do not see the screen.

use consulting_graph::event::{Layer, PipelineEvent, RoundStatus};

use super::{dashboard::Dashboard, text::first_line};

/// What an event says, in one line. The dashboard has taken the event in already.
pub(super) fn line(run: &Dashboard, event: &PipelineEvent) -> String {
    let said = match event {
        PipelineEvent::LayerStart { layer, .. } => format!("{} begins", name(*layer)),
        PipelineEvent::LayerComplete { layer, artifacts, .. } => {
            format!("{} done: {}", name(*layer), artifacts.join(", "))
        }
        PipelineEvent::AgentStart { agent_id, persona, .. } => {
            format!("{agent_id} ({persona}) begins")
        }
        PipelineEvent::AgentComplete { agent_id, outputs, .. } => {
            format!("{agent_id} done: {}", outputs.join(", "))
        }
        PipelineEvent::AgentFailed { agent_id, reason, .. } => {
            format!("{agent_id} FAILED: {reason}")
        }
        PipelineEvent::SandboxReady { move_id, title, backend, isolated } => {
            let isolated = if *isolated { "isolated" } else { "NOT ISOLATED" };
            format!("{move_id} sandbox ready ({backend}, {isolated}): {title}")
        }
        PipelineEvent::SandboxRound { move_id, round, status, said } => {
            let rounds = run.cast.rounds;
            let spoken = said.iter().next_back().map(|it| format!(": {}", first_line(it.1)));
            let spoken = spoken.unwrap_or_default();
            format!("{move_id} round {round}/{rounds}, {}{spoken}", words(*status))
        }
        PipelineEvent::SandboxScored { move_id, score, .. } => {
            let (over, all) = run.debates();
            let best = run.cast.best_score;
            let title = run.title(move_id);
            format!("{move_id} scored {score}/{best} ({over} of {all} debates): {title}")
        }
        PipelineEvent::SandboxDegraded { backend, reason } => {
            format!("WARNING: debates run WITHOUT ISOLATION in {backend}: {reason}")
        }
        PipelineEvent::SandboxSkipped { move_id, reason } => {
            format!("{move_id} HAS NO SCORE: {reason}")
        }
        PipelineEvent::BudgetWarning { percent } => {
            format!("WARNING: {percent}% of the budget is spent")
        }
        PipelineEvent::BudgetExceeded { reason } => format!("THE BUDGET IS SPENT: {reason}"),
        PipelineEvent::PipelineComplete { recommended, .. } => {
            format!("done; recommended: {}", recommended.join(", "))
        }
        PipelineEvent::PipelineError { message } => format!("FAILED: {message}"),
        // Events that this program does not know yet.
        other => format!("{other:?}"),
    };
    first_line(&said)
}

fn name(layer: Layer) -> String {
    match layer {
        Layer::Number(0) => "layer 0, data,".to_owned(),
        Layer::Number(1) => "layer 1, findings,".to_owned(),
        Layer::Number(2) => "layer 2, moves,".to_owned(),
        Layer::Number(number) => format!("layer {number}"),
        Layer::Debate(_) => "layer 3, debates,".to_owned(),
    }
}

fn words(status: RoundStatus) -> &'static str {
    match status {
        RoundStatus::CriticResponding => "the critic speaks",
        RoundStatus::CriticResponded => "the critic has spoken",
        RoundStatus::DmResponding => "the decision makers answer",
        RoundStatus::DmResponded => "the decision makers have answered",
    }
}
