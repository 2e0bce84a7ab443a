//! The graph builder.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use crate::{
    cache::Cache,
    checkpoint::saver::Checkpointer,
    graph::{
        branch::IntoRouter,
        build_error::BuildError,
        compiled::CompiledGraph,
        declaration::Declaration,
        endpoint::{Source, Sources, Target},
        into_node::{IntoNode, NodeShape},
        stops::Stops,
        validate,
    },
    label::{END_NAME, Label, START_NAME},
    node::erased::Private,
    policy::RetryPolicy,
    shared::IntoShared,
    state::{State, erased::TypedState, migrate::Migrations},
    store::interface::Store,
};

/// Default limit on the size of a stored value, in bytes.
const MAX_STORED_BYTES: usize = 256 << 20;

/// Builder of a graph whose nodes share a state of type `S`.
///
/// `C` is the type of the dependencies that a run passes to its nodes: see [`Context::deps`](crate::Context::deps).
///
/// ```
/// use graph_core::{END, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     #[reduce(append)]
///     drafts: Vec<String>,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().drafts([format!("On {}", essay.topic)])
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).edge(write, END).compile()?;
/// let essay = graph.invoke(Essay { topic: "rust".into(), ..Default::default() }, ()).await?;
/// assert_eq!(essay.drafts, ["On rust"]);
/// # Ok(()) }
/// ```
#[must_use]
pub struct StateGraph<S, C = ()> {
    declaration: Declaration,
    types: PhantomData<fn(S, C)>,
}

impl<S: State + Default, C: Send + Sync + 'static> StateGraph<S, C> {
    /// Creates an empty graph with `S::default()` as initial state.
    pub fn new() -> Self {
        Self::with_initial_state(S::default())
    }
}

impl<S: State + Default, C: Send + Sync + 'static> Default for StateGraph<S, C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: State, C: Send + Sync + 'static> StateGraph<S, C> {
    /// Creates an empty graph with the given initial state.
    pub fn with_initial_state(initial: S) -> Self {
        let declaration = Declaration {
            name: "graph".to_owned(),
            initial: Box::new(TypedState(Arc::new(initial))),
            nodes: Vec::new(),
            edges: Vec::new(),
            joins: Vec::new(),
            branches: Vec::new(),
            stop_before: Stops::None,
            stop_after: Stops::None,
            checkpointer: None,
            store: None,
            cache: None,
            step_timeout: None,
            max_stored_bytes: MAX_STORED_BYTES,
            default_retry: None,
            default_timeout: None,
            migrations: Migrations::new(),
            eager: false,
        };
        Self { declaration, types: PhantomData }
    }

    /// Sets the name of the graph, which appears in error messages and tracing spans and is part of cache keys.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.declaration.name = name.into();
        self
    }

    /// Adds a node, named after its function.
    pub fn node<M, N>(mut self, node: N) -> Self
    where
        N: NodeShape<S, C, M, Checked = N>,
        N::Checked: IntoNode<S, C, M>,
    {
        self.declaration.nodes.push(node.into_node(Private(())));
        self
    }

    /// Adds a node with the given name. Use this method for closures and for functions that share a name.
    pub fn node_as<M, N>(mut self, name: impl Into<Label>, node: N) -> Self
    where
        N: NodeShape<S, C, M, Checked = N>,
        N::Checked: IntoNode<S, C, M>,
    {
        let mut parts = node.into_node(Private(()));
        parts.label = Some(name.into());
        self.declaration.nodes.push(parts);
        self
    }

    /// Adds an edge: `to` runs in the step after `from`.
    pub fn edge<M1, M2>(mut self, from: impl Source<S, C, M1>, to: impl Target<S, C, M2>) -> Self {
        self.declaration.edges.push((from.source(), to.target()));
        self
    }

    /// Adds a join: `to` runs once all sources have run since the join last fired.
    pub fn join<M1, M2>(mut self, from: impl Sources<S, C, M1>, to: impl Target<S, C, M2>) -> Self {
        self.declaration.joins.push((from.sources(), to.target()));
        self
    }

    /// Adds edges from START through the nodes, in order, to END.
    pub fn sequence<M>(self, nodes: impl Sources<S, C, M>) -> Self {
        let names = nodes.sources();
        let mut path = vec![Label::from(START_NAME)];
        path.extend(names);
        path.push(Label::from(END_NAME));
        let edges = path.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        let mut graph = self;
        graph.declaration.edges.extend(edges);
        graph
    }

    /// Adds a conditional edge: after `from`, `route` chooses the nodes to run next.
    ///
    /// `route` sees the state with the writes of `from`, but without the writes of nodes that ran concurrently.
    ///
    /// An async branch runs as part of the task of `from`, within the node's timeouts and retries. Its choice is
    /// recorded with the task's result, so a run that resumes from the record does not call the branch again.
    ///
    /// ```
    /// use graph_core::{Context, END, NodeError, Route, START, State, StateGraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Ticket {
    ///     text: String,
    ///     reply: String,
    /// }
    ///
    /// struct Classifier;
    ///
    /// impl Classifier {
    ///     async fn is_question(&self, text: &str) -> Result<bool, std::io::Error> {
    ///         Ok(text.ends_with('?'))
    ///     }
    /// }
    ///
    /// async fn answer(_: &Ticket) -> TicketUpdate {
    ///     Ticket::update().reply("Yes.")
    /// }
    ///
    /// #[derive(Route)]
    /// enum Kind {
    ///     #[to(answer)]
    ///     Question,
    ///     #[to(END)]
    ///     Remark,
    /// }
    ///
    /// async fn classify(ticket: &Ticket, cx: &Context<Classifier>) -> Result<Kind, NodeError> {
    ///     Ok(if cx.deps().is_question(&ticket.text).await? { Kind::Question } else { Kind::Remark })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Ticket, Classifier>::new().node(answer).branch(START, classify).compile()?;
    /// let ticket = Ticket { text: "Is it open?".into(), ..Default::default() };
    /// assert_eq!(graph.invoke(ticket, Classifier).await?.reply, "Yes.");
    /// # Ok(()) }
    /// ```
    pub fn branch<M1, M2>(
        mut self,
        from: impl Source<S, C, M1>,
        route: impl IntoRouter<S, C, M2>,
    ) -> Self {
        self.declaration.branches.push((from.source(), route.into_router(Private(()))));
        self
    }

    /// Sets the checkpointer that stores the graph's threads: a value, an `Arc` of it, or an `Arc<dyn Checkpointer>`.
    pub fn checkpointer<M>(mut self, checkpointer: impl IntoShared<dyn Checkpointer, M>) -> Self {
        self.declaration.checkpointer = Some(checkpointer.into_shared());
        self
    }

    /// Like [`checkpointer`](Self::checkpointer), with a parameter type that helps type inference.
    pub fn shared_checkpointer(self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.checkpointer(checkpointer)
    }

    /// Sets the long-term store. Nodes access it with [`Context::store`](crate::Context::store).
    ///
    /// Accepts a value, an `Arc` of it, or an `Arc<dyn Store>`.
    pub fn store<M>(mut self, store: impl IntoShared<dyn Store, M>) -> Self {
        self.declaration.store = Some(store.into_shared());
        self
    }

    /// Sets the cache for nodes with a [`CachePolicy`](crate::CachePolicy): a value, an `Arc` of it, or an
    /// `Arc<dyn Cache>`.
    pub fn cache<M>(mut self, cache: impl IntoShared<dyn Cache, M>) -> Self {
        self.declaration.cache = Some(cache.into_shared());
        self
    }

    /// Stops runs before these nodes, like LangGraph's `interrupt_before`.
    pub fn stop_before(mut self, stops: Stops) -> Self {
        self.declaration.stop_before = stops;
        self
    }

    /// Stops runs after these nodes, like LangGraph's `interrupt_after`.
    pub fn stop_after(mut self, stops: Stops) -> Self {
        self.declaration.stop_after = stops;
        self
    }

    /// Fails a run if one of its steps takes longer than `limit`.
    pub fn step_timeout(mut self, limit: Duration) -> Self {
        self.declaration.step_timeout = Some(limit);
        self
    }

    /// Sets the maximum size of a checkpointed value, in bytes. A task that produces a larger value fails. The
    /// default is 256 MiB. With [`Durability::Exit`](crate::Durability::Exit), the results of completed steps are not
    /// stored individually and may be larger.
    pub fn max_stored_bytes(mut self, bytes: usize) -> Self {
        self.declaration.max_stored_bytes = bytes;
        self
    }

    /// Sets the default retry policy, which applies to nodes that set none themselves.
    pub fn default_retry(mut self, retry: impl Into<RetryPolicy>) -> Self {
        self.declaration.default_retry = Some(retry.into());
        self
    }

    /// Sets the default timeout, which applies to nodes that set none themselves.
    pub fn default_timeout(mut self, limit: Duration) -> Self {
        self.declaration.default_timeout = Some(limit);
        self
    }

    /// Sets the migrations for threads that were stored with older versions of the state.
    pub fn migrations(mut self, migrations: Migrations) -> Self {
        self.declaration.migrations = migrations;
        self
    }

    /// Lets branches that do not use each other's fields run ahead of each other.
    ///
    /// By default, the tasks of a step start when all tasks of the previous step are done. In an eager graph, a task
    /// starts as soon as the tasks that lead to it are done and no unfinished task can still write a field that it
    /// reads. Steps are committed in order, so the result and the checkpoints of a run do not change.
    ///
    /// Nodes run ahead if they declare their fields with [`NodeExt::reads`](crate::NodeExt::reads), or if they take
    /// only a payload and have no branches. An unfinished task delays fewer nodes if its own node declares its writes
    /// with [`NodeExt::writes`](crate::NodeExt::writes). A node fails if it writes a field that it does not declare.
    ///
    /// The external effects of a task that ran ahead are not undone if an earlier step fails.
    ///
    /// ```
    /// use graph_core::{END, NodeExt, START, State, StateGraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Trip {
    ///     city: String,
    ///     hotel: String,
    ///     flight: String,
    /// }
    ///
    /// async fn book_hotel(trip: &Trip) -> TripUpdate {
    ///     Trip::update().hotel(format!("hotel in {}", trip.city))
    /// }
    ///
    /// async fn book_flight(trip: &Trip) -> TripUpdate {
    ///     Trip::update().flight(format!("flight to {}", trip.city))
    /// }
    ///
    /// async fn confirm_flight(trip: &Trip) -> TripUpdate {
    ///     Trip::update().flight(format!("confirmed {}", trip.flight))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Trip>::new()
    ///     .node(book_hotel.reads(["city"]).writes(["hotel"]))
    ///     .node(book_flight.reads(["city"]).writes(["flight"]))
    ///     // Does not wait for `book_hotel`.
    ///     .node(confirm_flight.reads(["flight"]).writes(["flight"]))
    ///     .edge(START, book_hotel)
    ///     .edge(START, book_flight)
    ///     .edge(book_flight, confirm_flight)
    ///     .edge(confirm_flight, END)
    ///     .eager()
    ///     .compile()?;
    /// let trip = graph.invoke(Trip { city: "Bern".into(), ..Default::default() }, ()).await?;
    /// assert_eq!(trip.flight, "confirmed flight to Bern");
    /// # Ok(()) }
    /// ```
    pub fn eager(mut self) -> Self {
        self.declaration.eager = true;
        self
    }

    /// Validates the graph and makes it runnable.
    ///
    /// The error lists all problems, such as edges to missing nodes. If there is no other problem, it lists the nodes
    /// that no path leads to. Likely mistakes that do not prevent a run are available as [`CompiledGraph::warnings`].
    /// With the feature `tracing`, they are also logged.
    pub fn compile(self) -> Result<CompiledGraph<S, C>, BuildError> {
        let graph = validate::compile(self.declaration)?;
        Ok(CompiledGraph::new(Arc::new(graph)))
    }
}

impl<S: State, C> fmt::Debug for StateGraph<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateGraph")
            .field("name", &self.declaration.name)
            .field("nodes", &self.declaration.nodes)
            .field("edges", &self.declaration.edges)
            .field("joins", &self.declaration.joins)
            .field("branches", &self.declaration.branches)
            .finish_non_exhaustive()
    }
}
