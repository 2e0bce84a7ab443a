//! What can be said of one run.

use std::sync::Arc;

use serde_json::Value;

use super::Control;
use crate::{
    effects::Effects,
    engine::{Durability, RunSettings},
    graph::Stops,
    random,
    stream::Mode,
};

/// What holds for one run: limits, durability, stops, what to stream.
#[derive(Clone, Debug)]
#[must_use]
pub struct RunOptions {
    pub(crate) settings: RunSettings,
    pub(crate) control: Control,
    pub(crate) modes: Vec<Mode>,
    pub(crate) subgraphs: bool,
    pub(crate) buffer: usize,
    run_id: Option<String>,
}

/// How many steps a run may take unless it is told otherwise: as many as in LangGraph.
const STEP_LIMIT: u32 = 10_007;

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            settings: RunSettings {
                limit: STEP_LIMIT,
                concurrency: None,
                durability: Durability::default(),
                stop_before: None,
                stop_after: None,
                metadata: Default::default(),
                config: Default::default(),
                effects: None,
            },
            control: Control::new(),
            modes: vec![Mode::Updates],
            subgraphs: false,
            buffer: 64,
            run_id: None,
        }
    }
}

impl RunOptions {
    /// The usual: 10,007 steps, no limit on tasks at once, stored while the next step runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes at most so many steps.
    ///
    /// As in LangGraph, a run of `n` steps needs a limit of `n + 1`, and a run that goes on from a checkpoint may
    /// take two steps more.
    pub fn limit(mut self, steps: u32) -> Self {
        self.settings.limit = steps;
        self
    }

    /// Runs at most so many tasks of a step at once.
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.settings.concurrency = Some(tasks);
        self
    }

    /// Says when checkpoints are stored.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// Stops before these nodes, in place of what the graph says.
    pub fn stop_before(mut self, stops: Stops) -> Self {
        self.settings.stop_before = Some(stops);
        self
    }

    /// Stops after these nodes, in place of what the graph says.
    pub fn stop_after(mut self, stops: Stops) -> Self {
        self.settings.stop_after = Some(stops);
        self
    }

    /// Stores this with every checkpoint, to find it by.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.metadata.insert(key.into(), value.into());
        self
    }

    /// Gives nodes a value to ask for with [`Context::config`](crate::Context::config).
    pub fn config(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.config.insert(key.into(), value.into());
        self
    }

    /// Names the run; otherwise it gets a random name.
    pub fn run_named(mut self, run: impl Into<String>) -> Self {
        self.run_id = Some(run.into());
        self
    }

    /// Lets this control stop the run.
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Lets somebody watch the run's outside calls: record them, or give them back without making them.
    pub fn effects(mut self, effects: Arc<dyn Effects>) -> Self {
        self.settings.effects = Some(effects);
        self
    }

    /// Streams these kinds of events; only updates unless it is said.
    pub fn modes(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        self.modes = modes.into_iter().collect();
        self
    }

    /// Streams events of subgraphs too.
    pub fn subgraphs(mut self) -> Self {
        self.subgraphs = true;
        self
    }

    /// Lets so many events wait for the stream's reader before the run waits.
    pub fn buffer(mut self, events: usize) -> Self {
        self.buffer = events.max(1);
        self
    }

    pub(crate) fn run_id(&self) -> Arc<str> {
        match &self.run_id {
            Some(run) => Arc::from(run.as_str()),
            None => Arc::from(format!("{:016x}{:016x}", random::bits(), random::bits())),
        }
    }
}
