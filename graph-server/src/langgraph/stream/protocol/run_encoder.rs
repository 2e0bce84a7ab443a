//! Encodes the events of one run.

use std::{collections::HashSet, sync::Arc, time::SystemTime};

use graph_core::{Event, EventKind, Interrupt};
use serde_json::{Value, json};

use super::{
    event::{Content, ProtocolEvent, last_number, number},
    messages::{OpenMessages, segments},
};
use crate::langgraph::{
    id::wire_id,
    stream::{
        encode::{task, update},
        item::{Body, Item, MessageItem, RunFacts},
        message::complete_fields,
        progress::Progress,
        tool_event::tool_events,
    },
};

/// Encodes the events of one run, in their order.
pub(in crate::langgraph) struct RunEncoder {
    run: Arc<RunFacts>,
    progress: Progress,
    messages: OpenMessages,
    /// Namespaces of the subgraphs that are running.
    subgraphs: Vec<Vec<String>>,
    /// Ids of the interrupts that the run raised.
    interrupts: HashSet<String>,
    outcome: Outcome,
    /// A state that is sent after the checkpoint that contains it. Clients expect this order; the engine reports the
    /// state first.
    held_values: Option<Content>,
    /// Time of the last event.
    last_at: SystemTime,
}

/// Outcome of the run, if it is known.
enum Outcome {
    /// The run is active or was cancelled.
    Unknown,
    Finished,
    Failed(String),
}

impl RunEncoder {
    pub(in crate::langgraph) fn new(run: Arc<RunFacts>) -> Self {
        Self {
            run,
            progress: Progress::default(),
            messages: OpenMessages::default(),
            subgraphs: Vec::new(),
            interrupts: HashSet::new(),
            outcome: Outcome::Unknown,
            held_values: None,
            last_at: SystemTime::UNIX_EPOCH,
        }
    }

    /// Encodes the next event of the run.
    pub(in crate::langgraph) fn encode(&mut self, item: &Arc<Item>) -> Vec<ProtocolEvent> {
        self.progress.add(item);
        self.last_at = item.at;
        let contents = match &item.body {
            Body::Started(_) => vec![self.root("running")],
            Body::Engine(event) => self.engine(event),
            Body::Interrupted { namespace, interrupts, .. } => {
                self.interrupted(&segments(namespace), interrupts)
            }
            Body::Message(message) => {
                let mut contents = self.start_subgraphs(&segments(&message.origin.namespace));
                contents.extend(self.messages.encode(message, &self.run, &self.progress));
                contents.extend(tools(message));
                contents
            }
            Body::MessageEnd(message) => tools(message),
            Body::Finished(_) => {
                self.outcome = Outcome::Finished;
                self.messages.finish_all()
            }
            Body::Failed(error) => {
                self.outcome = Outcome::Failed(error.message.clone());
                self.messages.finish_all()
            }
        };
        let contents = self.reorder(contents);
        let numbered = contents.into_iter().enumerate();
        let event = |(part, content)| ProtocolEvent {
            number: number(item.seq, part),
            at: item.at,
            content,
        };
        numbered.map(event).collect()
    }

    /// Moves a state behind the checkpoint that contains it.
    fn reorder(&mut self, contents: Vec<Content>) -> Vec<Content> {
        let mut ordered = Vec::new();
        for content in contents {
            let held = self.held_values.take();
            match content.method {
                "values" => {
                    ordered.extend(held);
                    self.held_values = Some(content);
                }
                "checkpoints" => {
                    ordered.push(content);
                    ordered.extend(held);
                }
                // The tasks of the next step can start before the checkpoint is stored.
                "tasks" => {
                    ordered.push(content);
                    self.held_values = held;
                }
                _ => {
                    ordered.extend(held);
                    ordered.push(content);
                }
            }
        }
        ordered
    }

    /// Encodes the end of the run. `last` is the number of its last buffered event.
    pub(in crate::langgraph) fn end(&mut self, last: u64) -> Vec<ProtocolEvent> {
        let event = match &self.outcome {
            Outcome::Failed(_) => "failed",
            Outcome::Finished if self.interrupts.is_empty() => "completed",
            Outcome::Finished | Outcome::Unknown => "interrupted",
        };
        let mut contents = self.messages.finish_all();
        let open = std::mem::take(&mut self.subgraphs);
        contents.extend(open.iter().rev().map(|it| lifecycle(it, event, None)));
        contents.push(self.root(event));
        let contents = self.reorder(contents);
        let first = last_number(last) + 1 - u64::try_from(contents.len()).unwrap_or_default();
        let at = self.last_at;
        let numbered = (first..).zip(contents);
        numbered.map(|(number, content)| ProtocolEvent { number, at, content }).collect()
    }

    /// Returns the event that reports a status of the top-level graph.
    fn root(&self, event: &str) -> Content {
        let mut data = json!({ "event": event, "graph_name": self.run.graph });
        if let Outcome::Failed(error) = &self.outcome {
            data["error"] = json!(error);
        }
        Content::new("lifecycle", &[], data)
    }

    fn engine(&mut self, event: &Event) -> Vec<Content> {
        let namespace = segments(&event.namespace);
        let node = event.node.as_deref().unwrap_or_default();
        let mut contents = self.start_subgraphs(&namespace);
        let content = |method, data| Content::new(method, &namespace, data);
        match &event.kind {
            EventKind::Values(values) => {
                contents.push(content("values", complete_fields(values.to_json())));
            }
            EventKind::Update { writes, .. } => {
                let data = json!({ "node": node, "values": update(writes) });
                contents.push(content("updates", data).of_node(node));
            }
            EventKind::Custom(payload) => {
                contents.push(content("custom", json!({ "payload": payload })).of_node(node));
            }
            EventKind::Checkpoint { id, parent, source, .. } => {
                let data = json!({
                    "id": wire_id(id),
                    "parent_id": parent.map(wire_id),
                    "step": event.step,
                    "source": source.as_str(),
                });
                contents.push(content("checkpoints", data));
            }
            EventKind::TaskStarted { .. } => {
                contents.extend(task(event, &self.run).map(|(_, data)| content("tasks", data)));
            }
            EventKind::TaskFinished { error, interrupts, .. } => {
                let id = event.task.map(wire_id).unwrap_or_default();
                contents.extend(self.messages.finish_task(&id));
                let end = match error {
                    _ if !interrupts.is_empty() => "interrupted",
                    Some(_) => "failed",
                    None => "completed",
                };
                contents.extend(self.end_subgraphs(&namespace, node, &id, end, error.as_deref()));
                contents.extend(task(event, &self.run).map(|(_, data)| content("tasks", data)));
            }
            _ => {}
        }
        contents
    }

    fn interrupted(&mut self, namespace: &[String], interrupts: &[Interrupt]) -> Vec<Content> {
        let mut contents = self.start_subgraphs(namespace);
        for interrupt in interrupts {
            if self.interrupts.insert(interrupt.id.to_string()) {
                let (id, value) = (&interrupt.id, &interrupt.value);
                // The Python client reads `value`, the JavaScript client reads `payload`.
                let data = json!({ "interrupt_id": id, "payload": value, "value": value });
                contents.push(Content::new("input.requested", namespace, data));
            }
        }
        contents
    }

    /// Returns the start events of the subgraphs on the path `namespace` that have not been reported yet.
    fn start_subgraphs(&mut self, namespace: &[String]) -> Vec<Content> {
        let mut contents = Vec::new();
        for depth in 1..=namespace.len() {
            let path = &namespace[..depth];
            if !self.subgraphs.iter().any(|it| it == path) {
                self.subgraphs.push(path.to_vec());
                contents.push(lifecycle(path, "started", None));
            }
        }
        contents
    }

    /// Returns the end events of the subgraphs that a task has run.
    fn end_subgraphs(
        &mut self,
        namespace: &[String],
        node: &str,
        task: &str,
        event: &str,
        error: Option<&str>,
    ) -> Vec<Content> {
        let mut path = namespace.to_vec();
        path.push(format!("{node}:{task}"));
        let mut ended: Vec<_> = self.subgraphs.extract_if(.., |it| it.starts_with(&path)).collect();
        // Inner subgraphs end first.
        ended.reverse();
        ended.iter().map(|it| lifecycle(it, event, error)).collect()
    }
}

/// Returns the events of the tool calls that a message starts or ends.
fn tools(message: &MessageItem) -> Vec<Content> {
    let namespace = segments(&message.origin.namespace);
    let content = |data| Content::new("tools", &namespace, data).of_node(&message.origin.node);
    tool_events(message).iter().map(|it| content(it.to_protocol_json())).collect()
}

/// Returns the event that reports a status of a subgraph.
fn lifecycle(path: &[String], event: &str, error: Option<&str>) -> Content {
    let (name, task) = match path.last().and_then(|it| it.split_once(':')) {
        Some((name, task)) => (name, Some(task)),
        None => ("", None),
    };
    let mut data = json!({ "event": event, "graph_name": name });
    if event == "started" {
        data["trigger_call_id"] = task.map_or(Value::Null, |it| json!(it));
    }
    if let Some(error) = error.filter(|_| event == "failed") {
        data["error"] = json!(error);
    }
    Content::new("lifecycle", path, data)
}
