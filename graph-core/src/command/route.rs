//! Routes: the choice of the nodes that run next.

use smallvec::SmallVec;

use crate::{
    error::NodeError,
    goto::{Goto, Gotos},
    label::Label,
};

/// A choice of the nodes to run next: an enum with `#[derive(Route)]`, or [`Goto`]s created at run time.
///
/// ```
/// use graph_core::{END, Route, State};
/// # #[derive(State, Clone, Default)]
/// # struct Essay { topic: String }
/// async fn plan(_: &Essay) {}
///
/// #[derive(Route)]
/// enum Verdict {
///     #[to(plan)]
///     Again,
///     #[to(END)]
///     Good,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a route",
    label = "this type does not implement `Route`",
    note = "add `#[derive(Route)]` to the enum and `#[to(node)]` to each variant, or use `Goto`"
)]
pub trait Route: Send + 'static {
    /// Whether each route value leads to the targets of at most one variant. `compile` uses this constant to find joins
    /// that wait for targets of different variants and therefore never fire.
    const EXCLUSIVE: bool = false;

    /// Returns all possible targets, or `None` if they are only known at run time.
    fn targets() -> Option<Vec<RouteTarget>>;

    /// Converts the route into the targets it chose.
    fn gotos(self) -> Gotos;
}

/// A possible target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTarget {
    /// Name of the node, or the reserved name `__end__` for END.
    pub to: Label,
    /// Name of the variant. It labels the edge in drawings.
    pub variant: Label,
    /// Whether the variant sends a payload to the node.
    pub sends: bool,
}

/// The targets that the return type of a node declares. A list is `None` if its targets are only known at run time.
#[derive(Clone, Debug)]
pub struct DeclaredTargets {
    /// Targets in the node's own graph.
    pub own: Option<Vec<RouteTarget>>,
    /// Targets in the parent graph, in which the node's graph is a subgraph.
    pub parent: Option<Vec<RouteTarget>>,
}

impl DeclaredTargets {
    /// Combines the targets of a node and of its error handler, whose output replaces that of the node.
    pub(crate) fn union(self, other: Self) -> Self {
        let union = |a: Option<Vec<_>>, b: Option<Vec<_>>| Some([a?, b?].concat());
        Self { own: union(self.own, other.own), parent: union(self.parent, other.parent) }
    }
}

/// Declares no targets.
impl Default for DeclaredTargets {
    fn default() -> Self {
        Self { own: Some(Vec::new()), parent: Some(Vec::new()) }
    }
}

/// The route type of a command that only follows the node's own edges. The type has no values.
#[derive(Clone, Copy, Debug)]
pub enum NoRoute {}

impl Route for NoRoute {
    fn targets() -> Option<Vec<RouteTarget>> {
        Some(Vec::new())
    }

    fn gotos(self) -> Gotos {
        match self {}
    }
}

impl Route for Goto {
    fn targets() -> Option<Vec<RouteTarget>> {
        None
    }

    fn gotos(self) -> Gotos {
        SmallVec::from_buf([self])
    }
}

impl<R: Route> Route for Vec<R> {
    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn gotos(self) -> Gotos {
        let mut gotos = Gotos::with_capacity(self.len());
        for route in self {
            gotos.append(&mut route.gotos());
        }
        gotos
    }
}

impl<R: Route> Route for Option<R> {
    const EXCLUSIVE: bool = R::EXCLUSIVE;

    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn gotos(self) -> Gotos {
        self.map(Route::gotos).unwrap_or_default()
    }
}

/// A return type of a branch function: a route, or a `Result` that contains one.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "a branch cannot return `{Self}`",
    label = "expected a route or a `Result` of one",
    note = "return an enum with `#[derive(Route)]`, a `Goto`, a `Vec` or `Option` of these, or a `Result` of them"
)]
pub trait IntoGotos<M> {
    /// See [`Route::EXCLUSIVE`].
    const EXCLUSIVE: bool;

    /// Returns all possible targets, or `None` if they are only known at run time.
    fn targets() -> Option<Vec<RouteTarget>>;

    /// Converts the returned value into the targets it chose.
    fn into_gotos(self) -> Result<Gotos, NodeError>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsRoute;

#[doc(hidden)]
#[derive(Debug)]
pub struct IsResult;

impl<R: Route> IntoGotos<IsRoute> for R {
    const EXCLUSIVE: bool = R::EXCLUSIVE;

    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn into_gotos(self) -> Result<Gotos, NodeError> {
        Ok(self.gotos())
    }
}

impl<R: Route, E: Into<NodeError>> IntoGotos<IsResult> for Result<R, E> {
    const EXCLUSIVE: bool = R::EXCLUSIVE;

    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn into_gotos(self) -> Result<Gotos, NodeError> {
        self.map(Route::gotos).map_err(Into::into)
    }
}
