//! Keys of journaled calls.

use std::fmt;

use serde::Serialize;

use crate::{context::task::TaskContext, error::NodeError};

/// The key under which the result of a call is journaled: the call's name, the caller's key and, from the second equal
/// call on, a number. If the call ends without a result, dropping the key releases the number, and the next
/// equal call takes it. That call then has the same number when the node runs again.
pub(super) struct CallKey<'a> {
    task: &'a TaskContext,
    key: String,
    number: u32,
    has_result: bool,
}

impl<'a> CallKey<'a> {
    pub(super) fn new(
        task: &'a TaskContext,
        name: &str,
        key: &impl Serialize,
    ) -> Result<Self, NodeError> {
        let (key, number) = task.number_call(name, key)?;
        Ok(Self { task, key, number, has_result: false })
    }

    /// Keeps the number in use, because the call's result has been journaled.
    pub(super) fn keep(mut self) {
        self.has_result = true;
    }
}

impl Drop for CallKey<'_> {
    fn drop(&mut self) {
        if !self.has_result {
            self.task.release_call_number(&self.key, self.number);
        }
    }
}

impl fmt::Display for CallKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            1 => f.write_str(&self.key),
            number => write!(f, "{}#{number}", self.key),
        }
    }
}
