//! Namespaces, which identify the subgraphs of a run in its thread.

use serde::{Deserialize, Serialize};

/// How the state of a subgraph is persisted.
///
/// ```
/// use graph_core::{MemorySaver, Persistence, START, State, StateGraph, subgraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Counter {
///     #[reduce(add)]
///     count: u32,
/// }
///
/// async fn count(_: &Counter) -> CounterUpdate {
///     Counter::update().count(1)
/// }
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Page {
///     visits: u32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counter = StateGraph::<Counter>::new().node(count).edge(START, count).compile()?;
/// let node = subgraph(
///     "counter",
///     &counter,
///     |_: &Page| Counter::update(),
///     |counter| Page::update().visits(counter.count),
/// );
/// let node = node.persistence(Persistence::Thread);
/// let graph = StateGraph::<Page>::new()
///     .edge(START, &node)
///     .node(node)
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let thread = graph.thread("home", ());
/// thread.run(Page::update()).await?;
/// assert_eq!(thread.run(Page::update()).await?.state().visits, 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl Persistence {
    /// Returns the namespace of a subgraph that a task with this namespace runs.
    pub(crate) fn namespace(self, task: String) -> String {
        match self {
            Self::Thread => without_task_ids(&task),
            Self::Invocation | Self::None => task,
        }
    }
}

/// Returns the namespace `inner` within the namespace `outer`.
pub(crate) fn nested_namespace(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}|{inner}") }
}

/// Returns whether `namespace` belongs to the subgraph with namespace `own`: it is the namespace of the subgraph
/// itself, or that of a graph inside it.
pub(crate) fn belongs_to(namespace: &str, own: &str) -> bool {
    let is_inside = |outer: &str| {
        let inner = namespace.strip_prefix(outer).and_then(|it| it.strip_prefix('|'));
        inner.is_some_and(|it| !it.split('|').next().is_none_or(is_number))
    };
    // Graphs with thread persistence have namespaces without task ids.
    namespace == own || is_inside(own) || is_inside(&without_task_ids(own))
}

/// Returns whether a part of a namespace is a number, not a node. The second and later subgraphs that a task runs have
/// numbers from 1 on: `write:1f3a|1`.
pub(crate) fn is_number(part: &str) -> bool {
    !part.is_empty() && !part.starts_with('0') && part.bytes().all(|it| it.is_ascii_digit())
}

/// Returns the number of a subgraph with its separator, or an empty string for the first subgraph of a task. `first` is
/// the namespace of that first subgraph. Returns `None` if another task runs the subgraph.
pub(crate) fn number_of<'a>(namespace: &'a str, first: &str) -> Option<&'a str> {
    let number = namespace.strip_prefix(first)?;
    (number.is_empty() || number.strip_prefix('|').is_some_and(is_number)).then_some(number)
}

/// Strips the task ids from a namespace: `write:1f3a|review:77c0` becomes `write|review`.
pub(crate) fn without_task_ids(namespace: &str) -> String {
    let parts = namespace.split('|').map(|it| it.split(':').next().unwrap_or(it));
    parts.collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::{belongs_to, number_of};

    #[test]
    fn later_subgraphs_of_a_task_have_numbers() {
        let number = |namespace| number_of(namespace, "debate:1f");
        assert_eq!((number("debate:1f"), number("debate:1f|12")), (Some(""), Some("|12")));
        assert_eq!(
            (number("debate:1f|turn"), number("debate:1f2"), number("x")),
            (None, None, None)
        );
    }

    #[test]
    fn namespace_contains_itself_and_graphs_inside_it() {
        let own = "debate:1f|2";
        for inside in [own, "debate:1f|2|turn:3a", "debate:1f|2|turn:3a|1", "debate|2|turn"] {
            assert!(belongs_to(inside, own), "{inside}");
        }
        for outside in [
            "", "debate:1f", "debate:1f|3", "debate:1f|2|1", "debate:1f|22", "debate",
            "x|debate:1f|2",
        ] {
            assert!(!belongs_to(outside, own), "{outside}");
        }
    }
}
