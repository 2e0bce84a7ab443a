//! Data for a run that starts from a checkpoint of a subgraph.

use std::{collections::BTreeMap, sync::Mutex};

use crate::{
    checkpoint::{
        id::CheckpointId,
        stored::{Checkpoint, CheckpointKey},
    },
    sync::lock,
};

/// The subgraph checkpoint from which a run starts, and the checkpoints of the enclosing subgraphs.
///
/// Task ids, and with them namespaces, change when a graph continues from an older checkpoint. Each enclosing graph
/// therefore determines the namespace under which it runs the next subgraph on the path.
#[derive(Debug)]
pub(crate) struct SubgraphStart {
    /// Namespaces and checkpoints, as stored, outermost first. The top-level graph is not included.
    path: Vec<(String, CheckpointId)>,
    /// Namespace under which the run enters the next subgraph of the path, and the index of the subgraph.
    // A std mutex, because it is held briefly and never across an await.
    next: Mutex<Option<(String, usize)>>,
}

impl SubgraphStart {
    /// Creates the data for a run that starts from this checkpoint, and returns it with the checkpoint of the top-level
    /// graph. Returns `None` if the top-level graph had no checkpoint.
    pub(crate) fn new(checkpoint: &Checkpoint) -> Option<(Self, CheckpointId)> {
        let mut enclosing: BTreeMap<_, _> = checkpoint.header.parents.clone();
        let top_level = enclosing.remove("")?;
        enclosing.insert(checkpoint.key.namespace.clone(), checkpoint.key.id);
        let mut path: Vec<_> = enclosing.into_iter().collect();
        path.sort_by_key(|(namespace, _)| namespace.matches('|').count());
        Some((Self { path, next: Mutex::new(None) }, top_level))
    }

    /// Returns the subgraph that the graph at this checkpoint runs: its namespace and checkpoint, as stored, and its
    /// index.
    pub(crate) fn inside(&self, key: &CheckpointKey) -> Option<(&str, CheckpointId, usize)> {
        let index = match key.namespace.is_empty() {
            true => 0,
            false => 1 + self.path.iter().position(|it| it.0 == key.namespace && it.1 == key.id)?,
        };
        self.path.get(index).map(|(namespace, id)| (namespace.as_str(), *id, index))
    }

    /// Sets the namespace under which the run enters the subgraph with this index.
    pub(crate) fn set_next(&self, namespace: String, index: usize) {
        *lock(&self.next) = Some((namespace, index));
    }

    /// Returns the stored namespace and the checkpoint for a subgraph that the run enters. Returns `None` for subgraphs
    /// that are not on the path, and for later invocations.
    pub(crate) fn enter(&self, namespace: &str) -> Option<(&str, CheckpointId)> {
        self.enter_path(namespace).first().map(|(namespace, id)| (namespace.as_str(), *id))
    }

    /// Like [`enter`](Self::enter), but returns the whole path from the entered subgraph inwards. It is empty where
    /// `enter` returns `None`.
    pub(crate) fn enter_path(&self, namespace: &str) -> &[(String, CheckpointId)] {
        let entered = lock(&self.next).take_if(|(next, _)| next == namespace);
        entered.and_then(|(_, index)| self.path.get(index..)).unwrap_or_default()
    }

    /// Creates the data for a subgraph that runs in a different process from the enclosing graphs, from its
    /// [path](Self::enter_path) and the namespace under which the run enters it. Returns `None` if the path is empty.
    pub(crate) fn from_path(path: Vec<(String, CheckpointId)>, namespace: &str) -> Option<Self> {
        let next = Some((namespace.to_owned(), 0));
        (!path.is_empty()).then(|| Self { path, next: Mutex::new(next) })
    }
}
