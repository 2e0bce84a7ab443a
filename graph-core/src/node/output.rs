//! The output of a node and the types that convert into it.

use std::fmt;

use smallvec::SmallVec;

use crate::{
    command::{
        Command,
        route::{DeclaredTargets, Route},
    },
    error::NodeError,
    goto::{Goto, ParentCommand},
    state::{State, erased::AnyUpdate},
};

/// A return type of a node.
#[diagnostic::on_unimplemented(
    message = "a node of a graph with state `{S}` cannot return `{Self}`",
    label = "not a valid return type of a node",
    note = "return the update of `{S}`, a `Command<{S}, _>`, a `Goto`, `()`, or a `Result`, `Option` or `Vec` of these",
    note = "the error of a `Result` must convert into `NodeError`: an error type that is `Send + Sync`, such as `Box<dyn Error + Send + Sync>`, or a text"
)]
pub trait IntoNodeOutput<S> {
    /// Returns the targets that the type declares. The default declares none.
    fn targets() -> DeclaredTargets {
        DeclaredTargets::default()
    }

    /// Converts the returned value into the node's output.
    fn into_node_output(self) -> Result<NodeOutput, NodeError>;
}

/// The output of a node: updates of the state, and the nodes to run next.
#[derive(Default)]
pub struct NodeOutput {
    pub(crate) updates: SmallVec<[AnyUpdate; 1]>,
    pub(crate) gotos: Vec<Goto>,
    pub(crate) parent: Option<Box<ParentCommand>>,
}

impl NodeOutput {
    /// Creates an output that consists of one update.
    pub fn update<S: State>(update: S::Update) -> Self {
        Self { updates: SmallVec::from_buf([Box::new(update) as AnyUpdate]), ..Self::default() }
    }

    fn append(&mut self, other: Self) {
        self.updates.extend(other.updates);
        self.gotos.extend(other.gotos);
        self.parent = self.parent.take().or(other.parent);
    }
}

impl fmt::Debug for NodeOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeOutput")
            .field("updates", &self.updates.len())
            .field("gotos", &self.gotos)
            .field("parent", &self.parent)
            .finish()
    }
}

impl<S: State> IntoNodeOutput<S> for () {
    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        Ok(NodeOutput::default())
    }
}

impl<S: State, R: Route, P: Route> IntoNodeOutput<S> for Command<S, R, P> {
    fn targets() -> DeclaredTargets {
        DeclaredTargets { own: R::targets(), parent: P::targets() }
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        let (update, route, parent) = self.into_parts();
        Ok(NodeOutput {
            updates: update.into_iter().map(|it| Box::new(it) as AnyUpdate).collect(),
            gotos: route.map(|it| it.gotos().into_vec()).unwrap_or_default(),
            parent,
        })
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, T: IntoNodeOutput<S>, E: Into<NodeError>> IntoNodeOutput<S> for Result<T, E> {
    fn targets() -> DeclaredTargets {
        T::targets()
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        self.map_err(Into::into)?.into_node_output()
    }
}

impl<S: State, T: IntoNodeOutput<S>> IntoNodeOutput<S> for Option<T> {
    fn targets() -> DeclaredTargets {
        T::targets()
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        self.map_or_else(|| Ok(NodeOutput::default()), IntoNodeOutput::into_node_output)
    }
}

impl<S: State, T: IntoNodeOutput<S>> IntoNodeOutput<S> for Vec<T> {
    fn targets() -> DeclaredTargets {
        T::targets()
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        let mut all = NodeOutput::default();
        for part in self {
            all.append(part.into_node_output()?);
        }
        Ok(all)
    }
}

impl<S: State> IntoNodeOutput<S> for Goto {
    fn targets() -> DeclaredTargets {
        DeclaredTargets { own: None, ..DeclaredTargets::default() }
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        Ok(NodeOutput { gotos: vec![self], ..NodeOutput::default() })
    }
}
