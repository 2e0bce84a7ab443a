//! Converts answers to the form in which the case files contain them; see `fixtures/agents/FORMAT.md`.

use std::collections::BTreeSet;

use graph_agents::Message;
use graph_core::{CompiledGraph, JsonState};
use serde_json::{Map, Value, json};

use super::{case::AgentCase, text};

const MESSAGE_TYPES: [&str; 5] = ["human", "ai", "system", "tool", "remove"];

/// Converts answers to the form of the case files: keeps only ids that the case contains, and removes empty fields of
/// messages.
#[derive(Debug)]
pub(super) struct Shown {
    ids: BTreeSet<String>,
}

impl Shown {
    pub(super) fn new(case: &AgentCase) -> Self {
        let mut ids = BTreeSet::new();
        for value in [&Value::Object(case.models.clone()), &Value::from(case.script.clone())] {
            collect_ids(value, &mut ids);
        }
        for agent in [&case.agent].into_iter().chain(&case.agents) {
            collect_ids(&Value::from(agent.middleware.clone()), &mut ids);
            for tool in &agent.tools {
                collect_ids(&Value::from(tool.r#do.clone()), &mut ids);
            }
        }
        for tool in &case.tools {
            collect_ids(&Value::from(tool.r#do.clone()), &mut ids);
        }
        collect_ids(&Value::from(case.wrap.clone().unwrap_or_default()), &mut ids);
        Self { ids }
    }

    /// Converts all messages and texts in an answer.
    pub(super) fn clean(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(text::shown(&text)),
            Value::Array(items) => items.into_iter().map(|it| self.clean(it)).collect(),
            Value::Object(object) if is_message(&object) => self.message(object),
            Value::Object(object) => {
                object.into_iter().map(|(key, value)| (key, self.clean(value))).collect()
            }
            other => other,
        }
    }

    fn message(&self, object: Map<String, Value>) -> Value {
        let mut shown = Map::new();
        for (key, value) in object {
            let value = match key.as_str() {
                "id" if !value.as_str().is_some_and(|it| self.shows(it)) => continue,
                "tool_calls" => self.calls(&value),
                "tool_call_id" => json!(self.call_id(value.as_str().unwrap_or_default())),
                "usage" => json!({"input": value["input"], "output": value["output"]}),
                "content" => self.clean(value),
                "reasoning" => continue,
                _ => value,
            };
            let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            if key == "content" || !is_empty {
                shown.insert(key, value);
            }
        }
        Value::Object(shown)
    }

    fn shows(&self, id: &str) -> bool {
        self.ids.contains(id) || id == graph_agents::REMOVE_ALL
    }

    fn calls(&self, calls: &Value) -> Value {
        let call = |call: &Value| {
            let id = call["id"].as_str().map(|it| self.call_id(it));
            json!({"name": call["name"], "args": call["args"], "id": id})
        };
        calls.as_array().into_iter().flatten().map(call).collect()
    }

    fn call_id(&self, id: &str) -> String {
        if self.ids.contains(id) { id.to_owned() } else { "<id>".to_owned() }
    }
}

fn is_message(object: &Map<String, Value>) -> bool {
    let kind = object.get("type").and_then(Value::as_str);
    let has_content = object.contains_key("content") || kind == Some("remove");
    has_content && kind.is_some_and(|it| MESSAGE_TYPES.contains(&it))
}

fn collect_ids(value: &Value, ids: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|it| collect_ids(it, ids)),
        Value::Object(object) => {
            for (key, value) in object {
                if let ("id" | "tool_call_id", Value::String(id)) = (key.as_str(), value) {
                    ids.insert(id.clone());
                }
                collect_ids(value, ids);
            }
        }
        _ => {}
    }
}

/// Labels for ids that the messages reducer generated: `#1`, `#2` and so on, in order of first appearance.
#[derive(Debug)]
pub(super) struct Labels {
    given: BTreeSet<String>,
    assigned: Vec<String>,
}

impl Labels {
    pub(super) fn new(case: &AgentCase) -> Self {
        let mut given = BTreeSet::new();
        collect_ids(&case.left, &mut given);
        collect_ids(&Value::from(case.folds.clone()), &mut given);
        Self { given, assigned: Vec::new() }
    }

    pub(super) fn show(&mut self, messages: &[Message]) -> Value {
        let shown = Shown { ids: self.given.clone() };
        let mut list = Vec::new();
        for message in messages {
            let id = message.id().unwrap_or_default().to_owned();
            let value = serde_json::to_value(message).expect("a message is valid JSON");
            let mut value = shown.clean(value);
            if !self.given.contains(&id) && id != graph_agents::REMOVE_ALL {
                let known = self.assigned.iter().position(|it| *it == id);
                let index = known.unwrap_or_else(|| {
                    self.assigned.push(id);
                    self.assigned.len() - 1
                });
                value["id"] = json!(format!("#{}", index + 1));
            }
            list.push(value);
        }
        Value::from(list)
    }
}

/// Returns the nodes and edges of a graph.
pub(super) fn graph(graph: &CompiledGraph<JsonState>) -> Value {
    let drawing = graph.drawing(0);
    let mut nodes: Vec<_> = drawing.nodes.iter().map(|it| it.name.clone()).collect();
    nodes.sort();
    let mut edges: Vec<_> =
        drawing.edges.iter().map(|it| (it.from.clone(), it.to.clone(), it.conditional)).collect();
    edges.sort();
    edges.dedup();
    json!({"nodes": nodes, "edges": edges})
}

/// Returns the messages stream as JSON. Sorts adjacent tool messages, because tools run in parallel.
pub(super) fn message_stream(messages: Vec<(String, Value)>) -> Value {
    let mut pairs: Vec<Value> = messages.into_iter().map(|(node, it)| json!([node, it])).collect();
    let is_tool = |pair: &Value| pair[1]["type"] == "tool";
    let mut start = 0;
    while start < pairs.len() {
        let length = pairs[start..].iter().take_while(|it| is_tool(it)).count();
        pairs[start..start + length].sort_by_cached_key(|it| {
            let mut shown = it.clone();
            if let Some(message) = shown[1].as_object_mut() {
                message.remove("id");
            }
            shown.to_string()
        });
        start += length.max(1);
    }
    Value::from(pairs)
}
