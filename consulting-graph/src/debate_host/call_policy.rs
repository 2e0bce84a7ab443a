//! Restricts the calls that the guest of a debate may make. The guest may make only model calls, and only as a
//! participant of its debate, about the move of its debate, and within the configured token limits.

use std::sync::Arc;

use sandbox_vm::{CallError, CallPolicy, HostFunctions};

use crate::{
    call::{CallOutcome, LLM, ModelCall},
    config::{Config, Group, Summaries},
    debate::MAX_SHORTENED,
    finding::Findings,
    models::Models,
    moves::Move,
    offline::{DebatedMove, Task, Work},
};

/// Returns the call policy of one debate.
pub(super) fn call_policy(
    models: &Arc<Models>,
    config: &Config,
    the_move: &Move,
    findings: &[Findings],
) -> CallPolicy {
    let models = models.clone();
    let participants = Arc::new(config.clone());
    let move_id = the_move.move_id.to_string();
    let debated = Arc::new(DebatedMove::new(the_move, findings));
    let make_call = move |call: ModelCall| {
        let (models, config, move_id) = (models.clone(), participants.clone(), move_id.clone());
        let debated = debated.clone();
        async move {
            let mut call = authorize(call, &models, &config, move_id)?;
            let task = task(&call, &config, debated);
            call.request = call.request.attach(task);
            match models.call(&call).await {
                CallOutcome::Failed(it) if it.kind.ends_run() => {
                    Err(CallError::terminal(it.reason))
                }
                outcome => Ok(outcome),
            }
        }
    };
    let makers = config.decision_makers.len() as u64;
    // Adds three calls per decision maker: the baseline scoring call, its retry, and the retry of the final scoring
    // call. Each call may be repeated with a shorter prompt, and each prompt may need a summary by a model.
    let calls = (config.calls_per_move() + 3 * makers) * (1 + u64::from(MAX_SHORTENED));
    let calls = if config.summaries == Summaries::Model { 2 * calls } else { calls };
    let functions = HostFunctions::new().add(LLM, make_call);
    CallPolicy::from(functions).budget(calls).max_request(4 << 20)
}

/// Authorizes a call from the guest. Overwrites the guest's claims about the move and the token limit, and removes
/// tools.
fn authorize(
    mut call: ModelCall,
    models: &Models,
    config: &Config,
    move_id: String,
) -> Result<ModelCall, CallError> {
    let is_critic = config.critic.id == call.agent_id;
    let is_maker = config.decision_makers.iter().any(|it| it.id == call.agent_id);
    let known = match call.group {
        Group::Critic => is_critic,
        Group::DecisionMakers | Group::Scoring => is_maker,
        Group::Summaries => config.summaries == Summaries::Model && (is_critic || is_maker),
        Group::Synthesizers | Group::Inferences | Group::Analysts => false,
    };
    if !known {
        return Err(CallError::terminal(format!(
            "agent `{}` is not a participant of this debate in the requested role",
            call.agent_id
        )));
    }
    let settings = models.call_settings(call.group, &call.agent_id);
    call.move_id = Some(move_id);
    call.request.max_tokens = call.request.max_tokens.min(settings.max_tokens);
    call.request.tools.clear();
    Ok(call)
}

/// Describes an authorized call as a [`Task`], from which the offline board (the scripted model) answers. The guest
/// cannot attach the task to its request, because attachments are not sent to other processes.
fn task(call: &ModelCall, config: &Config, debated: Arc<DebatedMove>) -> Task {
    let maker = config.decision_makers.iter().find(|it| it.id == call.agent_id);
    let (agent, round) = (maker.unwrap_or(&config.critic).clone(), call.round);
    let work = match call.group {
        Group::DecisionMakers => Work::MakerTurn { debated, round },
        Group::Scoring => Work::Scores { debated, metrics: config.metrics.clone(), round },
        Group::Summaries => Work::Summary { debated },
        _ => Work::CriticTurn { debated, maker: call.reply_to.clone(), round },
    };
    Task { agent, work }
}
