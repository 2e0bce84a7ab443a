//! The executions of the nodes of a graph.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{Context, checkpoint::TaskId};

/// The executions of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<LogData>>);

#[derive(Debug, Default)]
pub(crate) struct LogData {
    started: Vec<TaskId>,
    /// Tasks whose external call was recorded.
    pub(crate) recorded_calls: BTreeSet<TaskId>,
    /// Number of calls that were made again although they were recorded.
    pub(crate) repeated_calls: usize,
    /// Number of running tasks of each step.
    running: BTreeMap<i64, usize>,
    /// Maximum number of steps between two tasks that run at the same time.
    spread: i64,
}

impl Log {
    pub(crate) fn with<T>(&self, use_data: impl FnOnce(&mut LogData) -> T) -> T {
        use_data(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn enter(&self, cx: &Context) {
        self.with(|it| {
            it.started.push(cx.task_id());
            *it.running.entry(cx.step()).or_default() += 1;
            let steps = it.running.keys().next().zip(it.running.keys().next_back());
            it.spread = it.spread.max(steps.map_or(0, |(first, last)| last - first));
        });
    }

    pub(crate) fn leave(&self, cx: &Context) {
        self.with(|it| {
            let running = it.running.entry(cx.step()).or_default();
            *running = running.saturating_sub(1);
            it.running.retain(|_, it| *it > 0);
        });
    }

    /// Returns the largest number of steps between two tasks that ran at the same time.
    pub(crate) fn spread(&self) -> i64 {
        self.with(|it| it.spread)
    }

    pub(crate) fn started(&self) -> Vec<TaskId> {
        self.with(|it| std::mem::take(&mut it.started))
    }

    /// Returns the number of external calls that were made again although they were recorded.
    pub(crate) fn repeated_calls(&self) -> usize {
        self.with(|it| it.repeated_calls)
    }
}
