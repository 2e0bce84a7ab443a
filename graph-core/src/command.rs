//! Commands and routes: choosing the nodes to run next.

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use smallvec::SmallVec;

use crate::{
    NodeError, State,
    label::{END_NAME, End, Label},
    node::{AcceptsPayload, AnyUpdate, RunsOnState},
    state::{FieldError, limits},
};

/// A single target chosen at run time: a node, a node with a payload, or END.
#[derive(Clone, Debug)]
pub struct Goto {
    pub(crate) to: Label,
    pub(crate) payload: Option<Payload>,
}

impl Goto {
    /// Creates a `Goto` that leads to the named node. The node runs on the state.
    pub fn node(name: impl Into<Label>) -> Self {
        Self { to: name.into(), payload: None }
    }

    /// Creates a `Goto` that ends this path through the graph.
    pub fn end() -> Self {
        Self::node(END_NAME)
    }

    /// Creates a `Goto` that sends a JSON payload to the named node.
    pub fn send(name: impl Into<Label>, payload: Value) -> Self {
        Self { to: name.into(), payload: Some(Payload::Json(Arc::new(payload))) }
    }

    /// Creates a `Goto` that sends a typed payload to the named node.
    fn send_typed<P: Serialize + Send + Sync + 'static>(name: Label, payload: P) -> Self {
        Self { to: name, payload: Some(Payload::Typed(Arc::new(payload))) }
    }
}

/// Creates a [`Goto`] to a node that runs on the state.
///
/// ```
/// # use graph_core::{State, goto};
/// # #[derive(State, Clone, Default)]
/// # struct Essay { topic: String }
/// async fn review(_: &Essay) {}
///
/// let next = goto(review);
/// # let _ = next;
/// ```
pub fn goto<N: RunsOnState<M>, M>(_node: N) -> Goto {
    Goto::node(N::label())
}

/// Creates a [`Goto`] that sends a payload to a node. In the next step, the node runs once per payload, concurrently.
///
/// ```
/// # use graph_core::send;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Section(String);
///
/// async fn write(section: Section) {}
///
/// let next: Vec<_> = ["why", "how"].map(|it| send(write, Section(it.to_owned()))).into();
/// # let _ = next;
/// ```
pub fn send<N, P, M>(_node: N, payload: P) -> Goto
where
    N: AcceptsPayload<P, M>,
    P: Serialize + Send + Sync + 'static,
{
    Goto::send_typed(N::label(), payload)
}

/// The payload of a [`Goto`]: a value of the sender's type, or JSON if it was sent as JSON or read from a checkpoint.
#[derive(Clone)]
pub(crate) enum Payload {
    Typed(Arc<dyn AnyPayload>),
    Json(Arc<Value>),
}

impl Payload {
    pub(crate) fn to_json(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Typed(payload) => payload.to_json(),
            Self::Json(value) => Ok(Value::clone(value)),
        }
    }

    /// Returns the payload, or an error if it is JSON that is nested too deeply.
    pub(crate) fn ensure_depth(self, node: &str) -> Result<Self, FieldError> {
        match self {
            Self::Json(value) => match Arc::try_unwrap(value) {
                Ok(value) => Ok(Self::Json(Arc::new(limits::ensure_depth(node, value)?))),
                Err(shared) => {
                    limits::check_storable(node, &shared, usize::MAX).map(|()| Self::Json(shared))
                }
            },
            typed @ Self::Typed(_) => Ok(typed),
        }
    }

    /// Converts the payload into the type that a node takes.
    pub(crate) fn take<P: Clone + DeserializeOwned + Send + Sync + 'static>(
        self,
    ) -> Result<P, serde_json::Error> {
        match self {
            Self::Typed(payload) => match payload.into_any().downcast::<P>() {
                Ok(payload) => Ok(Arc::try_unwrap(payload).unwrap_or_else(|it| P::clone(&it))),
                Err(_) => Err(serde::de::Error::custom(format_args!(
                    "the payload is not a `{}`",
                    std::any::type_name::<P>()
                ))),
            },
            Self::Json(value) => serde_json::from_value(
                Arc::try_unwrap(value).unwrap_or_else(|it| Value::clone(&it)),
            ),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_json() {
            Ok(value) => write!(f, "{value}"),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

/// A serialisable payload of any type.
pub(crate) trait AnyPayload: Send + Sync {
    fn to_json(&self) -> Result<Value, serde_json::Error>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<P: Serialize + Send + Sync + 'static> AnyPayload for P {
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

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

/// The targets that a route chose.
pub type Gotos = SmallVec<[Goto; 1]>;

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
        self.into_iter().flat_map(Route::gotos).collect()
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

/// A node's return value that updates the state, chooses the nodes to run next, or both.
///
/// The node's own edges are followed as well.
pub struct Command<S: State, R = NoRoute> {
    update: Option<S::Update>,
    route: Option<R>,
    parent: Option<Box<ParentCommand>>,
}

impl<S: State, R: Route> Command<S, R> {
    /// Creates a command that goes to the route's targets without updating the state.
    pub fn goto(route: R) -> Self {
        Self { update: None, route: Some(route), parent: None }
    }

    /// Creates a command that updates the state and goes to the route's targets.
    pub fn new(update: S::Update, route: R) -> Self {
        Self { update: Some(update), route: Some(route), parent: None }
    }
}

impl<S: State> Command<S, NoRoute> {
    /// Creates a command that updates the state. Only the node's own edges are followed.
    pub fn update(update: S::Update) -> Self {
        Self { update: Some(update), route: None, parent: None }
    }
}

impl<S: State, R> Command<S, R> {
    /// Creates a command that leaves the subgraph, updates the state `P` of the parent and goes to the parent's nodes.
    ///
    /// The current step of the subgraph is discarded. The run fails if the graph is not a subgraph.
    pub fn parent<P: State>(update: P::Update, route: impl Route) -> Self {
        let parent = ParentCommand {
            updates: SmallVec::from_buf([Box::new(update) as AnyUpdate]),
            gotos: route.gotos(),
        };
        Self { update: None, route: None, parent: Some(Box::new(parent)) }
    }

    pub(crate) fn into_parts(self) -> (Option<S::Update>, Option<R>, Option<Box<ParentCommand>>) {
        (self.update, self.route, self.parent)
    }
}

impl<S: State, R> fmt::Debug for Command<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("has_update", &self.update.is_some())
            .field("has_route", &self.route.is_some())
            .field("parent", &self.parent)
            .finish()
    }
}

/// A command from a subgraph to its parent graph.
pub(crate) struct ParentCommand {
    pub(crate) updates: SmallVec<[AnyUpdate; 1]>,
    pub(crate) gotos: Gotos,
}

impl fmt::Debug for ParentCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentCommand")
            .field("updates", &self.updates.len())
            .field("gotos", &self.gotos)
            .finish()
    }
}

/// Helpers for the code that `#[derive(Route)]` generates. Not part of the public API.
#[doc(hidden)]
pub mod derive {
    use super::{
        AcceptsPayload, End, Goto, Gotos, Label, PhantomData, RouteTarget, RunsOnState, Serialize,
    };
    use crate::label::END_NAME;

    /// The target of a variant without a payload.
    #[diagnostic::on_unimplemented(
        message = "a route variant without payload cannot lead to `{Self}`",
        label = "expected a node that runs on the state, `END`, or a node's name",
        note = "if the node takes a payload, add it to the variant: `Variant(Payload)` or `Variant(Vec<Payload>)`"
    )]
    pub trait VariantTarget<M> {
        fn into_label(self) -> Label;
    }

    #[derive(Debug)]
    pub struct IsEnd;
    #[derive(Debug)]
    pub struct IsName;
    #[derive(Debug)]
    pub struct IsNode<M>(PhantomData<M>);

    impl VariantTarget<IsEnd> for End {
        fn into_label(self) -> Label {
            Label::from(END_NAME)
        }
    }

    impl VariantTarget<IsName> for &'static str {
        fn into_label(self) -> Label {
            Label::from(self)
        }
    }

    #[diagnostic::do_not_recommend]
    impl<N: RunsOnState<M>, M> VariantTarget<IsNode<M>> for N {
        fn into_label(self) -> Label {
            N::label()
        }
    }

    /// Returns the name of the target of a variant without a payload.
    pub fn target_label<M>(target: impl VariantTarget<M>) -> Label {
        target.into_label()
    }

    /// Returns the name of a node that accepts payloads of type `P`.
    pub fn payload_target_label<P, M, N: AcceptsPayload<P, M>>(
        _node: &N,
        _payload: PhantomData<P>,
    ) -> Label {
        N::label()
    }

    pub fn route_target(to: Label, variant: &'static str, sends: bool) -> RouteTarget {
        RouteTarget { to, variant: Label::from(variant), sends }
    }

    pub fn push_goto(gotos: &mut Gotos, to: Label) {
        gotos.push(Goto { to, payload: None });
    }

    pub fn push_send<P: Serialize + Send + Sync + 'static>(
        gotos: &mut Gotos,
        to: Label,
        payload: P,
    ) {
        gotos.push(Goto::send_typed(to, payload));
    }

    #[expect(clippy::needless_pass_by_value, reason = "the derive passes a temporary label")]
    pub fn push_sends<P: Serialize + Send + Sync + 'static>(
        gotos: &mut Gotos,
        to: Label,
        payloads: impl IntoIterator<Item = P>,
    ) {
        gotos.extend(payloads.into_iter().map(|it| Goto::send_typed(to.clone(), it)));
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
