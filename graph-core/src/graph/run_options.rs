//! Options of runs.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    checkpoint::writer::Durability,
    context::settings::RunSettings,
    control::RunControl,
    effects::{EffectInterceptor, Interceptor},
    graph::stops::Stops,
    random,
    remote::task_call::RemoteTaskRunner,
    stream::StreamMode,
};

/// Options of a run: limits, durability, static stops and streaming.
///
/// ```
/// use graph_core::{Durability, RunOptions, StreamMode};
///
/// let options = RunOptions::new()
///     .step_limit(50)
///     .max_concurrency(4)
///     .durability(Durability::Sync)
///     .metadata("customer", "ada")
///     .stream_modes([StreamMode::Updates, StreamMode::Custom]);
/// # let _ = options;
/// ```
///
/// Set them for all runs of a graph with [`CompiledGraph::with`](crate::CompiledGraph::with), or for the runs of one
/// thread with [`Thread::with_options`](crate::Thread::with_options).
#[derive(Clone, Debug)]
#[must_use]
pub struct RunOptions {
    pub(crate) settings: RunSettings,
    pub(crate) stop_before: Option<Stops>,
    pub(crate) stop_after: Option<Stops>,
    pub(crate) task_runner: Option<Arc<dyn RemoteTaskRunner>>,
    pub(crate) control: RunControl,
    pub(crate) stream_modes: Vec<StreamMode>,
    pub(crate) subgraphs: bool,
    pub(crate) event_buffer: usize,
    run_id: Option<String>,
}

/// Default step limit, which is the same as in LangGraph.
const DEFAULT_STEP_LIMIT: u32 = 10_007;

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            settings: RunSettings {
                step_limit: DEFAULT_STEP_LIMIT,
                max_concurrency: None,
                durability: Durability::default(),
                metadata: Default::default(),
                config: Default::default(),
                effects: None,
            },
            stop_before: None,
            stop_after: None,
            task_runner: None,
            control: RunControl::new(),
            stream_modes: vec![StreamMode::Updates],
            subgraphs: false,
            event_buffer: 64,
            run_id: None,
        }
    }
}

impl RunOptions {
    /// Creates the default options: 10,007 steps, unlimited concurrency, async durability.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the number of steps.
    ///
    /// As in LangGraph, a run of `n` steps needs a limit of `n + 1`. A run that continues from a checkpoint may take
    /// two more steps than a run with fresh input and the same limit.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.settings.step_limit = steps;
        self
    }

    /// Limits the number of tasks that run concurrently within a step.
    pub fn max_concurrency(mut self, tasks: usize) -> Self {
        self.settings.max_concurrency = Some(tasks);
        self
    }

    /// Sets when checkpoints are stored.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// Sets the nodes of the graph before which the run stops. Overrides the graph's setting.
    ///
    /// A run fails if the graph does not have one of the nodes. Stops inside a subgraph are part of that graph: see
    /// [`StateGraph::stop_before`](crate::StateGraph::stop_before).
    pub fn stop_before(mut self, stops: Stops) -> Self {
        self.stop_before = Some(stops);
        self
    }

    /// Sets the nodes of the graph after which the run stops. Overrides the graph's setting.
    ///
    /// A run fails if the graph does not have one of the nodes. Stops inside a subgraph are part of that graph: see
    /// [`StateGraph::stop_after`](crate::StateGraph::stop_after).
    pub fn stop_after(mut self, stops: Stops) -> Self {
        self.stop_after = Some(stops);
        self
    }

    /// Adds an entry to the metadata of every checkpoint that the run creates. Checkpoint listings can be filtered by
    /// metadata.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds a configuration value, which nodes read with [`Context::config`](crate::Context::config).
    pub fn config(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.config.insert(key.into(), value.into());
        self
    }

    /// Sets the run id. The default is random.
    ///
    /// A run with an id is idempotent: if a run with the same id has already started on the thread, fresh input is not
    /// applied again, and the thread continues instead. A caller that does not know whether its last call reached the
    /// thread can therefore repeat it, even from another process.
    ///
    /// Until the run has stored a checkpoint, a repeated command is not applied again either, and its answer does not
    /// answer another interrupt. After that, pass [`Input::proceed`](crate::Input::proceed) instead of the command, or
    /// use [`Thread::start_or_resume`](crate::Thread::start_or_resume). At one checkpoint, a different answer with the
    /// same run id is treated as a repetition, and ignored if the first one has been used. If the first call was made
    /// [at](crate::Thread::at) the newest checkpoint, its repetition continues the thread instead of travelling in
    /// time.
    ///
    /// A repeated answer that was first sent while no interrupt was pending is used only if no task of the step has
    /// finished, waits for an answer or has received one. The use of an answer in a subgraph that failed, or whose
    /// process ended, is not detected.
    pub fn run_id(mut self, run: impl Into<String>) -> Self {
        self.run_id = Some(run.into());
        self
    }

    /// Sets the control that can cancel or drain the run.
    pub fn control(mut self, control: RunControl) -> Self {
        self.control = control;
        self
    }

    /// Sets an interceptor, which can record the run's external calls or replace them with recorded results.
    pub fn effect_interceptor(mut self, interceptor: Arc<dyn EffectInterceptor>) -> Self {
        self.settings.effects = Some(Interceptor::Local(interceptor));
        self
    }

    /// Sets a runner, which can run tasks of the graph in other processes: see [`remote`](crate::remote).
    ///
    /// Subgraphs and their tasks stay in this process, and so do all tasks of [eager](crate::StateGraph::eager) graphs,
    /// of graphs with untracked fields, and of runs with an effect interceptor.
    pub fn task_runner(mut self, runner: Arc<dyn RemoteTaskRunner>) -> Self {
        self.task_runner = Some(runner);
        self
    }

    /// Selects the kinds of events to stream. The default is [`StreamMode::Updates`].
    pub fn stream_modes(mut self, modes: impl IntoIterator<Item = StreamMode>) -> Self {
        self.stream_modes = modes.into_iter().collect();
        self
    }

    /// Also streams the events of subgraphs.
    pub fn subgraphs(mut self) -> Self {
        self.subgraphs = true;
        self
    }

    /// Sets how many events are buffered before the run waits for the stream's reader. The default is 64.
    pub fn event_buffer(mut self, events: usize) -> Self {
        self.event_buffer = events.max(1);
        self
    }

    /// Returns whether the caller chose the run's id.
    pub(crate) fn has_run_id(&self) -> bool {
        self.run_id.is_some()
    }

    pub(crate) fn resolve_run_id(&self) -> Arc<str> {
        match &self.run_id {
            Some(run) => Arc::from(run.as_str()),
            None => Arc::from(format!("{:016x}{:016x}", random::bits(), random::bits())),
        }
    }
}
