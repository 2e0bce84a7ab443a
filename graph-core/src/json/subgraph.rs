//! Subgraphs of dynamic graphs.

use crate::{
    context::task::TaskContext,
    engine::input::RunInput,
    error::NodeError,
    json::{
        input::json_input,
        node::JsonReturn,
        state::{JsonState, JsonStateSchema, JsonUpdate},
    },
    namespace::Persistence,
    node::erased::{Private, TaskInput},
    state::erased::{AnyState, downcast_state},
    subgraph::{SubgraphNode, SubgraphSource},
};

/// Creates a node that runs a graph with a JSON state. Fields are passed in and out by name.
///
/// The output of the subgraph is an update of the parent's state, so the parent's reducers apply to it.
///
/// ```
/// use graph_core::{
///     JsonFieldKind, JsonStateSchema, Persistence, START,
///     json::json_subgraph,
///     json_node,
/// };
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = JsonStateSchema::new([("topic", JsonFieldKind::Last), ("text", JsonFieldKind::Last)])?;
/// let writer = schema
///     .graph()
///     .node(json_node("write", |input, _| async move {
///         let topic = input.get("topic").and_then(|it| it.as_str()).unwrap_or_default();
///         Ok(json!({ "text": format!("On {topic}") }))
///     }))
///     .edge(START, "write")
///     .compile()?;
/// let graph = schema
///     .graph()
///     .node(json_subgraph("writer", &writer, Persistence::default()))
///     .edge(START, "writer")
///     .compile()?;
/// let output = graph.invoke(schema.input(json!({ "topic": "tea" }))?, ()).await?;
/// assert_eq!(output.get("text"), Some(&json!("On tea")));
/// # Ok(()) }
/// ```
pub fn json_subgraph<C: Send + Sync + 'static>(
    name: impl Into<String>,
    graph: &impl SubgraphSource<C, State = JsonState>,
    persistence: Persistence,
) -> SubgraphNode<JsonState, C> {
    let graph = graph.subgraph(Private(()));
    let child = JsonStateSchema::of(&graph.graph.initial.snapshot());
    let input = move |input: TaskInput, cx: &TaskContext| {
        let value = json_input(&input, None, cx).map(|it| it.to_value()).unwrap_or_default();
        let mut update = JsonUpdate::from_value(&child, value).map_err(NodeError::terminal)?;
        update.writes.retain(|write| child.inner.fields[write.field].input);
        Ok(RunInput::Fresh(Box::new(update)))
    };
    let output = |state: AnyState, cx: &TaskContext| {
        let state: JsonState = downcast_state(state);
        JsonReturn::Value(state.to_value())
            .into_node_output(&JsonStateSchema::of(&cx.scope.initial))
    };
    let input_json =
        |input: &TaskInput, cx: &TaskContext| json_input(input, None, cx).map(|it| it.to_value());
    SubgraphNode::erased(name.into(), graph, input, output, input_json).persistence(persistence)
}
