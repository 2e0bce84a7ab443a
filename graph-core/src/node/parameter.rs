//! The parts of a node's signature, each with its own error message.

use std::future::Future;

use crate::{
    context::Context,
    node::function::{OnPayload, OnState, PayloadType},
    state::State,
};

/// The first parameter of a node: a reference to the state, or a payload. `K` is `OnState` or `OnPayload`.
#[diagnostic::on_unimplemented(
    message = "the first parameter of a node cannot be `{Self}` in a graph with state `{S}`",
    label = "the first parameter must be `&{S}` or a payload",
    note = "to run the node on the state, write `&{S}`; nodes change the state by returning an update",
    note = "to run the node on a payload that a route sends, take a type that is `Send + Sync` and has `#[derive(Clone, serde::Serialize, serde::Deserialize)]`",
    note = "the context is the second parameter: `&Context<..>`"
)]
pub trait FirstParameter<S, K> {
    /// The marker of [`Node`](super::function::Node) for a function that returns `R` and has no second parameter.
    type Alone<R>;
    /// The marker of [`Node`](super::function::Node) for a function that returns `R` and takes a context of `C`.
    type WithContext<R, C>;
    /// The type `T` itself. The compiler checks a bound on it only if the first parameter is valid.
    type Then<T>;

    #[doc(hidden)]
    fn then<T>(value: T) -> Self::Then<T>;
}

#[diagnostic::do_not_recommend]
impl<S: State> FirstParameter<S, OnState> for &S {
    type Alone<R> = (OnState, R);
    type WithContext<R, C> = (OnState, R, C);
    type Then<T> = T;

    fn then<T>(value: T) -> T {
        value
    }
}

#[diagnostic::do_not_recommend]
impl<S, P: PayloadType> FirstParameter<S, OnPayload> for P {
    type Alone<R> = (OnPayload, P, R);
    type WithContext<R, C> = (OnPayload, P, R, C);
    type Then<T> = T;

    fn then<T>(value: T) -> T {
        value
    }
}

/// Never applies. With two implementations for every type, the compiler checks the bound on `P` before it chooses one,
/// so an invalid parameter causes one error, not a second one about the rest of the signature.
#[diagnostic::do_not_recommend]
impl<S, P: Impossible> FirstParameter<S, Neither> for P {
    type Alone<R> = Neither;
    type WithContext<R, C> = Neither;
    type Then<T> = T;

    fn then<T>(value: T) -> T {
        value
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Neither;

#[doc(hidden)]
pub trait Impossible {}

/// The second parameter of a node: a reference to the context.
#[diagnostic::on_unimplemented(
    message = "the second parameter of a node cannot be `{Self}` in a graph with dependencies `{C}`",
    label = "the second parameter must be `&Context<{C}>`",
    note = "write `&Context<{C}>`, or declare the dependencies of the graph: `StateGraph::<State, Dependencies>` for nodes that take `&Context<Dependencies>`"
)]
pub trait SecondParameter<C> {
    /// The type `T` itself. The compiler checks a bound on it only if the second parameter is valid.
    type Then<T>;

    #[doc(hidden)]
    fn then<T>(value: T) -> Self::Then<T>;
}

#[diagnostic::do_not_recommend]
impl<C> SecondParameter<C> for &Context<C> {
    type Then<T> = T;

    fn then<T>(value: T) -> T {
        value
    }
}

/// The future that an async function returns.
#[diagnostic::on_unimplemented(
    message = "a node must be async, but this function returns `{Self}` instead of a future",
    label = "not an async function",
    note = "write `async fn`"
)]
pub trait NodeFuture {
    /// The return type of the async function.
    type Output;
}

#[diagnostic::do_not_recommend]
impl<F: Future> NodeFuture for F {
    type Output = F::Output;
}
