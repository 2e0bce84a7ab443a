//! Versions of graphs, as runs, tasks and workers store them.

/// The versions of runs that a worker claims, as columns. A run of `graphs[i]` with the version `versions[i]` is
/// executed with the version `targets[i]`. A run that has not started has no version, so its `versions[i]` is `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedVersions {
    pub(crate) graphs: Vec<String>,
    pub(crate) versions: Vec<Option<String>>,
    pub(crate) targets: Vec<String>,
}

impl ServedVersions {
    /// Returns the names by which the status of the cluster identifies these versions: `graph` for runs that have not
    /// started, and `graph@version` for all others.
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
