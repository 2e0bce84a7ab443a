//! Versions of graphs, as runs, tasks and workers store them.

/// The versions of runs that a worker claims, as columns: a run of `graphs[i]` with the version `versions[i]`, or without
/// a version if the run has not started, gets the version `targets[i]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedVersions {
    pub(crate) graphs: Vec<String>,
    pub(crate) versions: Vec<Option<String>>,
    pub(crate) targets: Vec<String>,
}

impl ServedVersions {
    /// Returns names of the versions as the status of the cluster compares them: the name of the graph for runs that have
    /// not started, and otherwise `graph@version`.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |(graph, version): (&String, &Option<String>)| match version {
            None => graph.clone(),
            Some(version) => format!("{graph}@{version}"),
        };
        self.graphs.iter().zip(&self.versions).map(name).collect()
    }
}

/// Returns the key of a graph with a version: `graph@version`, or only the name if the version is empty.
pub(crate) fn graph_key(graph: &str, version: &str) -> String {
    if version.is_empty() { graph.to_owned() } else { format!("{graph}@{version}") }
}
