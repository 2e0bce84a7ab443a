//! What a debate may ask from outside: calls of its own people, about its own move, no larger than configured.

use std::sync::Arc;

use sandbox_vm::{CallError, Gate};
use serde_json::Value;

use crate::{
    ask::{Ask, Heard, LLM},
    config::{Config, Group},
    models::Models,
    moves::Move,
    pipeline::Deps,
};

/// The gate of one debate.
pub(super) fn gate(deps: &Deps, the_move: &Move) -> Gate {
    let models = deps.models.clone();
    let config = Arc::new(deps.config.clone());
    let move_id = the_move.move_id.to_string();
    let outside = move |_: String, request: Value| {
        let (models, config, move_id) = (models.clone(), config.clone(), move_id.clone());
        async move {
            let ask = allowed(request, &models, &config, move_id)?;
            let heard = models.ask(&ask).await;
            match heard {
                Heard::Silent(it) if it.kind.ends_run() => Err(CallError::terminal(it.why)),
                heard => serde_json::to_value(heard)
                    .map_err(|error| CallError::terminal(error.to_string())),
            }
        }
    };
    let makers = deps.config.decision_makers.len() as u64;
    // Scores before the debate, and each scoring once more.
    let calls = deps.config.calls_per_move() + 3 * makers;
    Gate::new(outside).allow(LLM).budget(calls).max_request(4 << 20)
}

/// The call, if it is one that this debate may make. What the guest says about itself counts only where it is checked.
fn allowed(
    request: Value,
    models: &Models,
    config: &Config,
    move_id: String,
) -> Result<Ask, CallError> {
    let mut ask: Ask = serde_json::from_value(request)
        .map_err(|error| CallError::terminal(format!("no call: {error}")))?;
    let known = match ask.group {
        Group::Critic => config.critic.id == ask.who,
        Group::DecisionMakers | Group::Scoring => {
            config.decision_makers.iter().any(|it| it.id == ask.who)
        }
        Group::Synthesizers | Group::Inferences | Group::Analysts => false,
    };
    if !known {
        return Err(CallError::terminal(format!("`{}` takes no part in debates", ask.who)));
    }
    let voice = models.voice(ask.group, &ask.who);
    ask.move_id = Some(move_id);
    ask.request.max_tokens = ask.request.max_tokens.min(voice.max_tokens);
    ask.request.tools.clear();
    Ok(ask)
}
