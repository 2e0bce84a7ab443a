//! Commands and routes: where a run goes next.

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use smallvec::SmallVec;

use crate::{
    NodeError, State,
    label::{END_NAME, End, Label},
    node::{Accepts, AnyUpdate, RunsOnState},
    state::{FieldError, guard},
};

/// One place to go to: a node, a node with a payload of its own, or the end.
#[derive(Clone, Debug)]
pub struct Goto {
    pub(crate) to: Label,
    pub(crate) payload: Option<Payload>,
}

impl Goto {
    /// Goes to the node of that name, which runs on the state.
    pub fn node(name: impl Into<Label>) -> Self {
        Self { to: name.into(), payload: None }
    }

    /// Ends this path.
    pub fn end() -> Self {
        Self::node(END_NAME)
    }

    /// Sends a JSON payload to the node of that name.
    pub fn send(name: impl Into<Label>, payload: Value) -> Self {
        Self { to: name.into(), payload: Some(Payload::Json(Arc::new(payload))) }
    }

    /// Sends a payload to the node of that name.
    fn send_typed<P: Serialize + Send + Sync + 'static>(name: Label, payload: P) -> Self {
        Self { to: name, payload: Some(Payload::Typed(Arc::new(payload))) }
    }
}

/// Goes to a node that runs on the state.
///
/// ```
/// # use graph_core::{State, goto};
/// # #[derive(State, Clone, Default)]
/// # struct Essay { topic: String }
/// async fn review(_: &Essay) {}
///
/// let way = goto(review);
/// # let _ = way;
/// ```
pub fn goto<N: RunsOnState<M>, M>(_node: N) -> Goto {
    Goto::node(N::label())
}

/// Sends a payload to a node that takes one; it runs in the next step, beside others of its kind.
///
/// ```
/// # use graph_core::send;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Section(String);
///
/// async fn write(section: Section) {}
///
/// let ways: Vec<_> = ["why", "how"].map(|it| send(write, Section(it.to_owned()))).into();
/// # let _ = ways;
/// ```
pub fn send<N, P, M>(_node: N, payload: P) -> Goto
where
    N: Accepts<P, M>,
    P: Serialize + Send + Sync + 'static,
{
    Goto::send_typed(N::label(), payload)
}

/// What a [`Goto`] carries: a value of the sender's type, or its JSON once it was stored.
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

    /// The payload, unless it is JSON too deep to be handled.
    pub(crate) fn admit(self, node: &str) -> Result<Self, FieldError> {
        match self {
            Self::Json(value) => match Arc::try_unwrap(value) {
                Ok(value) => Ok(Self::Json(Arc::new(guard::admit(node, value)?))),
                Err(shared) => guard::check(node, &shared, usize::MAX).map(|()| Self::Json(shared)),
            },
            typed @ Self::Typed(_) => Ok(typed),
        }
    }

    /// The payload as the type a node takes.
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

/// A payload of any type, which can be stored.
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

/// The ways out of a node: an enum with `#[derive(Route)]`, or [`Goto`]s made at run time.
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
    message = "`{Self}` does not say where to go",
    label = "not a route",
    note = "add `#[derive(Route)]` to the enum and `#[to(node)]` to each variant, or return `Goto`s"
)]
pub trait Route: Send + 'static {
    /// Whether it always takes one variant of several: what lets `compile` see joins that wait for two of them.
    const ONE_OF: bool = false;

    /// Every place the route can lead to, or `None` where that is known only when it is taken.
    fn targets() -> Option<Vec<RouteTarget>>;

    /// The places it leads to.
    fn gotos(self) -> Gotos;
}

/// The places a route leads to.
pub type Gotos = SmallVec<[Goto; 1]>;

/// One place that a route can lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTarget {
    /// The node, or END.
    pub to: Label,
    /// What the variant is called: the label of the edge in drawings.
    pub variant: Label,
    /// Whether the node is sent a payload.
    pub sends: bool,
}

/// The route of a command that goes nowhere: the node's own edges decide.
#[derive(Clone, Copy, Debug)]
pub enum Nowhere {}

impl Route for Nowhere {
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
    const ONE_OF: bool = R::ONE_OF;

    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn gotos(self) -> Gotos {
        self.map(Route::gotos).unwrap_or_default()
    }
}

/// What a node answers when it decides where to go: an update, a route, or both.
///
/// The node's own edges fire as well.
pub struct Command<S: State, R = Nowhere> {
    update: Option<S::Update>,
    route: Option<R>,
    parent: Option<Box<ParentCommand>>,
}

impl<S: State, R: Route> Command<S, R> {
    /// Goes there, without an update.
    pub fn goto(route: R) -> Self {
        Self { update: None, route: Some(route), parent: None }
    }

    /// Updates the state and goes there.
    pub fn new(update: S::Update, route: R) -> Self {
        Self { update: Some(update), route: Some(route), parent: None }
    }
}

impl<S: State> Command<S, Nowhere> {
    /// Updates the state; the node's edges decide where to go.
    pub fn update(update: S::Update) -> Self {
        Self { update: Some(update), route: None, parent: None }
    }
}

impl<S: State, R> Command<S, R> {
    /// Leaves the subgraph: updates the parent's state, of type `P`, and goes there in the parent graph.
    ///
    /// The unfinished step of the subgraph is dropped. In a graph without parent it is an error.
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
            .field("updates", &self.update.is_some())
            .field("goes", &self.route.is_some())
            .field("parent", &self.parent)
            .finish()
    }
}

/// A command on its way from a subgraph to the graph around it.
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

/// What the code written by `#[derive(Route)]` calls. Not part of the API.
#[doc(hidden)]
pub mod derive {
    use super::{
        Accepts, End, Goto, Gotos, Label, PhantomData, RouteTarget, RunsOnState, Serialize,
    };
    use crate::label::END_NAME;

    /// Somewhere a variant without payload can lead to.
    #[diagnostic::on_unimplemented(
        message = "a variant without payload cannot lead to `{Self}`",
        label = "neither a node that runs on the state, nor END, nor a node's name",
        note = "a node that takes a payload wants one in the variant: `Variant(Payload)` or `Variant(Vec<Payload>)`"
    )]
    pub trait Place<M> {
        fn place(self) -> Label;
    }

    #[derive(Debug)]
    pub struct IsEnd;
    #[derive(Debug)]
    pub struct IsName;
    #[derive(Debug)]
    pub struct IsNode<M>(PhantomData<M>);

    impl Place<IsEnd> for End {
        fn place(self) -> Label {
            Label::from(END_NAME)
        }
    }

    impl Place<IsName> for &'static str {
        fn place(self) -> Label {
            Label::from(self)
        }
    }

    #[diagnostic::do_not_recommend]
    impl<N: RunsOnState<M>, M> Place<IsNode<M>> for N {
        fn place(self) -> Label {
            N::label()
        }
    }

    /// The label of a place without payload.
    pub fn place<M>(node: impl Place<M>) -> Label {
        node.place()
    }

    /// The label of a node that takes `P`.
    pub fn receiver<P, M, N: Accepts<P, M>>(_node: &N, _payload: PhantomData<P>) -> Label {
        N::label()
    }

    pub fn target(to: Label, variant: &'static str, sends: bool) -> RouteTarget {
        RouteTarget { to, variant: Label::from(variant), sends }
    }

    pub fn go(gotos: &mut Gotos, to: Label) {
        gotos.push(Goto { to, payload: None });
    }

    pub fn send_one<P: Serialize + Send + Sync + 'static>(
        gotos: &mut Gotos,
        to: Label,
        payload: P,
    ) {
        gotos.push(Goto::send_typed(to, payload));
    }

    #[expect(clippy::needless_pass_by_value, reason = "the derive hands over a label it has made")]
    pub fn send_each<P: Serialize + Send + Sync + 'static>(
        gotos: &mut Gotos,
        to: Label,
        payloads: impl IntoIterator<Item = P>,
    ) {
        gotos.extend(payloads.into_iter().map(|it| Goto::send_typed(to.clone(), it)));
    }
}

/// A route, an error, or a result of either: what a branch function may return.
///
/// `M` only tells the compiler which of these it is.
#[diagnostic::on_unimplemented(
    message = "a branch cannot return `{Self}`",
    label = "neither a route nor a `Result` of one",
    note = "return an enum with `#[derive(Route)]`, a `Goto`, a `Vec` of these, or a `Result` of them"
)]
pub trait IntoGotos<M> {
    /// See [`Route::ONE_OF`].
    const ONE_OF: bool;

    /// Every place it can lead to, if that is known beforehand.
    fn targets() -> Option<Vec<RouteTarget>>;

    /// The places it leads to.
    fn into_gotos(self) -> Result<Gotos, NodeError>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Sure;
#[doc(hidden)]
#[derive(Debug)]
pub struct Fallible;

impl<R: Route> IntoGotos<Sure> for R {
    const ONE_OF: bool = R::ONE_OF;

    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn into_gotos(self) -> Result<Gotos, NodeError> {
        Ok(self.gotos())
    }
}

impl<R: Route, E: Into<NodeError>> IntoGotos<Fallible> for Result<R, E> {
    const ONE_OF: bool = R::ONE_OF;

    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn into_gotos(self) -> Result<Gotos, NodeError> {
        self.map(Route::gotos).map_err(Into::into)
    }
}
