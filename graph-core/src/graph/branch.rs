//! Branch functions: functions that choose the next nodes from the state.

use std::sync::Arc;

use crate::{
    command::route::IntoGotos,
    context::{Context, task::TaskContext},
    error::NodeError,
    goto::Gotos,
    graph::erased::{RouteCall, RouteFn, Router},
    label::Label,
    node::{
        erased::{BoxFuture, Private},
        function::{SendFn1, SendFn2},
    },
    state::{State, erased::AnyState},
};

/// A branch function. `R` is a route or a `Result` that contains one.
///
/// | signature | use |
/// |---|---|
/// | `fn(&S) -> R` | decides by the state |
/// | `fn(&S, &C) -> R` | also uses the run's dependencies |
/// | `async fn(&S) -> R` | decides by an external call, such as a request to a model |
/// | `async fn(&S, &Context<C>) -> R` | also uses the context of the node's task |
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid branch for a graph with state `{S}`",
    label = "not a function that returns a route, or an async one whose future is not `Send`",
    note = "a branch is a `fn(&{S}) -> R` or `fn(&{S}, &{C}) -> R`, or an `async fn(&{S}) -> R` or `async fn(&{S}, &Context<{C}>) -> R`",
    note = "`R` is an enum with `#[derive(Route)]`, a `Goto`, a `Vec` or `Option` of these, or a `Result` of them",
    note = "an async branch must not hold a value that is not `Send`, such as an `Rc` or a lock guard, across an await"
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
        router::<F, R, M>(RouteFn::Sync(Arc::new(route)))
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
        router::<F, R, M>(RouteFn::Sync(Arc::new(route)))
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsAsync<R, M>(std::marker::PhantomData<(R, M)>);

#[doc(hidden)]
#[derive(Debug)]
pub struct IsAsyncWithContext<R, M>(std::marker::PhantomData<(R, M)>);

#[diagnostic::do_not_recommend]
impl<F, S, C, R, M> IntoRouter<S, C, IsAsync<R, M>> for F
where
    F: for<'a> SendFn1<'a, &'a S, Out = R> + Clone + 'static,
    S: State,
    R: IntoGotos<M>,
{
    fn into_router(self, _: Private) -> Router {
        let route = move |state: AnyState, _: &Arc<TaskContext>| {
            let (route, state) = (self.clone(), typed::<S>(state));
            Box::pin(async move { route.call(&state).await.into_gotos() })
                as BoxFuture<Result<Gotos, NodeError>>
        };
        router::<F, R, M>(RouteFn::Async(Arc::new(route)))
    }
}

#[diagnostic::do_not_recommend]
impl<F, S, C, R, M> IntoRouter<S, C, IsAsyncWithContext<R, M>> for F
where
    F: for<'a> SendFn2<'a, &'a S, &'a Context<C>, Out = R> + Clone + 'static,
    S: State,
    C: Send + Sync + 'static,
    R: IntoGotos<M>,
{
    fn into_router(self, _: Private) -> Router {
        let route = move |state: AnyState, cx: &Arc<TaskContext>| {
            let (route, state) = (self.clone(), typed::<S>(state));
            let cx = Context::<C>::new(cx.clone());
            Box::pin(async move { route.call(&state, &cx).await.into_gotos() })
                as BoxFuture<Result<Gotos, NodeError>>
        };
        router::<F, R, M>(RouteFn::Async(Arc::new(route)))
    }
}

fn router<F, R: IntoGotos<M>, M>(function: RouteFn) -> Router {
    Router {
        name: Label::of_fn_or_path::<F>(),
        targets: R::targets(),
        exclusive: R::EXCLUSIVE,
        function,
    }
}

fn state_of<'a, S: State>(call: &'a RouteCall<'_>) -> &'a S {
    call.state.as_any().downcast_ref().expect("a branch has the same state type as its graph")
}

fn typed<S: State>(state: AnyState) -> Arc<S> {
    state.downcast().expect("a branch has the same state type as its graph")
}
