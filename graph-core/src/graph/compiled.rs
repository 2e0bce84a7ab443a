//! The typed handle to a compiled graph.

use std::{fmt, marker::PhantomData, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    graph::{
        build_error::BuildProblem,
        erased::{Graph, NodeEntry},
        run_options::RunOptions,
    },
    state::{
        State,
        field::{Field, FieldError},
    },
};

/// A validated graph that can be run. Cheap to clone.
///
/// ```
/// use graph_core::{CompiledGraph, START, State, StateGraph};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Count {
/// #     #[reduce(add)]
/// #     value: u32,
/// # }
/// # async fn increment(_: &Count) -> CountUpdate {
/// #     Count::update().value(1)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph: CompiledGraph<Count> =
///     StateGraph::new().node(increment).edge(START, increment).compile()?;
/// assert_eq!(graph.invoke(Count::default(), ()).await?.value, 1);
/// # Ok(()) }
/// ```
pub struct CompiledGraph<S: State, C = ()> {
    graph: Arc<Graph>,
    options: RunOptions,
    types: PhantomData<fn(S, C) -> S>,
}

impl<S: State, C> Clone for CompiledGraph<S, C> {
    fn clone(&self) -> Self {
        Self { graph: self.graph.clone(), options: self.options.clone(), types: PhantomData }
    }
}

impl<S: State, C> fmt::Debug for CompiledGraph<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph.fmt(f)
    }
}

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    pub(crate) fn new(graph: Arc<Graph>) -> Self {
        Self { graph, options: RunOptions::new(), types: PhantomData }
    }

    pub(crate) fn erased(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns the graph with options for all of its runs. They replace earlier options.
    ///
    /// ```
    /// use graph_core::{RunOptions, START, State, StateGraph};
    ///
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Essay { topic: String }
    /// # async fn write(_: &Essay) -> EssayUpdate { Essay::update().topic("tea") }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let graph = graph.with(RunOptions::new().step_limit(50).metadata("customer", "ada"));
    /// // `invoke` returns the final state, `run` the outcome, `stream` the events, all with these options.
    /// assert_eq!(graph.invoke(Essay::default(), ()).await?.topic, "tea");
    /// # Ok(()) }
    /// ```
    ///
    /// A [run id](RunOptions::run_id) and a [control](RunOptions::control) apply to all runs as well, so set them for
    /// a single run: `graph.with(options).run(input, deps)`.
    #[must_use]
    pub fn with(&self, options: RunOptions) -> Self {
        Self { options, ..self.clone() }
    }

    pub(crate) fn options(&self) -> &RunOptions {
        &self.options
    }

    /// Returns likely mistakes that do not prevent the graph from running, such as joins that never fire.
    pub fn warnings(&self) -> &[BuildProblem] {
        &self.graph.warnings
    }

    /// Returns the name of the graph: see [`StateGraph::name`](crate::StateGraph::name).
    pub fn name(&self) -> &str {
        &self.graph.name
    }

    /// Returns the names of the nodes, sorted.
    pub fn nodes(&self) -> Vec<String> {
        self.graph.node_names()
    }

    /// Returns the nodes that are bound to a pool but cannot leave the process of their run, as paths such as
    /// `subgraph/node`: see [`RunOptions::task_runner`].
    pub fn immovable_pool_nodes(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (index, node) in (0..).zip(&self.graph.nodes) {
            if node.options.pool.is_some() && !self.graph.is_movable(index) {
                found.push(node.label.to_string());
            }
            add_pool_nodes(node, node.label.as_str(), &mut found);
        }
        found
    }

    /// Returns the fields of the state.
    pub fn fields(&self) -> &[Field] {
        self.graph.initial.fields()
    }

    /// Converts JSON fields into an update, for input that arrives as JSON.
    ///
    /// ```
    /// # use graph_core::{Input, START, State, StateGraph};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Essay { topic: String }
    /// # async fn write(_: &Essay) -> EssayUpdate { Essay::update() }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let fields = serde_json::json!({ "topic": "tea" });
    /// let update = graph.update_from_json(fields.as_object().cloned().unwrap_or_default())?;
    /// let essay = graph.invoke(Input::update(update), ()).await?;
    /// assert_eq!(essay.topic, "tea");
    /// # Ok(()) }
    /// ```
    pub fn update_from_json(&self, fields: Map<String, Value>) -> Result<S::Update, FieldError> {
        let update = self.graph.update_from_json(fields)?;
        Ok(*update
            .downcast()
            .expect("an update created from the initial state has the type `S::Update`"))
    }
}

/// Adds the nodes inside a subgraph that are bound to a pool.
fn add_pool_nodes(subgraph: &NodeEntry, path: &str, found: &mut Vec<String>) {
    for node in subgraph.inner_nodes() {
        let path = format!("{path}/{}", node.label);
        add_pool_nodes(node, &path, found);
        if node.options.pool.is_some() {
            found.push(path);
        }
    }
}
