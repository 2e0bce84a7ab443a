//! Branch functions: plain functions of the state that choose where to go.

use std::sync::Arc;

use crate::{
    State,
    command::IntoGotos,
    graph::{RouteCall, Router},
    label::Label,
    node::Private,
};

/// A function that chooses where to go: `fn(&S) -> R` or `fn(&S, &C) -> R`, where `R` is a route or a
/// `Result` of one.
///
/// `M` only tells the compiler which form it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a branch of a graph over `{S}`",
    label = "not a function that chooses where to go",
    note = "a branch is a `fn(&{S}) -> R` or `fn(&{S}, &{C}) -> R`, not async, where `R` has `#[derive(Route)]`"
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
            one_of: R::ONE_OF,
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
            let deps =
                deps.expect("a run starts only with the dependencies its graph was built for");
            self(state_of::<S>(call), deps).into_gotos()
        };
        Router {
            name: Label::of_fn_or_path::<F>(),
            targets: R::targets(),
            one_of: R::ONE_OF,
            route: Arc::new(route),
        }
    }
}

fn state_of<'a, S: State>(call: &'a RouteCall<'_>) -> &'a S {
    call.state.as_any().downcast_ref().expect("a graph's branches are written for its own state")
}
