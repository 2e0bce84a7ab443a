//! Named nodes. Edges refer to such a node by a value, so the compiler checks edges to closures.

use crate::{
    command::target::{AcceptsPayload, RunsOnState},
    label::Label,
    node::options::ConfiguredNode,
};

/// A node with a name: see [`named`].
#[derive(Clone, Debug)]
pub struct Named<N> {
    pub(crate) name: Label,
    pub(crate) node: N,
}

/// Gives a name to a node. Pass the result to `node`, `edge`, `goto` and `send` to refer to the node.
///
/// A function is referred to by its path. A closure has none, so edges to it would otherwise need its name as a string,
/// which the compiler cannot check.
///
/// ```
/// use graph_core::{START, State, StateGraph, named};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let prefix = "All about ".to_owned();
/// let write = named("write", async move |essay: &Essay| {
///     Essay::update().text(format!("{prefix}{}", essay.topic))
/// });
/// let graph = StateGraph::<Essay>::new().node(&write).edge(START, &write).compile()?;
/// let essay = graph.invoke(Essay { topic: "tea".into(), ..Default::default() }, ()).await?;
/// assert_eq!(essay.text, "All about tea");
/// # Ok(()) }
/// ```
pub fn named<N>(name: impl Into<Label>, node: N) -> Named<N> {
    Named { name: name.into(), node }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsNamed<M>(std::marker::PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<N: RunsOnState<M>, M> RunsOnState<IsNamed<M>> for &Named<N> {
    fn label(&self) -> Label {
        self.name.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<N: AcceptsPayload<P, M>, P, M> AcceptsPayload<P, IsNamed<M>> for &Named<N> {
    fn label(&self) -> Label {
        self.name.clone()
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsConfigured<M>(std::marker::PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<N: RunsOnState<M>, H, M> RunsOnState<IsConfigured<M>> for ConfiguredNode<N, H> {
    fn label(&self) -> Label {
        self.node.label()
    }
}

#[diagnostic::do_not_recommend]
impl<N: AcceptsPayload<P, M>, H, P, M> AcceptsPayload<P, IsConfigured<M>> for ConfiguredNode<N, H> {
    fn label(&self) -> Label {
        self.node.label()
    }
}
