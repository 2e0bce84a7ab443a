//! JSON Schemas of graphs.

use std::collections::BTreeMap;

use serde_json::Value;

/// JSON Schemas of a graph, for clients that render input forms and for programs that call the graph as a tool. A
/// missing schema is shown as `null`.
///
/// ```
/// use graph_server::langgraph::Schemas;
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"topic": {"type": "string"}}});
/// let schemas = Schemas::of_state(schema.clone());
/// assert_eq!(schemas.input, Some(schema));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Schemas {
    /// Schema of a run's input.
    pub input: Option<Value>,
    /// Schema of a run's output.
    pub output: Option<Value>,
    /// Schema of the state.
    pub state: Option<Value>,
    /// Schema of a run's context.
    pub context: Option<Value>,
    /// Schemas of the subgraphs, by namespace: the name of the node, and for nested subgraphs the names of all nodes
    /// on the path, joined with `|`.
    pub subgraphs: BTreeMap<String, Self>,
}

impl Schemas {
    /// Creates schemas for a graph whose input and output are its whole state.
    pub fn of_state(state: Value) -> Self {
        Self {
            input: Some(state.clone()),
            output: Some(state.clone()),
            state: Some(state),
            context: None,
            subgraphs: BTreeMap::new(),
        }
    }

    /// Sets the schema of the context.
    #[must_use]
    pub fn with_context(mut self, context: Value) -> Self {
        self.context = Some(context);
        self
    }

    /// Sets the schemas of the subgraph with this namespace.
    #[must_use]
    pub fn with_subgraph(mut self, namespace: impl Into<String>, schemas: Self) -> Self {
        self.subgraphs.insert(namespace.into(), schemas);
        self
    }
}
