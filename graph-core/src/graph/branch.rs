//! Branch functions: plain functions that choose the next nodes from the state.

use std::sync::Arc;

use crate::{
    command::route::IntoGotos,
    graph::erased::{RouteCall, Router},
    label::Label,
    node::erased::Private,
    state::State,
};

/// A branch function: `fn(&S) -> R` or `fn(&S, &C) -> R`, where `R` is a route or a `Result` that contains one.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid branch for a graph with state `{S}`",
    label = "not a function that returns a route",
    note = "a branch is a `fn(&{S}) -> R` or `fn(&{S}, &{C}) -> R`; it must not be async",
    note = "`R` is an enum with `#[derive(Route)]`, a `Goto`, a `Vec` or `Option` of these, or a `Result` of them"
)]
pub trait IntoRouter<S: State, C, M> {
    #[doc(hidden)]
    fn into_router(self, _: Private) -> Router;
}

#[diagnostic::do_not_recommend]
impl<F, S, C, R, M> IntoRouter<S, C, (R, M)> for F
where
    F: Fn(&S) -> R + Send + Sync + 'static,
    S: State,
    R: IntoGotos<M>,
{
    fn into_router(self, _: Private) -> Router {
        let route = move |call: &RouteCall<'_>| self(state_of::<S>(call)).into_gotos();
        Router {
            name: Label::of_fn_or_path::<F>(),
            targets: R::targets(),
            exclusive: R::EXCLUSIVE,
            route: Arc::new(route),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<F, S, C, R, M> IntoRouter<S, C, (R, M, C)> for F
where
    F: Fn(&S, &C) -> R + Send + Sync + 'static,
    S: State,
    C: 'static,
    R: IntoGotos<M>,
{
    fn into_router(self, _: Private) -> Router {
        let route = move |call: &RouteCall<'_>| {
            let deps = call.deps.downcast_ref::<C>();
            let deps = deps.expect("a run always has dependencies of the graph's type");
            self(state_of::<S>(call), deps).into_gotos()
        };
        Router {
            name: Label::of_fn_or_path::<F>(),
            targets: R::targets(),
            exclusive: R::EXCLUSIVE,
            route: Arc::new(route),
        }
    }
}

fn state_of<'a, S: State>(call: &'a RouteCall<'_>) -> &'a S {
    call.state.as_any().downcast_ref().expect("a branch has the same state type as its graph")
}
