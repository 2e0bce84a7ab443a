//! Model calls of one agent, read from the recording of a run.

use graph_server::http::Problem;
use llm::{Catalog, Money, RecordMode, Recording, Request, Response, Role};

use super::wire::{CallInfo, PromptMessage};
use crate::{config::Persona, fence::Fence, run::Run};

/// Returns the answered calls of an agent, in order of completion. `move_id` selects one debate.
///
/// The recording does not contain agent ids, so a call is attributed to the agent with whose instructions the system
/// prompt starts. If a fork changes the instructions of an agent, the agent's inherited calls are therefore missing.
pub(super) fn calls_of(
    run: &Run,
    agent: &str,
    move_id: Option<&str>,
) -> Result<Vec<CallInfo>, Problem> {
    let config = run.config();
    let personas: Vec<&Persona> = config.personas().into_iter().map(|(_, it)| it).collect();
    if !personas.iter().any(|it| it.id == agent) {
        return Err(Problem::not_found("the run has no such agent"));
    }
    let debates =
        config.critic.id == agent || config.decision_makers.iter().any(|it| it.id == agent);
    if debates != move_id.is_some() {
        return Err(Problem::invalid(
            "`move` is required for the critic and the decision makers, and only for them",
        ));
    }
    let path = run.dir().join("calls.jsonl");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let recording =
        Recording::open(path, RecordMode::Replay).map_err(|error| Problem::internal(&error))?;
    let fence = Fence::new(&run.manifest().run_config.nonce);
    let opening_tag = move_id.map(|it| fence.opening_tag(&format!("move {it}")));
    let is_wanted = |request: &Request| {
        caller(&personas, request) == Some(agent)
            && opening_tag.as_ref().is_none_or(|tag| mentions(request, tag))
    };
    let calls = recording.answered_calls().filter(|(request, _)| is_wanted(request));
    Ok(calls.map(|(request, response)| call_info(&request, &response)).collect())
}

/// Returns the id of the agent that made a request. If the instructions of several agents match, the agent with the
/// longest matching instructions is returned.
fn caller<'a>(personas: &[&'a Persona], request: &Request) -> Option<&'a str> {
    let system = request.system.as_deref()?;
    let matching = personas.iter().filter(|it| system.starts_with(it.system_prompt.trim()));
    matching.max_by_key(|it| it.system_prompt.trim().len()).map(|it| it.id.as_str())
}

fn mentions(request: &Request, text: &str) -> bool {
    request.messages.iter().any(|it| it.text().contains(text))
}

fn call_info(request: &Request, response: &Response) -> CallInfo {
    let usage = response.usage.unwrap_or_default();
    let catalog_price =
        || Catalog::builtin().entry(&response.model)?.cost(response.usage.as_ref()?);
    let role = |role: Role| if role == Role::Assistant { "assistant" } else { "user" };
    let message =
        |it: &llm::Message| PromptMessage { role: role(it.role).to_owned(), text: it.text() };
    CallInfo {
        model: response.model.to_string(),
        temperature: request.temperature,
        system_prompt: request.system.clone().unwrap_or_default(),
        prompt: request.messages.iter().map(message).collect(),
        answer: response.text(),
        input_tokens: usage.input,
        output_tokens: usage.output,
        dollars: response.cost.or_else(catalog_price).map(Money::dollars),
        latency_ms: u64::try_from(response.latency.as_millis()).unwrap_or(u64::MAX),
    }
}
