//! Events of a run, in the form in which they are buffered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::SystemTime,
};

use graph_core::{Event, Interrupt, stream::Values};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::langgraph::{error::NamedError, request::config::Metadata};

/// Distance between the numbers of consecutive events. One event can produce several protocol events, which use the
/// numbers in between. The distance is small, because JavaScript represents integers exactly only up to 2^53.
pub(in crate::langgraph) const SEQ_STEP: u64 = 256;

/// An event of a run. Replicas share its serialised form, which is stored together with its number.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::langgraph) struct Item {
    /// Number of the event. Numbers increase within a thread, over all its runs.
    #[serde(skip)]
    pub(in crate::langgraph) seq: u64,
    pub(in crate::langgraph) at: SystemTime,
    pub(in crate::langgraph) body: Body,
}

/// Content of an event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum Body {
    /// The run was started with this input.
    Started(Option<Value>),
    /// An event of the engine.
    Engine(Event),
    /// Tasks raised interrupts. `values` is the state before them.
    Interrupted { namespace: Arc<str>, values: Option<Values>, interrupts: Vec<Interrupt> },
    /// A message, or one piece of a message.
    Message(MessageItem),
    /// A message whose pieces were sent is complete.
    MessageEnd(MessageItem),
    /// The run ended with this output.
    Finished(Value),
    /// The run failed.
    Failed(NamedError),
}

/// A message, or one piece of a message.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::langgraph) struct MessageItem {
    /// The task that sent the message.
    #[serde(flatten)]
    pub(in crate::langgraph) origin: Origin,
    /// The message or piece.
    pub(in crate::langgraph) message: Value,
    /// The message so far, if `message` is a piece.
    pub(in crate::langgraph) so_far: Option<Value>,
    /// Whether this is the first event of the message.
    pub(in crate::langgraph) first: bool,
    /// Arguments of the tool call that the message answers, if they are known.
    pub(in crate::langgraph) arguments: Option<Value>,
}

/// The task that sent an event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::langgraph) struct Origin {
    pub(in crate::langgraph) namespace: Arc<str>,
    pub(in crate::langgraph) step: i64,
    pub(in crate::langgraph) node: String,
    pub(in crate::langgraph) task: String,
}

/// Properties of a run that its events contain.
#[derive(Debug)]
pub(in crate::langgraph) struct RunFacts {
    pub(in crate::langgraph) run: Uuid,
    pub(in crate::langgraph) thread: Uuid,
    pub(in crate::langgraph) assistant: Uuid,
    pub(in crate::langgraph) graph: String,
    /// Name of the run in the `events` stream.
    pub(in crate::langgraph) name: String,
    /// Tags of the run in the `events` stream.
    pub(in crate::langgraph) tags: Vec<String>,
    /// Number of the attempt that executes the run, starting at 1.
    pub(in crate::langgraph) attempt: AtomicU32,
    pub(in crate::langgraph) metadata: Metadata,
}

impl RunFacts {
    /// Returns the number of the attempt that executes the run.
    pub(in crate::langgraph) fn attempt(&self) -> u32 {
        self.attempt.load(Ordering::Relaxed)
    }

    /// Returns the metadata of the run's events and checkpoints.
    pub(in crate::langgraph) fn to_metadata(&self) -> Metadata {
        let mut metadata = self.metadata.clone();
        let facts = [
            ("graph_id", Value::from(self.graph.clone())),
            ("assistant_id", Value::from(self.assistant.to_string())),
            ("run_id", Value::from(self.run.to_string())),
            ("thread_id", Value::from(self.thread.to_string())),
            ("run_attempt", Value::from(self.attempt())),
        ];
        metadata.extend(facts.map(|(key, value)| (key.to_owned(), value)));
        metadata
    }
}
