//! Namespaces, which identify the subgraphs of a run in its thread.

/// How the state of a subgraph is persisted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Each invocation has its own state and history. It starts from the initial state, and resumes from its last
    /// checkpoint after an interrupt or a failure.
    #[default]
    Invocation,
    /// All invocations within a thread share one state and history.
    Thread,
    /// The subgraph is not checkpointed. After an interrupt, it starts over, so it can interrupt at most once.
    None,
}

/// Returns the namespace `inner` within the namespace `outer`.
pub(crate) fn nested_namespace(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}|{inner}") }
}

/// Strips the task ids from a namespace: `write:1f3a|review:77c0` becomes `write|review`.
pub(crate) fn without_task_ids(namespace: &str) -> String {
    let parts = namespace.split('|').map(|it| it.split(':').next().unwrap_or(it));
    parts.collect::<Vec<_>>().join("|")
}
