//! The current task: the task whose node is being polled on this thread.

use std::{cell::Cell, sync::Arc};

use crate::context::task::TaskContext;

thread_local! {
    static CURRENT: Cell<Option<Arc<TaskContext>>> = const { Cell::new(None) };
}

/// Makes `task` the current task and returns the previous one. Called before and after each poll of a node.
#[inline]
pub(crate) fn replace(task: Option<Arc<TaskContext>>) -> Option<Arc<TaskContext>> {
    CURRENT.replace(task)
}

/// Returns the current task.
pub(super) fn get() -> Option<Arc<TaskContext>> {
    let task = CURRENT.take();
    CURRENT.set(task.clone());
    task
}
