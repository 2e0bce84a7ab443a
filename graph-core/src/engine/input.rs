//! The type-erased input of a run.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{goto::Goto, state::erased::AnyUpdate};

/// The input of a run.
pub(crate) enum RunInput {
    Fresh(AnyUpdate),
    /// A whole state. Only a new thread accepts it, because it would reset fields of an existing thread.
    WholeState(AnyUpdate),
    /// No input. The run continues from the thread's checkpoint.
    Continue,
    /// Fresh input that is used only if the thread has no checkpoint. Otherwise the run continues from the checkpoint,
    /// and is resumed with these values, if there are any.
    StartOrContinue(AnyUpdate, Option<Resume>),
    Command(CommandInput),
}

/// A command given as input.
#[derive(Default)]
pub(crate) struct CommandInput {
    pub(crate) update: Option<AnyUpdate>,
    pub(crate) gotos: Vec<Goto>,
    pub(crate) resume: Option<Resume>,
    /// Ids of the pending interrupts, if they are recorded with the command: see
    /// [`TaskEvent::Command`](crate::checkpoint::TaskEvent::Command).
    pub(crate) pending: Option<Vec<String>>,
}

/// The values that a run is resumed with: either one value for the only pending interrupt, or one value per interrupt
/// id.
pub(crate) enum Resume {
    Single(Value),
    ById(BTreeMap<String, Value>),
}
