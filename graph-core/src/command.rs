//! Commands and routes: choosing the nodes to run next.

#[doc(hidden)]
pub mod derive;
pub(crate) mod route;
pub(crate) mod target;

use std::{fmt, marker::PhantomData};

use smallvec::SmallVec;

use crate::{
    goto::ParentCommand,
    state::{State, erased::AnyUpdate},
};

pub use self::{
    route::{DeclaredTargets, IntoGotos, NoRoute, Route, RouteTarget},
    target::{goto, send},
};
pub use crate::goto::{Goto, Gotos};

/// A node's return value that updates the state, chooses the nodes to run next, or both.
///
/// The run follows the node's own edges in addition to the chosen targets.
///
/// ```
/// use graph_core::{Command, END, Route, State};
///
/// #[derive(State, Clone, Default)]
/// struct Ticket {
///     text: String,
///     team: String,
/// }
///
/// #[derive(Route)]
/// enum Next {
///     #[to(billing)]
///     Billing,
///     #[to(END)]
///     Nobody,
/// }
///
/// async fn triage(ticket: &Ticket) -> Command<Ticket, Next> {
///     if ticket.text.contains("invoice") {
///         Ticket::update().team("billing").goto(Next::Billing)
///     } else {
///         Command::goto(Next::Nobody)
///     }
/// }
///
/// async fn billing(_: &Ticket) {}
/// ```
///
/// `P` is the route type of a command to the parent graph: see [`parent`](Self::parent).
pub struct Command<S: State, R = NoRoute, P = NoRoute> {
    update: Option<S::Update>,
    route: Option<R>,
    parent: Option<Box<ParentCommand>>,
    parent_route: PhantomData<fn(P)>,
}

// The route need not implement `Route` here: the node that returns the command requires it. A bound on both would
// report the same mistake twice.
impl<S: State, R, P> Command<S, R, P> {
    /// Creates a command that goes to the route's targets without updating the state.
    pub fn goto(route: R) -> Self {
        Self { update: None, route: Some(route), parent: None, parent_route: PhantomData }
    }

    /// Creates a command that updates the state and goes to the route's targets.
    pub fn new(update: S::Update, route: R) -> Self {
        Self { update: Some(update), ..Self::goto(route) }
    }
}

impl<S: State, P> Command<S, NoRoute, P> {
    /// Creates a command that updates the state. Only the node's own edges are followed.
    pub fn update(update: S::Update) -> Self {
        Self { update: Some(update), route: None, parent: None, parent_route: PhantomData }
    }
}

impl<S: State, R, P: Route> Command<S, R, P> {
    /// Creates a command that leaves the subgraph, updates the state `S2` of the parent and goes to the parent's nodes.
    ///
    /// The current step of the subgraph is discarded. The run fails if the graph is not a subgraph.
    ///
    /// The return type of the node contains the type of the route, so the parent validates the targets when it is
    /// compiled and shows them in drawings. `Command<Draft, NoRoute, Goto>` allows any target.
    ///
    /// ```
    /// use graph_core::{Command, NoRoute, Route, START, State, StateGraph, subgraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     note: String,
    /// }
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Draft {
    ///     text: String,
    /// }
    ///
    /// #[derive(Route)]
    /// enum Leave {
    ///     #[to(help)]
    ///     GiveUp,
    /// }
    ///
    /// async fn write(_: &Draft) -> Command<Draft, NoRoute, Leave> {
    ///     Command::parent::<Essay>(Essay::update().note("no idea"), Leave::GiveUp)
    /// }
    ///
    /// async fn help(_: &Essay) {}
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let drafting = StateGraph::<Draft>::new().node(write).edge(START, write).compile()?;
    /// let draft = subgraph("draft", &drafting, |_: &Essay| Draft::default(), |_| Essay::update());
    /// let graph = StateGraph::<Essay>::new().node(&draft).node(help).edge(START, &draft).compile()?;
    /// assert!(graph.drawing(0).edges.iter().any(|it| it.from == "draft" && it.to == "help"));
    /// # Ok(()) }
    /// ```
    pub fn parent<S2: State>(update: S2::Update, route: P) -> Self {
        let parent = ParentCommand {
            updates: SmallVec::from_buf([Box::new(update) as AnyUpdate]),
            gotos: route.gotos(),
            to_writes: |update| match update.downcast_ref::<S2::Update>() {
                Some(update) => S2::update_to_writes(update),
                None => Ok(Vec::new()),
            },
        };
        let parent = Some(Box::new(parent));
        Self { update: None, route: None, parent, parent_route: PhantomData }
    }

    pub(crate) fn into_parts(self) -> (Option<S::Update>, Option<R>, Option<Box<ParentCommand>>) {
        (self.update, self.route, self.parent)
    }
}

impl<S: State, R, P> fmt::Debug for Command<S, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("has_update", &self.update.is_some())
            .field("has_route", &self.route.is_some())
            .field("parent", &self.parent)
            .finish()
    }
}
