//! Node functions and their four supported signatures.

use std::{future::Future, marker::PhantomData, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    command::{
        route::DeclaredTargets,
        target::{AcceptsPayload, RunsOnState},
    },
    context::{Context, task::TaskContext},
    error::NodeError,
    node::{
        erased::{BoxFuture, ErasedNode, NodeBody, Private, TaskInput},
        output::{IntoNodeOutput, NodeOutput},
        state_parameter::StateParameter,
    },
    state::State,
};

/// A node of a graph with state `S` and dependencies `C`: an `async fn` or closure with one of these signatures.
///
/// | signature | runs on |
/// |---|---|
/// | `async fn(&S) -> R` | the state |
/// | `async fn(&S, &Context<C>) -> R` | the state, with access to the context |
/// | `async fn(P) -> R` | a payload that is sent to the node |
/// | `async fn(P, &Context<C>) -> R` | a payload, with access to the context |
///
/// `R` is the state's update, a [`Command`](crate::Command), a [`Goto`](crate::Goto), `()`, or a `Result`, `Option` or
/// `Vec` of these.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid node for a graph with state `{S}`",
    label = "not an async function with a supported signature",
    note = "a node is an `async fn(&{S}) -> R` or `async fn(P) -> R`, optionally with `&Context<{C}>` as second parameter; the state and the context are passed by shared reference"
)]
pub trait Node<S: State, C, M>: Clone + Send + Sync + 'static {
    /// Type of the node's input: the state, or the payload.
    type Input;

    /// Returns the targets that the node's return type declares.
    #[doc(hidden)]
    fn targets() -> DeclaredTargets;

    #[doc(hidden)]
    fn erase(self, _: Private) -> NodeBody;
}

/// Like `AsyncFn(A)`, but requires the future to be `Send`, which `AsyncFn` cannot express yet.
///
/// The future of an async closure that captures variables borrows from the closure, so such a closure implements
/// `AsyncFn` but not `Fn`. Every async closure implements `FnOnce`, whose future owns the captured variables and has a
/// type that can be bounded. A node is therefore cloned and consumed by each call. The bound `AsyncFn` rejects closures
/// that modify their captured variables, because each call would modify another clone.
pub trait SendFn1<'a, A: 'a>: Send + Sync {
    type Out;
    type Fut: Future<Output = Self::Out> + Send + 'a;
    fn call(self, a: A) -> Self::Fut;
}

impl<'a, F, Fut, A: 'a> SendFn1<'a, A> for F
where
    F: AsyncFn(A) -> Fut::Output + FnOnce(A) -> Fut + Send + Sync,
    Fut: Future + Send + 'a,
{
    type Out = Fut::Output;
    type Fut = Fut;
    fn call(self, a: A) -> Fut {
        self(a)
    }
}

/// Like [`SendFn1`], for functions with two parameters.
pub trait SendFn2<'a, A: 'a, B: 'a>: Send + Sync {
    type Out;
    type Fut: Future<Output = Self::Out> + Send + 'a;
    fn call(self, a: A, b: B) -> Self::Fut;
}

impl<'a, F, Fut, A: 'a, B: 'a> SendFn2<'a, A, B> for F
where
    F: AsyncFn(A, B) -> Fut::Output + FnOnce(A, B) -> Fut + Send + Sync,
    Fut: Future + Send + 'a,
{
    type Out = Fut::Output;
    type Fut = Fut;
    fn call(self, a: A, b: B) -> Fut {
        self(a, b)
    }
}

/// The bounds that a payload type must satisfy. Payloads are stored in checkpoints and cloned for retries.
pub trait PayloadType: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<P: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> PayloadType for P {}

#[doc(hidden)]
#[derive(Debug)]
pub struct OnState;

#[doc(hidden)]
#[derive(Debug)]
pub struct OnPayload;

impl<F, S, C, R> Node<S, C, (OnState, R)> for F
where
    F: for<'a> SendFn1<'a, &'a S, Out = R> + Clone + 'static,
    S: State,
    R: IntoNodeOutput<S>,
{
    type Input = S;

    fn targets() -> DeclaredTargets {
        R::targets()
    }

    fn erase(self, _: Private) -> NodeBody {
        NodeBody(Arc::new(StateNode::<_, S> {
            call: move |state: Arc<S>, _: &Arc<TaskContext>| {
                let node = self.clone();
                Box::pin(async move { node.call(&state).await.into_node_output() })
                    as BoxFuture<Result<NodeOutput, NodeError>>
            },
            state: PhantomData,
        }))
    }
}

impl<F, S, C, R> Node<S, C, (OnState, R, C)> for F
where
    F: for<'a> SendFn2<'a, &'a S, &'a Context<C>, Out = R> + Clone + 'static,
    S: State,
    C: Send + Sync + 'static,
    R: IntoNodeOutput<S>,
{
    type Input = S;

    fn targets() -> DeclaredTargets {
        R::targets()
    }

    fn erase(self, _: Private) -> NodeBody {
        NodeBody(Arc::new(StateNode::<_, S> {
            call: move |state: Arc<S>, cx: &Arc<TaskContext>| {
                let node = self.clone();
                let cx = Context::<C>::new(cx.clone());
                Box::pin(async move { node.call(&state, &cx).await.into_node_output() })
                    as BoxFuture<Result<NodeOutput, NodeError>>
            },
            state: PhantomData,
        }))
    }
}

impl<F, S, C, P, R> Node<S, C, (OnPayload, P, R)> for F
where
    F: for<'a> SendFn1<'a, P, Out = R> + Clone + 'static,
    S: State,
    P: PayloadType,
    R: IntoNodeOutput<S>,
{
    type Input = P;

    fn targets() -> DeclaredTargets {
        R::targets()
    }

    fn erase(self, _: Private) -> NodeBody {
        NodeBody(Arc::new(PayloadNode::<_, P> {
            call: move |payload: P, _: &Arc<TaskContext>| {
                let node = self.clone();
                Box::pin(async move { node.call(payload).await.into_node_output() })
                    as BoxFuture<Result<NodeOutput, NodeError>>
            },
            payload: PhantomData,
        }))
    }
}

impl<F, S, C, P, R> Node<S, C, (OnPayload, P, R, C)> for F
where
    F: for<'a> SendFn2<'a, P, &'a Context<C>, Out = R> + Clone + 'static,
    S: State,
    C: Send + Sync + 'static,
    P: PayloadType,
    R: IntoNodeOutput<S>,
{
    type Input = P;

    fn targets() -> DeclaredTargets {
        R::targets()
    }

    fn erase(self, _: Private) -> NodeBody {
        NodeBody(Arc::new(PayloadNode::<_, P> {
            call: move |payload: P, cx: &Arc<TaskContext>| {
                let node = self.clone();
                let cx = Context::<C>::new(cx.clone());
                Box::pin(async move { node.call(payload, &cx).await.into_node_output() })
                    as BoxFuture<Result<NodeOutput, NodeError>>
            },
            payload: PhantomData,
        }))
    }
}

// These bounds do not check that the target is a valid node, because `StateGraph::node` does, and a second check would
// repeat its error for each edge and route. They only exclude references, so that a state is not used as a payload.
#[diagnostic::do_not_recommend]
impl<F, P, Fut> AcceptsPayload<P, (P, Fut)> for F
where
    F: FnOnce(P) -> Fut,
    P: Serialize + DeserializeOwned,
{
}

#[diagnostic::do_not_recommend]
impl<F, P, B, Fut> AcceptsPayload<P, (P, B, Fut)> for F
where
    F: FnOnce(P, B) -> Fut,
    P: Serialize + DeserializeOwned,
{
}

#[diagnostic::do_not_recommend]
impl<F, A, Fut, S, K> RunsOnState<(A, Fut, S, K)> for F
where
    F: FnOnce(A) -> Fut,
    A: StateParameter<S, K>,
{
}

#[diagnostic::do_not_recommend]
impl<F, A, B, Fut, S, K> RunsOnState<(A, B, Fut, S, K)> for F
where
    F: FnOnce(A, B) -> Fut,
    A: StateParameter<S, K>,
{
}

struct StateNode<F, S> {
    call: F,
    state: PhantomData<fn(S)>,
}

impl<F, S> ErasedNode for StateNode<F, S>
where
    F: Fn(Arc<S>, &Arc<TaskContext>) -> BoxFuture<Result<NodeOutput, NodeError>> + Send + Sync,
    S: State,
{
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<NodeOutput, NodeError>> {
        match input.state::<S>(cx.node()) {
            Ok(state) => (self.call)(state, cx),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    fn input_json(&self, input: &TaskInput, _: &TaskContext) -> Option<Value> {
        input.to_json::<S>()
    }
}

struct PayloadNode<F, P> {
    call: F,
    payload: PhantomData<fn(P)>,
}

impl<F, P> ErasedNode for PayloadNode<F, P>
where
    F: Fn(P, &Arc<TaskContext>) -> BoxFuture<Result<NodeOutput, NodeError>> + Send + Sync,
    P: PayloadType,
{
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<NodeOutput, NodeError>> {
        match input.payload::<P>(cx.node()) {
            Ok(payload) => (self.call)(payload, cx),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    fn input_json(&self, input: &TaskInput, _: &TaskContext) -> Option<Value> {
        input.payload_json()
    }

    fn requires_payload(&self) -> bool {
        true
    }
}
