//! Conversion of functions and configured functions into nodes of a graph.

use crate::{
    command::route::DeclaredTargets,
    graph::erased::Subgraph,
    label::Label,
    node::{
        erased::{NodeBody, Private},
        function::Node,
        named::{IsNamed, Named},
        options::{ConfiguredNode, NoHandler, NodeOptions},
        parameter::{FirstParameter, NodeFuture, SecondParameter},
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

/// The types of a node's parameters and of its return value, without the requirements on them.
///
/// [`StateGraph::node`](crate::StateGraph::node) requires this trait first. It determines `M`, so that only one
/// implementation of [`IntoNode`] remains. The compiler then reports what that implementation lacks, for example that
/// the first parameter is not the state, or which value is held across which await, instead of listing all signatures.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid node for a graph with state `{S}`",
    label = "not a function with one or two parameters",
    note = "pass the function without calling it, as in `.node(write)`",
    note = "a node is an `async fn(&{S}) -> R` or `async fn(P) -> R` with a payload type `P`, optionally with `&Context<{C}>` as second parameter"
)]
pub trait NodeShape<S: State, C, M> {
    /// The implementing type itself. The compiler checks the bound `N::Checked: IntoNode` only if `N` implements this
    /// trait, so a mistake causes one error instead of two.
    type Checked;
}

#[diagnostic::do_not_recommend]
impl<F, S, C, A, Fut, K> NodeShape<S, C, IsFunction<(A,), Fut, K>> for F
where
    F: FnOnce(A) -> Fut,
    S: State,
{
    type Checked = F;
}

#[diagnostic::do_not_recommend]
impl<F, S, C, A, B, Fut, K> NodeShape<S, C, IsFunction<(A, B), Fut, K>> for F
where
    F: FnOnce(A, B) -> Fut,
    S: State,
{
    type Checked = F;
}

#[diagnostic::do_not_recommend]
impl<F, H, S, C, M, MH> NodeShape<S, C, (M, MH)> for ConfiguredNode<F, H>
where
    F: NodeShape<S, C, M>,
    H: NodeShape<S, C, MH>,
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
    pub(crate) targets: DeclaredTargets,
    pub(crate) options: NodeOptions,
}

/// Marks functions with parameters `A` that return `Fut`. `K` is [`OnState`] or [`OnPayload`].
#[doc(hidden)]
#[derive(Debug)]
pub struct IsFunction<A, Fut, K>(std::marker::PhantomData<(A, Fut, K)>);

impl<F, S, C, A, Fut, K> IntoNode<S, C, IsFunction<(A,), Fut, K>> for F
where
    F: NodeShape<S, C, IsFunction<(A,), Fut, K>, Checked = F>,
    A: FirstParameter<S, K>,
    Fut: NodeFuture,
    A::Then<F>: Node<S, C, A::Alone<Fut::Output>>,
    S: State,
{
    type Input = <A::Then<F> as Node<S, C, A::Alone<Fut::Output>>>::Input;

    fn into_node(self, private: Private) -> NodeParts {
        NodeParts::function(A::then(self), private)
    }
}

impl<F, S, C, A, B, Fut, K> IntoNode<S, C, IsFunction<(A, B), Fut, K>> for F
where
    F: NodeShape<S, C, IsFunction<(A, B), Fut, K>, Checked = F>,
    A: FirstParameter<S, K>,
    A::Then<B>: SecondParameter<C>,
    Fut: NodeFuture,
    Valid<A::Then<B>, C, F>: Node<S, C, A::WithContext<Fut::Output, C>>,
    S: State,
{
    type Input = <Valid<A::Then<B>, C, F> as Node<S, C, A::WithContext<Fut::Output, C>>>::Input;

    fn into_node(self, private: Private) -> NodeParts {
        NodeParts::function(A::Then::<B>::then(self), private)
    }
}

/// The function `F` itself, if its second parameter `B` is valid.
type Valid<B, C, F> = <B as SecondParameter<C>>::Then<F>;

impl NodeParts {
    fn function<S: State, C, M, F: Node<S, C, M>>(function: F, private: Private) -> Self {
        Self {
            label: Label::of_fn::<F>(),
            targets: F::targets(),
            body: function.erase(private),
            subgraph: None,
            options: NodeOptions::default(),
        }
    }
}

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
        if let Some(handler) = &handler {
            parts.targets = parts.targets.union(handler.targets.clone());
        }
        parts.options = self.options;
        parts.options.handler = handler.map(|it| it.body);
        parts
    }
}

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
pub trait IntoErrorHandler<S: State, C, M>: NodeShape<S, C, M> {
    #[doc(hidden)]
    fn into_error_handler(self, _: Private) -> Option<NodeParts>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsNoHandler;

#[diagnostic::do_not_recommend]
impl<S: State, C> NodeShape<S, C, IsNoHandler> for NoHandler {
    type Checked = Self;
}

impl<S: State, C> IntoErrorHandler<S, C, IsNoHandler> for NoHandler {
    fn into_error_handler(self, _: Private) -> Option<NodeParts> {
        None
    }
}

impl<H, S, C, A, Fut, K> IntoErrorHandler<S, C, IsFunction<A, Fut, K>> for H
where
    H: IntoNode<S, C, IsFunction<A, Fut, K>>,
    S: State,
{
    fn into_error_handler(self, private: Private) -> Option<NodeParts> {
        Some(self.into_node(private))
    }
}
