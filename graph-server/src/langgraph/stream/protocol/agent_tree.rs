//! The graphs of a run and their statuses.

use std::{
    collections::{BTreeMap, btree_map},
    iter::Peekable,
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    event::{Content, ProtocolEvent},
    run_encoder::RunEncoder,
};
use crate::langgraph::stream::{
    buffer::{BufferReader, EventBuffer},
    item::RunFacts,
};

/// The graph of a run and its subgraphs, with their statuses.
pub(in crate::langgraph) struct AgentTree {
    /// The graphs by namespace, so that each graph is followed by its subgraphs. The first is the top-level graph.
    graphs: BTreeMap<Vec<String>, GraphStatus>,
}

struct GraphStatus {
    name: String,
    /// The status in the latest lifecycle event of the graph.
    status: String,
}

impl AgentTree {
    /// Reads the statuses from the events of a run. `has_ended` states whether the buffer contains all events.
    pub(in crate::langgraph) fn new(
        run: &Arc<RunFacts>,
        buffer: &Arc<EventBuffer>,
        has_ended: bool,
    ) -> Self {
        let root = GraphStatus { name: run.graph.clone(), status: "started".to_owned() };
        let mut tree = Self { graphs: BTreeMap::from([(Vec::new(), root)]) };
        let mut encoder = RunEncoder::new(run.clone());
        for item in BufferReader::new(buffer.clone(), 0).available() {
            tree.apply(encoder.encode(&item));
        }
        if has_ended {
            tree.apply(encoder.end(buffer.last_seq()));
        }
        tree
    }

    fn apply(&mut self, events: Vec<ProtocolEvent>) {
        let contents = events.into_iter().map(|it| it.content);
        for Content { namespace, data, .. } in contents.filter(|it| it.method == "lifecycle") {
            let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
            let graph = GraphStatus { name: text("graph_name"), status: text("event") };
            self.graphs.insert(namespace, graph);
        }
    }

    /// Encodes the tree.
    pub(in crate::langgraph) fn to_json(&self) -> Value {
        subtree(&mut self.graphs.iter().peekable())
    }

    /// Encodes the statuses of the graphs as a list.
    pub(in crate::langgraph) fn statuses(&self) -> Value {
        let status = |(namespace, graph): (&Vec<String>, &GraphStatus)| json!({ "namespace": namespace, "status": graph.status });
        self.graphs.iter().map(status).collect()
    }
}

/// Encodes the next graph and its subgraphs.
fn subtree(rest: &mut Peekable<btree_map::Iter<'_, Vec<String>, GraphStatus>>) -> Value {
    let Some((namespace, graph)) = rest.next() else { return Value::Null };
    let mut encoded =
        json!({ "namespace": namespace, "status": graph.status, "graph_name": graph.name });
    let mut children = Vec::new();
    while rest.peek().is_some_and(|(it, _)| it.starts_with(namespace)) {
        children.push(subtree(rest));
    }
    if !children.is_empty() {
        encoded["children"] = Value::Array(children);
    }
    encoded
}
