//! Gotos: targets that a node, a route or an input chooses at run time, with or without a payload.

use std::{any::Any, fmt, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use smallvec::SmallVec;

use crate::{
    label::{END_NAME, Label},
    state::{
        erased::AnyUpdate,
        field::{FieldError, FieldWrite},
        limits,
    },
};

/// A single target chosen at run time: a node, a node with a payload, or END.
///
/// A [`Route`](crate::Route) lists its targets in its type, so the compiler and drawings know them. Use a `Goto` only
/// where the targets come from data.
///
/// ```
/// use graph_core::Goto;
/// use serde_json::json;
///
/// let targets = vec![Goto::node("review"), Goto::send("translate", json!({ "to": "fr" }))];
/// assert_eq!(targets[0].target(), "review");
/// assert_eq!(targets[1].payload()?, Some(json!({ "to": "fr" })));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Goto {
    pub(crate) to: Label,
    pub(crate) payload: Option<Payload>,
}

impl Goto {
    /// Creates a `Goto` that leads to the named node. The node runs on the state.
    pub fn node(name: impl Into<Label>) -> Self {
        Self { to: name.into(), payload: None }
    }

    /// Creates a `Goto` that ends this path through the graph.
    pub fn end() -> Self {
        Self::node(END_NAME)
    }

    /// Creates a `Goto` that sends a JSON payload to the named node.
    pub fn send(name: impl Into<Label>, payload: Value) -> Self {
        Self { to: name.into(), payload: Some(Payload::Json(Arc::new(payload))) }
    }

    /// Returns the name of the node, or `__end__`.
    pub fn target(&self) -> &str {
        self.to.as_str()
    }

    /// Returns the payload as JSON, if one is sent. Fails if the payload cannot be converted to JSON.
    pub fn payload(&self) -> Result<Option<Value>, serde_json::Error> {
        self.payload.as_ref().map(Payload::to_json).transpose()
    }

    /// Creates a `Goto` that sends a typed payload to the named node.
    pub(crate) fn send_typed<P: Serialize + Send + Sync + 'static>(
        name: Label,
        payload: P,
    ) -> Self {
        Self { to: name, payload: Some(Payload::Typed(Arc::new(payload))) }
    }
}

/// The payload of a [`Goto`]: a value of the sender's type, or JSON if it was sent as JSON or read from a checkpoint.
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

    /// Returns the payload, or an error if it is JSON that is nested too deeply.
    pub(crate) fn ensure_depth(self, node: &str) -> Result<Self, FieldError> {
        match self {
            Self::Json(value) => match Arc::try_unwrap(value) {
                Ok(value) => Ok(Self::Json(Arc::new(limits::ensure_depth(node, value)?))),
                Err(shared) => {
                    limits::check_storable(node, &shared, usize::MAX).map(|()| Self::Json(shared))
                }
            },
            typed @ Self::Typed(_) => Ok(typed),
        }
    }

    /// Converts the payload into the type that a node takes.
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

/// A serialisable payload of any type.
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

/// The targets that a route chose.
pub type Gotos = SmallVec<[Goto; 1]>;

/// A command from a subgraph to its parent graph.
pub(crate) struct ParentCommand {
    pub(crate) updates: SmallVec<[AnyUpdate; 1]>,
    pub(crate) gotos: Gotos,
    /// Converts an update of the parent's state to writes, for a parent in another process.
    pub(crate) to_writes: fn(&AnyUpdate) -> Result<Vec<FieldWrite>, FieldError>,
}

impl fmt::Debug for ParentCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentCommand")
            .field("updates", &self.updates.len())
            .field("gotos", &self.gotos)
            .finish()
    }
}
