//! A session that is stored in a directory, with everything that is needed to resume it.
//!
//! | file | contents |
//! |---|---|
//! | `run.json` | configuration, a [`Manifest`] |
//! | `state.db` | checkpoints and journal, so that completed calls and executions are not repeated |
//! | `events.jsonl` | event log |
//! | `lock` | locked by the process that runs the session |
//! | `result.json` | result, a [`Report`] |
//! | `program.*` | the most recent program |

mod fork;
mod id;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use app_support::{
    event_log::{EventLog, EventLogError},
    files::{self, FileError},
    lock::{DirLock, LockError},
};
use graph_core::{AsNode, EventKind, Input, RunOptions, RunOutcome, StreamMode, Thread};
use graph_store::sqlite::SqliteSaver;
use graph_trace::{Header, RunStatus, Trace, TraceBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use id::run_id;

use crate::{
    event::{NumberedEvent, Progress},
    failure::Attempt,
    graph::{self, Deps},
    job::{Job, JobError},
    models::{ModelChoice, RunBudget},
    state::{CallCost, Outcome, Session},
};

/// Id of the graph thread in the checkpointer.
const THREAD: &str = "session";

/// File name of the event log.
pub(crate) const EVENTS: &str = "events.jsonl";

/// Configuration of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The task, the checks for its program, and the limits.
    pub job: Job,
    /// The model that writes programs.
    pub choice: ModelChoice,
    pub sandbox: SandboxConfig,
    /// Maximum spending.
    #[serde(default)]
    pub budget: RunBudget,
    /// Attempts that were copied from another session. This session continues after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SandboxConfig {
    /// Name of the back end. If `None`, the default is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    pub pool: usize,
    /// CPU share of each sandbox; 1.0 is one processor.
    pub cpus: f64,
    /// Name of the language in which programs are written.
    pub language: String,
    /// Directory with the packages that programs may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wheels: Option<PathBuf>,
}

/// Contents of `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub task: String,
    /// The model that wrote the programs.
    pub model: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub history: Vec<Attempt>,
    pub calls: Vec<CallCost>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("{} contains no session; create one with `agent-sandbox run`", .0.display())]
    NoRun(PathBuf),
    #[error("{} is not empty; choose another directory with --out", .0.display())]
    NotEmpty(PathBuf),
    #[error("the session in {dir} is not complete; finish it with `agent-sandbox resume {dir}`", dir = .0.display())]
    Unfinished(PathBuf),
    #[error("cannot fork {dir} at attempt {at}; choose an attempt from 1 to {most}", dir = dir.display())]
    NoAttempt { dir: PathBuf, at: u32, most: u32 },
    #[error("another process is running the session in {}; wait for it or stop it", .0.display())]
    Busy(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Events(#[from] EventLogError),
    #[error(transparent)]
    Store(#[from] graph_store::OpenError),
    #[error(transparent)]
    Graph(#[from] graph_core::BuildError),
    #[error(transparent)]
    Run(#[from] graph_core::RunError),
    #[error("the session stopped before it was complete")]
    Stopped,
}

/// A session stored in a directory.
#[derive(Clone, Debug)]
pub struct Run {
    dir: PathBuf,
    manifest: Manifest,
    /// Whether the budget was changed. If it was, a session that ended because its budget was spent can continue.
    reopened: bool,
}

impl Run {
    /// Creates a session in a directory that does not exist or is empty.
    pub fn create(dir: impl Into<PathBuf>, manifest: Manifest) -> Result<Self, RunError> {
        let dir = dir.into();
        manifest.check()?;
        if !files::is_empty_dir(&dir) {
            return Err(RunError::NotEmpty(dir));
        }
        files::create_dir(&dir)?;
        let run = Self { dir, manifest, reopened: false };
        run.write_manifest()?;
        Ok(run)
    }

    /// Opens an existing session.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, RunError> {
        let dir = dir.into();
        let path = dir.join("run.json");
        if !path.is_file() {
            return Err(RunError::NoRun(dir));
        }
        let manifest = serde_json::from_str(&files::read(&path)?);
        let manifest = manifest.map_err(io::Error::from).map_err(FileError::at(&path))?;
        Ok(Self { dir, manifest, reopened: false })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the session's configuration.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Replaces the budget. The amount that the session has already spent counts against the new budget. If the session
    /// ended because its budget was spent, the next call to [`Run::run`] continues it.
    pub fn set_budget(&mut self, budget: RunBudget) -> Result<(), RunError> {
        let _lock = DirLock::exclusive(&self.dir)?;
        self.manifest.budget = budget;
        self.reopened = true;
        self.write_manifest()
    }

    /// Runs the session from its last checkpoint to its end and calls `on_event` for each new event. Fails if another
    /// process is running the session. The models share the remaining budget of the session.
    pub async fn run(
        &self,
        deps: Deps,
        on_event: impl FnMut(&NumberedEvent) + Send,
    ) -> Result<Report, RunError> {
        self.run_to_end(deps, on_event, None).await
    }

    /// Runs the session like [`Run::run`], and also returns a trace of the steps that this call executed.
    pub async fn run_traced(
        &self,
        deps: Deps,
        on_event: impl FnMut(&NumberedEvent) + Send,
    ) -> Result<(Report, Trace), RunError> {
        let mut builder = TraceBuilder::new();
        let report = self.run_to_end(deps, on_event, Some(&mut builder)).await?;
        let header = Header {
            graph: graph::without_checkpointer()?.fingerprint(),
            engine: graph_core::VERSION.to_owned(),
            input: Value::Null,
            later_inputs: Vec::new(),
        };
        Ok((report, builder.finish(header, RunStatus::Done)))
    }

    async fn run_to_end(
        &self,
        deps: Deps,
        on_event: impl FnMut(&NumberedEvent) + Send,
        trace: Option<&mut TraceBuilder>,
    ) -> Result<Report, RunError> {
        let _lock = DirLock::exclusive(&self.dir)?;
        let mut sender = EventSender { log: EventLog::open(self.dir.join(EVENTS))?, on_event };
        let file = deps.executor.language().file();
        let saver = Arc::new(SqliteSaver::open(self.dir.join("state.db"))?);
        let modes =
            if trace.is_some() { StreamMode::DEBUG.to_vec() } else { vec![StreamMode::Custom] };
        let options = RunOptions::new().stream_modes(modes);
        let options = options.step_limit(graph::max_steps(&self.manifest.job));
        let graph = graph::graph(saver)?;
        let here = graph.thread(THREAD, deps.clone()).state().await?;
        let paid = here.as_ref().map_or(&[][..], |it| &it.values.calls);
        let deps = Deps { budget: self.manifest.budget.remaining(paid), ..deps };
        let thread = graph.thread(THREAD, deps).with_options(options);
        let session = match here {
            Some(here) if here.is_done() && here.values.spent.is_some() && self.reopened => {
                let update = Session::update().spent(None).outcome(None);
                thread.update_state(update, AsNode::node(graph::REOPEN_AFTER)).await?;
                stream(&thread, Input::proceed(), trace, &mut sender).await?
            }
            Some(here) if here.is_done() => here.values,
            Some(_) => stream(&thread, Input::proceed(), trace, &mut sender).await?,
            None => {
                let Manifest { job, earlier_attempts, .. } = self.manifest.clone();
                let attempt = earlier_attempts.len() as u32;
                let session =
                    Session { job, attempt, history: earlier_attempts, ..Session::default() };
                stream(&thread, session.into(), trace, &mut sender).await?
            }
        };
        let report = self.finish(session, file)?;
        // If an earlier process died after the last step, the log may lack this event.
        sender.send(Progress::Complete { outcome: report.outcome.clone() })?;
        Ok(report)
    }

    /// Writes the result files. Idempotent.
    fn finish(&self, session: Session, file: &str) -> Result<Report, RunError> {
        let outcome = session.outcome.ok_or(RunError::Stopped)?;
        let model = session.calls.first().map(|it| it.model.clone()).unwrap_or_default();
        let (history, calls) = (session.history, session.calls);
        let report = Report { task: session.job.task, model, outcome, history, calls };
        let extension = Path::new(file).extension().and_then(|it| it.to_str()).unwrap_or("txt");
        let program = self.dir.join(format!("program.{extension}"));
        files::write_unsynced(&program, &report.outcome.code)?;
        files::write_unsynced(&self.dir.join("result.json"), &pretty(&report))?;
        Ok(report)
    }

    fn write_manifest(&self) -> Result<(), RunError> {
        Ok(files::write_synced(&self.dir.join("run.json"), &pretty(&self.manifest))?)
    }
}

impl From<LockError> for RunError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held(dir) => Self::Busy(dir),
            LockError::File(error) => Self::File(error),
        }
    }
}

/// Runs the graph until it stops. Logs the progress events and adds all other events to the trace.
async fn stream<T: FnMut(&NumberedEvent) + Send>(
    thread: &Thread<Session, Deps>,
    input: Input<Session>,
    mut trace: Option<&mut TraceBuilder>,
    sender: &mut EventSender<T>,
) -> Result<Session, RunError> {
    if let Some(trace) = &mut trace {
        trace.begin_run(thread.graph().input_to_json(&input).unwrap_or_default());
    }
    let mut events = thread.stream(input);
    while let Some(event) = events.next().await {
        if let EventKind::Custom(value) = event.kind {
            if let Ok(event) = serde_json::from_value(value) {
                sender.send(event)?;
            }
        } else if let Some(trace) = &mut trace {
            trace.add_event(&event);
        }
    }
    match events.finish().await {
        Ok(RunOutcome::Done(session)) => Ok(session),
        Ok(_) => Err(RunError::Stopped),
        Err(error) => {
            sender.send(Progress::Error { message: error.to_string() })?;
            Err(error.into())
        }
    }
}

/// Appends new events to the log and passes them to `on_event`.
struct EventSender<T> {
    log: EventLog<Progress>,
    on_event: T,
}

impl<T: FnMut(&NumberedEvent) + Send> EventSender<T> {
    fn send(&mut self, event: Progress) -> Result<(), RunError> {
        if let Some(numbered) = self.log.append(event)? {
            (self.on_event)(&numbered);
        }
        Ok(())
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("the value is representable as JSON") + "\n"
}
