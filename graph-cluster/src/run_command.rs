//! Commands, which a run executes instead of starting at START.

use std::collections::BTreeMap;

use graph_core::{CompiledGraph, Goto, Input, RunError, State};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A command, which a run executes instead of starting at START. An empty command continues the thread from its
/// checkpoint.
///
/// ```
/// use graph_cluster::{RunCommand, StartRun};
///
/// let review = RunCommand::new().update("text", "A draft").goto("review");
/// let request = StartRun::new("run-8", "essay", "thread-7").command(review);
/// # let _ = request;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[must_use]
pub struct RunCommand {
    /// Answers to pending interrupts of the thread, by interrupt id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, Value>,
    /// Answer to the only pending interrupt of the thread, instead of `answers`. A thread without a pending interrupt
    /// ignores it.
    #[serde(skip_serializing_if = "Option::is_none", with = "optional_value")]
    pub resume: Option<Value>,
    /// Fields of the graph's state to set.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub update: Map<String, Value>,
    /// Nodes to run in addition to pending tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<RunTarget>,
}

/// A node that a command runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTarget {
    /// Name of the node.
    pub node: String,
    /// Payload of the node. `None` if the node reads the state.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_value")]
    pub payload: Option<Value>,
}

impl RunCommand {
    /// Creates an empty command.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a pending interrupt of the thread.
    pub fn answer(mut self, interrupt: impl Into<String>, value: impl Into<Value>) -> Self {
        self.answers.insert(interrupt.into(), value.into());
        self
    }

    /// Answers the only pending interrupt of the thread. Use it if the id of the interrupt is not known: a run that
    /// starts from an earlier checkpoint raises the interrupts of that checkpoint again, with other ids.
    pub fn resume(mut self, value: impl Into<Value>) -> Self {
        self.resume = Some(value.into());
        self
    }

    /// Sets a field of the graph's state.
    pub fn update(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.update.insert(field.into(), value.into());
        self
    }

    /// Runs a node on the state.
    pub fn goto(mut self, node: impl Into<String>) -> Self {
        self.targets.push(RunTarget { node: node.into(), payload: None });
        self
    }

    /// Runs a node with a payload.
    pub fn send(mut self, node: impl Into<String>, payload: impl Into<Value>) -> Self {
        self.targets.push(RunTarget { node: node.into(), payload: Some(payload.into()) });
        self
    }

    /// Returns the input of the run. `answers` replace those of the command.
    pub(crate) fn to_input<S: State, C: Send + Sync + 'static>(
        &self,
        graph: &CompiledGraph<S, C>,
        answers: BTreeMap<String, Value>,
    ) -> Result<Input<S>, RunError> {
        let mut input = match &self.resume {
            Some(value) => Input::resume(value)?,
            None if answers.is_empty() => Input::proceed(),
            None => Input::resume_by_id(answers),
        };
        if !self.update.is_empty() {
            input = input.with_update(graph.update_from_json(self.update.clone())?);
        }
        let goto = |target: &RunTarget| match &target.payload {
            Some(payload) => Goto::send(target.node.clone(), payload.clone()),
            None => Goto::node(target.node.clone()),
        };
        if !self.targets.is_empty() {
            input = input.goto(self.targets.iter().map(goto).collect::<Vec<_>>());
        }
        Ok(input)
    }
}

/// Serialises an optional value in a list, so that the value null is not taken for a missing one.
mod optional_value {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|it| [it]).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Value>, D::Error> {
        let value = Option::<[Value; 1]>::deserialize(deserializer)?;
        Ok(value.map(|[it]| it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_not_a_missing_payload_or_answer() {
        let command = RunCommand::new().goto("a").send("b", Value::Null).answer("i", Value::Null);
        let command = command.resume(Value::Null);
        let stored = serde_json::to_string(&command).expect("a command serialises to JSON");
        let restored: RunCommand = serde_json::from_str(&stored).expect("it was just serialised");
        assert_eq!(restored, command, "{stored}");
    }
}
