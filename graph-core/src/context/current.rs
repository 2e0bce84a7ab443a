//! The current task: the task whose node is being polled on this thread.

use std::{cell::RefCell, sync::Arc};

use crate::context::task::TaskContext;

thread_local! {
    static CURRENT: RefCell<Option<Arc<TaskContext>>> = const { RefCell::new(None) };
}

/// Exchanges the current task with `task`. Called before and after each poll of a node.
pub(crate) fn swap(task: &mut Option<Arc<TaskContext>>) {
    CURRENT.with_borrow_mut(|current| std::mem::swap(current, task));
}

/// Returns the current task.
pub(super) fn get() -> Option<Arc<TaskContext>> {
    CURRENT.with_borrow(Clone::clone)
}
