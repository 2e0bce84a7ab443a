//! Review of tool calls by a person.

mod decision;
mod kind;
mod rule;

use std::collections::BTreeMap;

use async_trait::async_trait;
use decision::{Decision, EditedCall, Resolution, Review};
use graph_core::{Context, JsonFieldKind, NodeError};
use serde_json::{Value, json};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError, AgentState,
    command::Update,
    message::{Content, Message, ToolCall, last_ai, text_block},
    notation,
    state::StateField,
    tool::{ToolAnswer, ToolHandler, ToolRequest},
};

pub use kind::DecisionKind;
pub use rule::ReviewRule;

const EDITS: &str = "hitl_edited_tool_calls";
const PREFIX: &str = "Tool execution requires approval";
const NOTICE: &str = "A human reviewer changed this tool call before it was executed.";

/// Asks a person before tools run. The person can approve, edit or reject a call, or answer in place of the tool.
///
/// By default, all calls of a message that have a rule are reviewed together, in one interrupt whose value is
/// `{"action_requests": [..], "review_configs": [..]}`. Resume the run with `{"decisions": [..]}`, one decision per
/// request: `{"type": "approve"}`, `{"type": "edit", "edited_action": {"name", "args"}}`, `{"type": "reject",
/// "message"}` or `{"type": "respond", "message"}`. No call of the message runs before the answer. An invalid answer
/// fails the run and is discarded; resume the run again with a valid one.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall,
///     middleware::{HumanInTheLoop, ReviewRule},
///     tool,
/// };
/// use graph_core::MemorySaver;
/// use serde_json::json;
///
/// /// Deletes a file.
/// #[tool]
/// async fn delete_file(name: String) -> String {
///     format!("Deleted {name}.")
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("delete_file", json!({"name": "notes.md"}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("I kept it.")]);
/// let agent = Agent::new(model)
///     .tools([delete_file()])
///     .middleware(HumanInTheLoop::new([("delete_file", ReviewRule::all())]))
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let conversation = agent.conversation("ann");
/// let outcome = conversation.send("Tidy up.").await?;
/// assert_eq!(outcome.interrupts[0].value["action_requests"][0]["name"], "delete_file");
/// let decision = json!({"type": "reject", "message": "I need this file."});
/// let outcome = conversation.resume(json!({"decisions": [decision]})).await?;
/// assert_eq!(outcome.text(), "I kept it.");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct HumanInTheLoop {
    rules: BTreeMap<String, ReviewRule>,
    prefix: String,
    notice: Option<String>,
    per_call: bool,
}

impl HumanInTheLoop {
    /// Creates the middleware with a rule per tool.
    pub fn new<N: Into<String>>(rules: impl IntoIterator<Item = (N, ReviewRule)>) -> Self {
        Self {
            rules: rules.into_iter().map(|(name, rule)| (name.into(), rule)).collect(),
            prefix: PREFIX.to_owned(),
            notice: Some(NOTICE.to_owned()),
            per_call: false,
        }
    }

    /// Sets the first line of the descriptions that the reviewer sees.
    pub fn description_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the text that precedes the result of an edited call. `None`: the model does not learn of the edit.
    pub fn edit_notice(mut self, notice: Option<String>) -> Self {
        self.notice = notice;
        self
    }

    /// Reviews each call in its own task, so that calls without a rule run without waiting for a review.
    pub fn per_call(mut self) -> Self {
        self.per_call = true;
        self
    }

    fn rule(&self, call: &ToolCall) -> Option<&ReviewRule> {
        self.rules.get(&call.name).filter(|it| it.applies(call))
    }

    fn description(&self, rule: &ReviewRule, call: &ToolCall) -> String {
        rule.description.clone().unwrap_or_else(|| {
            let args = notation::python_object(&call.args);
            format!("{}\n\nTool: {}\nArgs: {args}", self.prefix, call.name)
        })
    }

    /// Adds the notice to the result of an edited call.
    fn with_notice(&self, answer: ToolAnswer, edited: &EditedCall) -> ToolAnswer {
        let (Some(notice), ToolAnswer::Message(mut message)) = (&self.notice, answer.clone())
        else {
            return answer;
        };
        let args = notation::spaced_json(&Value::Object(edited.args.clone()));
        let text = format!("{notice} Executed instead: {} with arguments {args}.", edited.name);
        message.content = match message.content {
            content if content.is_empty() => Content::Text(text),
            Content::Text(result) => Content::Text(format!("{text}\n\nTool response:\n{result}")),
            Content::Blocks(mut blocks) => {
                blocks.insert(0, text_block(&format!("{text}\n\nTool response:\n")));
                Content::Blocks(blocks)
            }
        };
        message.into()
    }

    /// Executes the call that a reviewer put in place of the model's call.
    async fn run_edited(
        &self,
        mut request: ToolRequest,
        edited: EditedCall,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let Some(tool) = next.tools().iter().find(|it| it.name() == edited.name) else {
            let mut names: Vec<_> = next.tools().iter().map(|it| it.name()).collect();
            names.sort_unstable();
            return Err(AgentError::value(format!(
                "Reviewer edited tool call '{}' to '{}', which is not an available tool. Available tools: {}.",
                request.call.id(),
                edited.name,
                names.join(", ")
            ))
            .into());
        };
        request.tool = Some(tool.clone());
        request.call.name.clone_from(&edited.name);
        request.call.args.clone_from(&edited.args);
        Ok(self.with_notice(next.call(request).await?, &edited))
    }

    /// Interrupts the run to ask the reviewer about one call, and then executes or answers the call as decided.
    async fn review_call(
        &self,
        rule: &ReviewRule,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let call = &request.call;
        let question = json!({
            "type": "tool_approval",
            "tool_call_id": call.id(),
            "name": call.name,
            "args": call.args,
            "description": self.description(rule, call),
        });
        let resolution = request.context.interrupt_checked(question, |decision: Value| {
            let resolution = Decision::read(&decision, call, rule)?.resolve(call);
            check_same_tool(&resolution, call)?;
            Ok(resolution)
        })?;
        match resolution {
            Resolution::Run => next.call(request).await,
            Resolution::Answer(message) => Ok(message.into()),
            Resolution::Edit(edited) => self.run_edited(request, edited, next).await,
        }
    }
}

/// Checks the decisions about all reviewed calls of a message.
fn resolve_all(
    reviewed: &[(&ToolCall, &ReviewRule)],
    review: &Review,
) -> Result<Vec<Resolution>, AgentError> {
    if review.decisions.len() != reviewed.len() {
        return Err(AgentError::refused_decision(format!(
            "Number of human decisions ({}) does not match number of hanging tool calls ({}).",
            review.decisions.len(),
            reviewed.len()
        )));
    }
    let pairs = reviewed.iter().zip(&review.decisions);
    pairs.map(|((call, rule), it)| Ok(Decision::read(it, call, rule)?.resolve(call))).collect()
}

/// Checks that an edit of one call does not change the tool.
fn check_same_tool(resolution: &Resolution, call: &ToolCall) -> Result<(), AgentError> {
    match resolution {
        Resolution::Edit(edited) if edited.name != call.name => {
            Err(AgentError::refused_decision(format!(
                "a review of one call cannot change the tool from '{}' to '{}'; edit the arguments only",
                call.name, edited.name
            )))
        }
        _ => Ok(()),
    }
}

#[async_trait]
impl Middleware for HumanInTheLoop {
    fn name(&self) -> String {
        "HumanInTheLoopMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().after_model([]).wrap_tool_call()
    }

    fn state_fields(&self) -> Vec<StateField> {
        vec![StateField::private(EDITS, JsonFieldKind::Last)]
    }

    async fn after_model(
        &self,
        state: &AgentState,
        context: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let Some((newest, _)) = last_ai(state.messages()) else { return Ok(None) };
        if newest.tool_calls.is_empty() || self.per_call {
            return Ok(None);
        }
        let reviewed: Vec<_> =
            newest.tool_calls.iter().filter_map(|it| Some((it, self.rule(it)?))).collect();
        if reviewed.is_empty() {
            let edits: BTreeMap<String, Value> = state.get_as(EDITS).unwrap_or_default();
            return Ok((!edits.is_empty()).then(|| Update::new().set(EDITS, json!({}))));
        }
        let requests: Vec<_> = reviewed
            .iter()
            .map(|(call, rule)| {
                json!({"name": call.name, "args": call.args, "description": self.description(rule, call)})
            })
            .collect();
        let configs: Vec<_> = reviewed
            .iter()
            .map(
                |(call, rule)| json!({"action_name": call.name, "allowed_decisions": rule.allowed}),
            )
            .collect();
        let question = json!({"action_requests": requests, "review_configs": configs});
        let resolutions = context
            .interrupt_checked(question, |review: Review| Ok(resolve_all(&reviewed, &review)?))?;
        let mut messages = vec![Message::Ai(newest.clone())];
        let mut edits = BTreeMap::new();
        for ((call, _), resolution) in reviewed.into_iter().zip(resolutions) {
            match resolution {
                Resolution::Run => {}
                Resolution::Answer(message) => messages.push(message.into()),
                Resolution::Edit(edited) => drop(edits.insert(call.id().to_owned(), edited)),
            }
        }
        Ok(Some(Update::new().messages(messages).set(EDITS, edits)))
    }

    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        if self.per_call {
            return match self.rule(&request.call).cloned() {
                Some(rule) => self.review_call(&rule, request, next).await,
                None => next.call(request).await,
            };
        }
        let mut edits: BTreeMap<String, EditedCall> =
            request.state.get_as(EDITS).unwrap_or_default();
        match edits.remove(request.call.id()) {
            Some(edited) => self.run_edited(request, edited, next).await,
            None => next.call(request).await,
        }
    }
}
