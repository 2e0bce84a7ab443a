//! Conversion of functions and configured functions into nodes of a graph.

use crate::{
    command::route::RouteTarget,
    context::Context,
    graph::erased::Subgraph,
    label::Label,
    node::{
        erased::{NodeBody, Private},
        function::{Node, OnPayload, OnState, PayloadType},
        named::{IsNamed, Named},
        options::{ConfiguredNode, NoHandler, NodeOptions},
    },
    state::State,
};

/// A value that can be added to a graph as a node: a function, a function with options, or a subgraph.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid node for a graph with state `{S}`",
    label = "not a valid node"
)]
pub trait IntoNode<S: State, C, M>: NodeShape<S, C, M, Checked = Self> + Sized {
    /// Type of the node's input: the state, or the payload.
    type Input;

    #[doc(hidden)]
    fn into_node(self, _: Private) -> NodeParts;
}

/// The parameters of a node, without the requirements on its return value and its future.
///
/// [`StateGraph::node`](crate::StateGraph::node) requires this trait first. It determines `M`, so that only one
/// implementation of [`IntoNode`] remains for a function with valid parameters. The compiler then reports what that
/// implementation lacks, for example which value is held across which await, instead of listing all signatures.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid node for a graph with state `{S}`",
    label = "not an async function with a supported signature",
    note = "a node is an `async fn(&{S}) -> R` or `async fn(P) -> R`, optionally with `&Context<{C}>` as second parameter; the state and the context are passed by shared reference",
    note = "the payload type `P` must implement `Clone + Serialize + DeserializeOwned + Send + Sync`"
)]
pub trait NodeShape<S: State, C, M> {
    /// The implementing type itself. The compiler checks the bound `N::Checked: IntoNode` only if `N` implements this
    /// trait, so a mistake causes one error instead of two.
    type Checked;
}

#[diagnostic::do_not_recommend]
impl<F, S, C, R> NodeShape<S, C, IsFunction<(OnState, R)>> for F
where
    F: AsyncFn(&S) -> R,
    S: State,
{
    type Checked = F;
}

#[diagnostic::do_not_recommend]
impl<F, S, C, R> NodeShape<S, C, IsFunction<(OnState, R, C)>> for F
where
    F: AsyncFn(&S, &Context<C>) -> R,
    S: State,
{
    type Checked = F;
}

#[diagnostic::do_not_recommend]
impl<F, S, C, P, R> NodeShape<S, C, IsFunction<(OnPayload, P, R)>> for F
where
    F: AsyncFn(P) -> R,
    S: State,
    P: PayloadType,
{
    type Checked = F;
}

#[diagnostic::do_not_recommend]
impl<F, S, C, P, R> NodeShape<S, C, IsFunction<(OnPayload, P, R, C)>> for F
where
    F: AsyncFn(P, &Context<C>) -> R,
    S: State,
    P: PayloadType,
{
    type Checked = F;
}

#[diagnostic::do_not_recommend]
impl<F, H, S, C, M, MH> NodeShape<S, C, (M, MH)> for ConfiguredNode<F, H>
where
    F: NodeShape<S, C, M>,
    H: IntoErrorHandler<S, C, MH>,
    S: State,
{
    type Checked = Self;
}

#[diagnostic::do_not_recommend]
impl<N, S, C, M> NodeShape<S, C, IsNamed<M>> for &Named<N>
where
    N: NodeShape<S, C, M>,
    S: State,
{
    type Checked = Self;
}

/// A type-erased node with its name, declared targets and options.
#[doc(hidden)]
#[derive(Debug)]
pub struct NodeParts {
    pub(crate) label: Option<Label>,
    pub(crate) body: NodeBody,
    /// The graph inside the node, if the node is a subgraph.
    pub(crate) subgraph: Option<Subgraph>,
    pub(crate) targets: Option<Vec<RouteTarget>>,
    pub(crate) options: NodeOptions,
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsFunction<M>(std::marker::PhantomData<M>);

impl<F, S, C, M> IntoNode<S, C, IsFunction<M>> for F
where
    F: Node<S, C, M> + NodeShape<S, C, IsFunction<M>, Checked = F>,
    S: State,
{
    type Input = F::Input;

    fn into_node(self, private: Private) -> NodeParts {
        NodeParts {
            label: Label::of_fn::<F>(),
            targets: F::targets(),
            body: self.erase(private),
            subgraph: None,
            options: NodeOptions::default(),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<F, H, S, C, M, MH> IntoNode<S, C, (M, MH)> for ConfiguredNode<F, H>
where
    F: IntoNode<S, C, M>,
    H: IntoErrorHandler<S, C, MH>,
    S: State,
{
    type Input = F::Input;

    fn into_node(self, _: Private) -> NodeParts {
        let mut parts = self.node.into_node(Private(()));
        let handler = self.handler.into_error_handler(Private(()));
        // The handler's output replaces the node's output, so the handler's targets are targets of the node, too.
        parts.targets = match (&handler, parts.targets) {
            (None, targets) => targets,
            (Some(handler), targets) => targets.zip(handler.targets.clone()).map(|(mut a, b)| {
                a.extend(b);
                a
            }),
        };
        parts.options = self.options;
        parts.options.handler = handler.map(|it| it.body);
        parts
    }
}

#[diagnostic::do_not_recommend]
impl<N, S, C, M> IntoNode<S, C, IsNamed<M>> for &Named<N>
where
    N: IntoNode<S, C, M> + Clone,
    S: State,
{
    type Input = N::Input;

    fn into_node(self, private: Private) -> NodeParts {
        let parts = self.node.clone().into_node(private);
        NodeParts { label: Some(self.name.clone()), ..parts }
    }
}

/// An error handler of a node, or [`NoHandler`].
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
pub trait IntoErrorHandler<S: State, C, M> {
    #[doc(hidden)]
    fn into_error_handler(self, _: Private) -> Option<NodeParts>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsNoHandler;

impl<S: State, C> IntoErrorHandler<S, C, IsNoHandler> for NoHandler {
    fn into_error_handler(self, _: Private) -> Option<NodeParts> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<H, S, C, M> IntoErrorHandler<S, C, IsFunction<M>> for H
where
    H: Node<S, C, M> + NodeShape<S, C, IsFunction<M>, Checked = H>,
    S: State,
{
    fn into_error_handler(self, private: Private) -> Option<NodeParts> {
        Some(self.into_node(private))
    }
}
