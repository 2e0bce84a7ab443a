//! Nodes as targets of gotos, and the helpers of `#[derive(Route)]`.

use serde::Serialize;

use crate::{goto::Goto, label::Label};

/// A node that accepts payloads of type `P`.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not accept a payload of type `{P}`",
    label = "cannot send a payload of type `{P}` to this node",
    note = "a node that accepts payloads is an `async fn(P) -> R` or `async fn(P, &Context<C>) -> R`",
    note = "the payload type `P` must have `#[derive(Clone, serde::Serialize, serde::Deserialize)]`"
)]
pub trait AcceptsPayload<P, M>: Sized {
    /// Returns the node's name.
    fn label(&self) -> Label {
        Label::of_fn_or_path::<Self>()
    }
}

/// A node that runs on the graph's state, not on a payload.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node that runs on the state",
    label = "cannot go to this node without a payload",
    note = "a node that runs on the state is an `async fn(&S) -> R` or `async fn(&S, &Context<C>) -> R`",
    note = "use `send(node, payload)` for a node that takes a payload"
)]
pub trait RunsOnState<M>: Sized {
    /// Returns the node's name.
    fn label(&self) -> Label {
        Label::of_fn_or_path::<Self>()
    }
}

/// Creates a [`Goto`] to a node that runs on the graph's state. For a node that takes a payload, use [`send`].
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
#[expect(clippy::needless_pass_by_value, reason = "a node is a function or a reference")]
pub fn goto<N: RunsOnState<M>, M>(node: N) -> Goto {
    Goto::node(node.label())
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
#[expect(clippy::needless_pass_by_value, reason = "a node is a function or a reference")]
pub fn send<N, P, M>(node: N, payload: P) -> Goto
where
    N: AcceptsPayload<P, M>,
    P: Serialize + Send + Sync + 'static,
{
    Goto::send_typed(node.label(), payload)
}
