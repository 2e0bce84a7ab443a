//! Interrupts, and the reasons for which a run stops without failing.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// An interrupt raised by a node. The run can be resumed with a value for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Identifies the interrupt if several are pending: see [`Input::resume_by_id`](crate::Input::resume_by_id).
    pub id: String,
    /// The value passed to [`Context::interrupt`](crate::Context::interrupt).
    pub value: Value,
    /// Namespace of the task that raised the interrupt.
    pub namespace: String,
}

/// A type into which [`Context::interrupt`](crate::Context::interrupt) converts the value with which the run is
/// resumed. Implemented for all types that serde can deserialise.
#[diagnostic::on_unimplemented(
    message = "a run cannot be resumed with a value of type `{Self}`",
    label = "the type of the resume value is `{Self}`",
    note = "write the type of the value, as in `let approved: bool = cx.interrupt(..)?;`",
    note = "the type must implement serde's `Deserialize`"
)]
pub trait ResumeValue: DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> ResumeValue for T {}

/// Why a run stopped early without failing and without an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The run reached a static stop before a node.
    Before,
    /// The run reached a static stop after a node.
    After,
    /// The run was drained: see [`RunControl::drain`](crate::RunControl::drain).
    Drained,
}
