//! Labels: the names of nodes, and what may stand at either end of an edge.

use std::{borrow::Cow, fmt};

use crate::{State, node::Node};

/// The name of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Cow<'static, str>);

impl Label {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a function: the last part of its path.
    ///
    /// `None` for closures, which have no name of their own.
    pub(crate) fn of_fn<F>() -> Option<Self> {
        let path = without_generics(std::any::type_name::<F>());
        // By bytes: a branch asks for the names of its targets each time it is taken.
        let start = path.bytes().rposition(|it| it == b':').map_or(0, |colon| colon + 1);
        let name = &path[start..];
        (!name.starts_with('{')).then_some(Self(Cow::Borrowed(name)))
    }

    /// Like [`of_fn`](Self::of_fn), with the whole path standing in for a closure's missing name.
    ///
    /// No node can be called that, so the graph's check names the closure as unknown.
    pub(crate) fn of_fn_or_path<F>() -> Self {
        Self::of_fn::<F>().unwrap_or(Self(Cow::Borrowed(std::any::type_name::<F>())))
    }
}

/// The path of a function without the types it is generic over: `log` of `log<Essay>`.
fn without_generics(path: &'static str) -> &'static str {
    if !path.ends_with('>') {
        return path;
    }
    let mut depth = 0;
    let open = path.bytes().rposition(|it| {
        depth += i32::from(it == b'>') - i32::from(it == b'<');
        depth == 0
    });
    &path[..open.unwrap_or(path.len())]
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&'static str> for Label {
    fn from(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

impl From<String> for Label {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl std::borrow::Borrow<str> for Label {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Where a run enters the graph; only ever the source of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start;

/// Where a path of a run ends; only ever the target of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End;

/// The entry of every graph.
pub const START: Start = Start;

/// The end of a path through a graph.
pub const END: End = End;

pub(crate) const START_NAME: &str = "__start__";
pub(crate) const END_NAME: &str = "__end__";

/// Something an edge may start from: [`START`], a node's function, or a node's name.
///
/// `M` only tells the compiler which of these it is.
#[diagnostic::on_unimplemented(
    message = "an edge of a graph over `{S}` cannot start from `{Self}`",
    label = "neither START, nor a node of this graph, nor a node's name",
    note = "a node is an `async fn` that takes `&{S}` or a payload, and optionally `&Context<{C}>`"
)]
pub trait Source<S, C, M> {
    /// The node's name.
    fn source(self) -> Label;
}

/// Something an edge may lead to: a node that runs on the state, [`END`], or a node's name.
///
/// `M` only tells the compiler which of these it is.
#[diagnostic::on_unimplemented(
    message = "an edge of a graph over `{S}` cannot lead to `{Self}`",
    label = "neither END, nor a node that runs on `&{S}`, nor a node's name",
    note = "a node that takes a payload is reached by sending it one: `#[to(node)] Variant(Vec<Payload>)`"
)]
pub trait Target<S, C, M> {
    /// The node's name.
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
        impl<S, C> Source<S, C, IsName> for $type {
            fn source(self) -> Label {
                let $name = self;
                $label
            }
        }

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

#[diagnostic::do_not_recommend]
impl<F, S, C, M> Source<S, C, IsNode<M>> for F
where
    F: Node<S, C, M>,
    S: State,
{
    fn source(self) -> Label {
        Label::of_fn_or_path::<F>()
    }
}

#[diagnostic::do_not_recommend]
impl<F, S, C, M> Target<S, C, IsNode<M>> for F
where
    F: Node<S, C, M, Input = S>,
    S: State,
{
    fn target(self) -> Label {
        Label::of_fn_or_path::<F>()
    }
}

/// Several sources of a join: a tuple of nodes, or a list of names.
///
/// `M` only tells the compiler which of these it is.
#[diagnostic::on_unimplemented(
    message = "a join of a graph over `{S}` cannot wait for `{Self}`",
    note = "give a tuple of nodes, `(a, b)`, or a list of names, `[\"a\", \"b\"]`"
)]
pub trait Sources<S, C, M> {
    /// The nodes' names.
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
            #[expect(non_snake_case, reason = "the type parameters name the tuple's parts")]
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
