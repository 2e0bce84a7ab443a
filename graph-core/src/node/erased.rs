//! Type-erased nodes, as the engine calls them.

use std::{any::Any, fmt, future::Future, pin::Pin, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    context::task::TaskContext,
    error::NodeError,
    goto::Payload,
    node::output::NodeOutput,
    state::{State, state_json},
};

/// The type-erased function of a node.
#[doc(hidden)]
#[derive(Clone)]
pub struct NodeBody(pub(crate) Arc<dyn ErasedNode>);

impl fmt::Debug for NodeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeBody")
    }
}

/// An argument that seals a method. Only this crate can construct it, so only this crate can call the method.
#[doc(hidden)]
#[derive(Debug)]
pub struct Private(pub(crate) ());

/// The input of a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskInput {
    State(Arc<dyn Any + Send + Sync>),
    Payload(Payload),
}

impl TaskInput {
    /// Downcasts the state to the type that the node takes.
    pub(crate) fn state<S: State>(self, node: &str) -> Result<Arc<S>, NodeError> {
        match self {
            Self::State(state) => Ok(state.downcast::<S>().map_err(|_| {
                NodeError::terminal(TaskInputError::StateMismatch { node: node.to_owned() })
            })?),
            Self::Payload(_) => Err(NodeError::terminal(TaskInputError::UnexpectedPayload {
                node: node.to_owned(),
            })),
        }
    }

    /// Converts the payload into the type that the node takes.
    pub(crate) fn payload<P>(self, node: &str) -> Result<P, NodeError>
    where
        P: Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let node = || node.to_owned();
        let payload = match self {
            Self::Payload(payload) => payload.take::<P>().map_err(|error| {
                TaskInputError::InvalidPayload { node: node(), problem: error.to_string() }
            }),
            Self::State(_) => Err(TaskInputError::MissingPayload { node: node() }),
        };
        payload.map_err(NodeError::terminal)
    }

    /// Returns the state of type `S` or the payload as JSON.
    pub(crate) fn to_json<S: State>(&self) -> Option<Value> {
        match self {
            Self::State(state) => state_json(state.downcast_ref::<S>()?, |_| true).ok(),
            Self::Payload(_) => self.payload_json(),
        }
    }

    /// Returns the payload as JSON.
    pub(crate) fn payload_json(&self) -> Option<Value> {
        match self {
            Self::Payload(payload) => payload.to_json().ok(),
            Self::State(_) => None,
        }
    }
}

/// The error returned when a task cannot start because its input does not match the node's parameter.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TaskInputError {
    /// A payload was sent to a node that runs on the state.
    #[error(
        "node `{node}` runs on the state and cannot accept a payload; use an edge or `goto` to reach it, or change its first parameter to the payload type"
    )]
    UnexpectedPayload {
        /// Name of the node.
        node: String,
    },
    /// A node that takes a payload was reached without one.
    #[error(
        "node `{node}` takes a payload but was reached without one; use `send` to reach it, or change its first parameter to the state"
    )]
    MissingPayload {
        /// Name of the node.
        node: String,
    },
    /// A payload does not match the type of the node's parameter.
    #[error("node `{node}` cannot accept the payload sent to it: {problem}")]
    InvalidPayload {
        /// Name of the node.
        node: String,
        /// Description of the mismatch.
        problem: String,
    },
    /// The node takes a state whose type differs from the state type of the graph.
    #[error("node `{node}` takes a state whose type differs from the state type of its graph")]
    StateMismatch {
        /// Name of the node.
        node: String,
    },
}

crate::readable_debug!(TaskInputError);

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A type-erased node that the engine can run.
pub(crate) trait ErasedNode: Send + Sync {
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<NodeOutput, NodeError>>;

    /// Returns the input as JSON, for events and for cache keys.
    fn input_json(&self, input: &TaskInput, cx: &TaskContext) -> Option<Value>;

    /// Returns whether the node accepts only payloads.
    fn requires_payload(&self) -> bool {
        false
    }

    /// Returns the fields visible to the node, or `None` if all fields are visible.
    fn reads(&self) -> Option<Arc<Vec<String>>> {
        None
    }
}
