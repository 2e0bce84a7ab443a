//! Commands: resume values, updates and targets in place of an input.

use graph_core::Goto;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A command for a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct Command {
    /// Answer to the pending interrupt, or answers by interrupt id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::langgraph) resume: Option<Value>,
    /// Update of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::langgraph) update: Option<Update>,
    /// Nodes to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::langgraph) goto: Option<Targets>,
}

/// An update of the state: an object, or a list of pairs of a field and a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "`update` must be an object or a list of pairs of a field and a value"
)]
pub(in crate::langgraph) enum Update {
    Fields(Map<String, Value>),
    Pairs(Vec<(String, Value)>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "`goto` must be the name of a node, `{\"node\": .., \"input\": ..}`, or a list of these"
)]
pub(in crate::langgraph) enum Targets {
    One(Target),
    Many(Vec<Target>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(in crate::langgraph) enum Target {
    Node(String),
    Send { node: String, input: Value },
}

impl Command {
    /// Returns whether the command has no content, so that the run only continues its thread.
    pub(in crate::langgraph) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the answers by interrupt id, if `resume` is an object whose keys are interrupt ids.
    pub(in crate::langgraph) fn answers(&self) -> Option<&Map<String, Value>> {
        let is_id = |key: &String| key.len() == 32 && key.bytes().all(|it| it.is_ascii_hexdigit());
        match &self.resume {
            Some(Value::Object(answers)) if !answers.is_empty() && answers.keys().all(is_id) => {
                Some(answers)
            }
            _ => None,
        }
    }

    /// Returns the update as an object.
    pub(in crate::langgraph) fn fields(&self) -> Option<Map<String, Value>> {
        self.update.clone().map(|it| match it {
            Update::Fields(fields) => fields,
            Update::Pairs(pairs) => pairs.into_iter().collect(),
        })
    }

    /// Returns the nodes to run, with their payloads.
    pub(in crate::langgraph) fn targets(&self) -> Vec<(String, Option<Value>)> {
        let target = |target: &Target| match target {
            Target::Node(node) => (node.clone(), None),
            Target::Send { node, input } => (node.clone(), Some(input.clone())),
        };
        match &self.goto {
            None => Vec::new(),
            Some(Targets::One(one)) => vec![target(one)],
            Some(Targets::Many(targets)) => targets.iter().map(target).collect(),
        }
    }

    /// Returns the targets to run.
    pub(in crate::langgraph) fn gotos(&self) -> Vec<Goto> {
        let goto = |(node, payload): (String, Option<Value>)| match payload {
            None => Goto::node(node),
            Some(payload) => Goto::send(node, payload),
        };
        self.targets().into_iter().map(goto).collect()
    }
}
