//! Decisions of a reviewer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{kind::DecisionKind, rule::ReviewRule};
use crate::{
    AgentError,
    message::{ToolCall, ToolMessage},
    notation,
};

/// The answer to a review of several calls.
#[derive(Debug, Deserialize)]
pub(super) struct Review {
    pub(super) decisions: Vec<Value>,
}

/// A call that a reviewer put in place of the model's call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EditedCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) args: Map<String, Value>,
}

/// A reviewer's decision about one call. The rule for the call allows this decision.
#[derive(Debug, Deserialize)]
pub(super) struct Decision {
    r#type: DecisionKind,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    edited_action: Option<EditedCall>,
}

/// Effect of a decision on the reviewed call.
pub(super) enum Resolution {
    Run,
    Answer(ToolMessage),
    Edit(EditedCall),
}

impl Decision {
    /// Parses a decision about `call` and checks that `rule` allows it.
    pub(super) fn read(
        value: &Value,
        call: &ToolCall,
        rule: &ReviewRule,
    ) -> Result<Self, AgentError> {
        let decision = Self::deserialize(value).ok();
        let complete = |it: &Self| it.r#type != DecisionKind::Edit || it.edited_action.is_some();
        let allowed = |it: &Self| rule.allowed.contains(&it.r#type) && complete(it);
        decision.filter(allowed).ok_or_else(|| {
            let kind = value["type"].as_str().unwrap_or("None");
            AgentError::refused_decision(format!(
                "Unexpected human decision: {}. Decision type '{kind}' is not allowed for tool '{}'. Expected one of \
                 {} based on the tool's configuration.",
                notation::python(value),
                call.name,
                notation::python_list(rule.allowed.iter().map(|it| it.name()))
            ))
        })
    }

    pub(super) fn resolve(self, call: &ToolCall) -> Resolution {
        match (self.r#type, self.edited_action) {
            (DecisionKind::Edit, Some(edited)) => Resolution::Edit(edited),
            (DecisionKind::Approve | DecisionKind::Edit, _) => Resolution::Run,
            (DecisionKind::Reject, _) => {
                let text = match self.message {
                    Some(reason) => format!(
                        "User rejected the tool call for `{}` with reason: {reason}",
                        call.name
                    ),
                    None => format!(
                        "User rejected the tool call for `{}` with id {}. The tool was not executed. Do not retry this \
                         tool call unless the user explicitly requests it.",
                        call.name,
                        call.id()
                    ),
                };
                Resolution::Answer(ToolMessage::error(call, text))
            }
            (DecisionKind::Respond, _) => {
                Resolution::Answer(ToolMessage::success(call, self.message.unwrap_or_default()))
            }
        }
    }
}
