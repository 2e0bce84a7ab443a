//! Commands and routes: choosing the nodes to run next.

#[doc(hidden)]
pub mod derive;
pub(crate) mod route;
pub(crate) mod target;

use std::fmt;

use smallvec::SmallVec;

use crate::{
    goto::ParentCommand,
    state::{State, erased::AnyUpdate},
};

pub use self::{
    route::{IntoGotos, NoRoute, Route, RouteTarget},
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
            to_writes: |update| match update.downcast_ref::<P::Update>() {
                Some(update) => P::update_to_writes(update),
                None => Ok(Vec::new()),
            },
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
