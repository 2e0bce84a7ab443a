//! The sources and targets of edges: START, END, node functions and names.

use crate::{
    graph::into_node::IntoNode,
    label::{END_NAME, End, Label, START_NAME, Start},
    node::{
        named::{IsNamed, Named},
        state_parameter::StateParameter,
    },
    state::State,
};

/// The source of an edge: [`START`](crate::START), a node's function, a [named](crate::named) node, a subgraph, or a
/// node's name.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the source of an edge in a graph with state `{S}`",
    label = "expected `START`, a node of this graph, or a node's name",
    note = "a node is an `async fn` that takes `&{S}` or a payload, and optionally `&Context<{C}>`"
)]
pub trait Source<S, C, M> {
    /// Returns the node's name.
    fn source(self) -> Label;
}

/// The target of an edge: a node that runs on the state, [`END`](crate::END), or a node's name.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the target of an edge in a graph with state `{S}`",
    label = "expected `END`, a node that runs on `&{S}`, or a node's name",
    note = "if the node takes a payload, send it one from a route instead: `#[to(node)] Variant(Vec<Payload>)`"
)]
pub trait Target<S, C, M> {
    /// Returns the node's name.
    fn target(self) -> Label;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsEndpoint;

#[doc(hidden)]
#[derive(Debug)]
pub struct IsName;

#[doc(hidden)]
#[derive(Debug)]
pub struct IsNode<M>(std::marker::PhantomData<M>);

impl<S, C> Source<S, C, IsEndpoint> for Start {
    fn source(self) -> Label {
        Label::from(START_NAME)
    }
}

impl<S, C> Target<S, C, IsEndpoint> for End {
    fn target(self) -> Label {
        Label::from(END_NAME)
    }
}

macro_rules! names {
    ($($type:ty => |$name:ident| $label:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<S, C> Source<S, C, IsName> for $type {
            fn source(self) -> Label {
                let $name = self;
                $label
            }
        }

        #[diagnostic::do_not_recommend]
        impl<S, C> Target<S, C, IsName> for $type {
            fn target(self) -> Label {
                let $name = self;
                $label
            }
        }
    )*};
}

names! {
    &'static str => |name| Label::from(name);
    String => |name| Label::from(name);
    Label => |name| name;
}

// A function at the end of an edge need not be a valid node: `StateGraph::node` checks that, and `compile` checks that
// a node with its name was added. A second check here would report the same mistake once more for each edge. Only the
// state of a target is checked, because a function of another graph can have the name of a node.
#[diagnostic::do_not_recommend]
impl<F, S, C, A, Fut> Source<S, C, IsNode<(A, Fut)>> for F
where
    F: FnOnce(A) -> Fut,
{
    fn source(self) -> Label {
        Label::of_fn_or_path::<F>()
    }
}

#[diagnostic::do_not_recommend]
impl<F, S, C, A, B, Fut> Source<S, C, IsNode<(A, B, Fut)>> for F
where
    F: FnOnce(A, B) -> Fut,
{
    fn source(self) -> Label {
        Label::of_fn_or_path::<F>()
    }
}

#[diagnostic::do_not_recommend]
impl<F, S, C, A, Fut, K> Target<S, C, IsNode<(A, Fut, K)>> for F
where
    F: FnOnce(A) -> Fut,
    A: StateParameter<S, K>,
{
    fn target(self) -> Label {
        Label::of_fn_or_path::<F>()
    }
}

#[diagnostic::do_not_recommend]
impl<F, S, C, A, B, Fut, K> Target<S, C, IsNode<(A, B, Fut, K)>> for F
where
    F: FnOnce(A, B) -> Fut,
    A: StateParameter<S, K>,
{
    fn target(self) -> Label {
        Label::of_fn_or_path::<F>()
    }
}

#[diagnostic::do_not_recommend]
impl<N, S, C, M> Source<S, C, IsNamed<M>> for &Named<N>
where
    N: IntoNode<S, C, M>,
    S: State,
{
    fn source(self) -> Label {
        self.name.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<N, S, C, M> Target<S, C, IsNamed<M>> for &Named<N>
where
    N: IntoNode<S, C, M, Input = S>,
    S: State,
{
    fn target(self) -> Label {
        self.name.clone()
    }
}

/// The nodes of a join or a sequence: a tuple of nodes, or a list of names.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of nodes of a graph with state `{S}`",
    label = "expected a tuple of nodes or a list of names",
    note = "pass a tuple of up to eight nodes, `(a, b)`, or a list of names, `[\"a\", \"b\"]`"
)]
pub trait Sources<S, C, M> {
    /// Returns the nodes' names.
    fn sources(self) -> Vec<Label>;
}

impl<S, C, M, T: Source<S, C, M>, const N: usize> Sources<S, C, M> for [T; N] {
    fn sources(self) -> Vec<Label> {
        self.into_iter().map(Source::source).collect()
    }
}

impl<S, C, M, T: Source<S, C, M>> Sources<S, C, M> for Vec<T> {
    fn sources(self) -> Vec<Label> {
        self.into_iter().map(Source::source).collect()
    }
}

macro_rules! tuples {
    ($($name:ident $marker:ident),*) => {
        #[diagnostic::do_not_recommend]
        impl<S, C, $($name, $marker),*> Sources<S, C, ($($marker,)*)> for ($($name,)*)
        where $($name: Source<S, C, $marker>),*
        {
            #[expect(non_snake_case, reason = "the type parameters double as variable names")]
            fn sources(self) -> Vec<Label> {
                let ($($name,)*) = self;
                vec![$($name.source()),*]
            }
        }
    };
}

tuples!(T1 M1, T2 M2);

tuples!(T1 M1, T2 M2, T3 M3);

tuples!(T1 M1, T2 M2, T3 M3, T4 M4);

tuples!(T1 M1, T2 M2, T3 M3, T4 M4, T5 M5);

tuples!(T1 M1, T2 M2, T3 M3, T4 M4, T5 M5, T6 M6);

tuples!(T1 M1, T2 M2, T3 M3, T4 M4, T5 M5, T6 M6, T7 M7);

tuples!(T1 M1, T2 M2, T3 M3, T4 M4, T5 M5, T6 M6, T7 M7, T8 M8);
