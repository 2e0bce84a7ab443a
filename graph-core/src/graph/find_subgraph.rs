//! Finds the subgraphs of a graph by their namespaces.

use std::sync::Arc;

use crate::{
    error::RunError,
    graph::erased::Graph,
    namespace::{is_number, nested_namespace},
};

/// A subgraph of a thread, at any depth.
#[derive(Clone, Debug)]
pub(crate) struct FoundSubgraph {
    pub(crate) graph: Arc<Graph>,
    /// The namespace under which the checkpoints of the subgraph are stored.
    pub(crate) namespace: String,
}

impl Graph {
    /// Finds the subgraph with this namespace. Task ids of subgraphs with thread persistence are ignored, because all
    /// tasks share one namespace.
    pub(crate) fn find_subgraph(&self, namespace: &str) -> Result<FoundSubgraph, RunError> {
        self.descend(namespace).ok_or_else(|| {
            let mut subgraphs = Vec::new();
            self.add_subgraphs("", &mut subgraphs);
            let graph = self.name.clone();
            RunError::UnknownSubgraph { namespace: namespace.to_owned(), graph, subgraphs }
        })
    }

    fn descend(&self, namespace: &str) -> Option<FoundSubgraph> {
        let mut found: Option<FoundSubgraph> = None;
        let mut may_repeat = false;
        for part in namespace.split('|') {
            let (graph, outer) = match &found {
                None => (self, ""),
                Some(it) => (&*it.graph, it.namespace.as_str()),
            };
            let name = part.split(':').next().unwrap_or(part);
            let inner = graph.find(name).and_then(|it| graph.node(it).subgraph.as_ref());
            let Some(inner) = inner else {
                // The part is the number of a later run of the same graph by the same task.
                let is_run = may_repeat && is_number(part);
                let found = found.as_mut().filter(|_| is_run)?;
                found.namespace = nested_namespace(&found.namespace, part);
                may_repeat = false;
                continue;
            };
            may_repeat = inner.may_repeat;
            let namespace = inner.persistence.namespace(nested_namespace(outer, part));
            found = Some(FoundSubgraph { graph: inner.graph.clone(), namespace });
        }
        found
    }

    /// Adds the paths of all subgraphs, such as `write|review`.
    fn add_subgraphs(&self, outer: &str, found: &mut Vec<String>) {
        for entry in &self.nodes {
            if let Some(inner) = &entry.subgraph {
                let path = nested_namespace(outer, entry.label.as_str());
                found.push(path.clone());
                inner.graph.add_subgraphs(&path, found);
            }
        }
    }
}
