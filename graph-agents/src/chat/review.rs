//! Decisions of the user about tool calls, in the format of
//! [`HumanInTheLoop`](crate::middleware::HumanInTheLoop).

use serde_json::{Value, json};

const ALL: [&str; 4] = ["approve", "edit", "reject", "respond"];

/// A tool call that the user reviews.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReviewRequest {
    pub(super) description: String,
    tool: String,
    /// Names of the allowed decisions.
    allowed: Vec<String>,
}

/// Returns the tool calls to review, or an empty list if the question is not a review.
pub(super) fn requests(question: &Value) -> Vec<ReviewRequest> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let request = |call: &Value, config: Option<&Value>| ReviewRequest {
        description: text(&call["description"]),
        tool: text(&call["name"]),
        allowed: config
            .and_then(|it| it["allowed_decisions"].as_array())
            .map_or_else(|| ALL.map(str::to_owned).to_vec(), |it| it.iter().map(text).collect()),
    };
    if question["type"] == "tool_approval" {
        return vec![request(question, None)];
    }
    let calls = question["action_requests"].as_array().into_iter().flatten();
    let configs = &question["review_configs"];
    calls.enumerate().map(|(index, call)| request(call, configs.get(index))).collect()
}

/// Combines the decisions into the answer to the question.
pub(super) fn to_answer(question: &Value, mut decisions: Vec<Value>) -> Value {
    match question["type"] == "tool_approval" {
        true => decisions.pop().unwrap_or_default(),
        false => json!({ "decisions": decisions }),
    }
}

impl ReviewRequest {
    /// Returns the prompt with the allowed decisions.
    pub(super) fn prompt(&self) -> String {
        let form = |it: &String| match it.as_str() {
            "edit" => "edit {JSON arguments}".to_owned(),
            "reject" => "reject [reason]".to_owned(),
            "respond" => "respond TEXT".to_owned(),
            other => other.to_owned(),
        };
        let forms: Vec<_> = self.allowed.iter().map(form).collect();
        format!("{}? ", forms.join(" | "))
    }

    /// Parses the line that the user typed. Returns an error message for the user if the line is not an allowed
    /// decision.
    pub(super) fn decision(&self, line: &str) -> Result<Value, String> {
        let (kind, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        if !self.allowed.iter().any(|it| it == kind) {
            return Err(format!("`{kind}` is not one of: {}", self.allowed.join(", ")));
        }
        match kind {
            "edit" => {
                match serde_json::from_str(rest) {
                    Ok(Value::Object(args)) => {
                        let edited = json!({"name": self.tool, "args": args});
                        Ok(json!({"type": "edit", "edited_action": edited}))
                    }
                    _ => Err("type the new arguments as a JSON object: edit {\"city\": \"Rome\"}"
                        .to_owned()),
                }
            }
            "respond" if rest.is_empty() => Err("type the response: respond TEXT".to_owned()),
            "approve" => Ok(json!({"type": kind})),
            _ if rest.is_empty() => Ok(json!({"type": kind})),
            _ => Ok(json!({"type": kind, "message": rest})),
        }
    }
}
