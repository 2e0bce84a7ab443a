//! A session in a folder: everything that is needed to go on with it.
//!
//! | file | what |
//! |---|---|
//! | `run.json` | what it was given: the [`Manifest`] |
//! | `state.db` | its thread: no call is paid for twice, no program is run twice |
//! | `events.jsonl` | what happened, in order |
//! | `lock` | held by the one process that is at work on it |
//! | `result.json`, `program.*` | what it came to |

mod fork;
mod new;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_core::{AsNode, EventKind, Exit, Input, Mode, RunOptions, Thread};
use graph_store::sqlite::SqliteSaver;
use graph_trace::{End, Header, Trace, TraceBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use new::run_id;

use crate::{
    event::Progress,
    failure::Attempt,
    graph::{self, Deps},
    job::{BadJob, Job},
    log::{EventLog, Numbered},
    models::{Allowance, Choice},
    state::{Outcome, Paid, Session},
};

/// The thread's name.
const THREAD: &str = "session";

/// The file of the events.
pub(crate) const EVENTS: &str = "events.jsonl";

/// What a session was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The task.
    pub job: Job,
    /// Who writes.
    pub choice: Choice,
    /// Where programs run.
    pub place: Place,
    /// What it may spend.
    #[serde(default)]
    pub allowance: Allowance,
    /// Attempts of another session that this one begins with, as if it had made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Attempt>,
}

/// Where programs run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The one back end to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Sandboxes at once.
    pub pool: usize,
    /// How much of a processor each gets.
    pub cpus: f64,
    /// What programs are written in.
    pub language: String,
    /// The folder of packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wheels: Option<PathBuf>,
}

/// What a session came to, as it stands in `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The task.
    pub task: String,
    /// Who wrote.
    pub model: String,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// All attempts.
    pub history: Vec<Attempt>,
    /// What was paid.
    pub calls: Vec<Paid>,
}

/// Why a session does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunProblem {
    /// What is asked for cannot be done.
    #[error(transparent)]
    Job(#[from] BadJob),
    /// There is no session.
    #[error("{} holds no session; `agent-sandbox run` makes one", .0.display())]
    NoRun(PathBuf),
    /// The folder of a new session is not empty.
    #[error("{} is not empty; name another folder with --out", .0.display())]
    NotEmpty(PathBuf),
    /// It has no result yet.
    #[error("{folder} has not come to its end; bring it there with: agent-sandbox resume {folder}", folder = .0.display())]
    Unfinished(PathBuf),
    /// There is no such attempt.
    #[error("no session can begin anew at attempt {at} of {folder}; give one from 1 to {most}", folder = folder.display())]
    NoAttempt {
        /// The session.
        folder: PathBuf,
        /// The attempt that was asked for.
        at: u32,
        /// The last that there is, or that could follow.
        most: u32,
    },
    /// Another process is at work on it.
    #[error("another process is at work on {}; wait for it, or end it", .0.display())]
    Busy(PathBuf),
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The thread cannot be stored.
    #[error(transparent)]
    Store(#[from] graph_store::OpenError),
    /// The graph does not compile.
    #[error(transparent)]
    Graph(#[from] graph_core::BuildError),
    /// The graph failed.
    #[error(transparent)]
    Run(#[from] graph_core::RunError),
    /// It stopped before its end.
    #[error("the session stopped before its end")]
    Stopped,
}

/// A session in a folder.
#[derive(Clone, Debug)]
pub struct Run {
    folder: PathBuf,
    manifest: Manifest,
    /// Whether it was allowed another budget, and goes further where it ended because the old one was spent.
    reopened: bool,
}

impl Run {
    /// Makes a new session in a folder, which may be there already if it is empty.
    pub fn create(folder: impl Into<PathBuf>, manifest: Manifest) -> Result<Self, RunProblem> {
        let folder = folder.into();
        manifest.check()?;
        if fs::read_dir(&folder).is_ok_and(|mut it| it.next().is_some()) {
            return Err(RunProblem::NotEmpty(folder));
        }
        fs::create_dir_all(&folder).map_err(with(&folder))?;
        let run = Self { folder, manifest, reopened: false };
        run.write("run.json", &pretty(&run.manifest))?;
        Ok(run)
    }

    /// Opens a session.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, RunProblem> {
        let folder = folder.into();
        let path = folder.join("run.json");
        if !path.is_file() {
            return Err(RunProblem::NoRun(folder));
        }
        let text = fs::read_to_string(&path).map_err(with(&path))?;
        let manifest = serde_json::from_str(&text).map_err(io::Error::from).map_err(with(&path))?;
        Ok(Self { folder, manifest, reopened: false })
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it was given.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Allows it to spend this much in place of what it was allowed; what it has paid counts. If it ended because its
    /// budget was spent, it goes further from there.
    pub fn allow(&mut self, allowance: Allowance) -> Result<(), RunProblem> {
        let _lock = self.lock()?;
        self.manifest.allowance = allowance;
        self.reopened = true;
        self.write("run.json", &pretty(&self.manifest))
    }

    /// Goes on to the end, from wherever it stands, and tells what happens. Nobody else may be at work on it. Its budget
    /// is what is left of its own allowance.
    pub async fn go(
        &self,
        deps: Deps,
        tell: impl FnMut(&Numbered) + Send,
    ) -> Result<Report, RunProblem> {
        self.go_on(deps, tell, None).await
    }

    /// The same, with what was done now, step by step.
    pub async fn go_traced(
        &self,
        deps: Deps,
        tell: impl FnMut(&Numbered) + Send,
    ) -> Result<(Report, Trace), RunProblem> {
        let mut builder = TraceBuilder::new();
        let report = self.go_on(deps, tell, Some(&mut builder)).await?;
        let header = Header {
            graph: graph::unstored()?.identity(),
            engine: graph_core::VERSION.to_owned(),
            input: Value::Null,
            then: Vec::new(),
        };
        Ok((report, builder.finish(header, End::Done)))
    }

    async fn go_on(
        &self,
        deps: Deps,
        tell: impl FnMut(&Numbered) + Send,
        trace: Option<&mut TraceBuilder>,
    ) -> Result<Report, RunProblem> {
        let _lock = self.lock()?;
        let mut teller = Teller::open(self.folder.join(EVENTS), tell)?;
        let file = deps.workshop.language().file();
        let saver = Arc::new(SqliteSaver::open(self.folder.join("state.db"))?);
        let modes = if trace.is_some() { Mode::DEBUG.to_vec() } else { vec![Mode::Custom] };
        let options = RunOptions::new().modes(modes);
        let options = options.limit(graph::most_steps(&self.manifest.job));
        let graph = graph::graph(saver)?;
        let here = graph.thread(THREAD, deps.clone()).state().await?;
        let paid = here.as_ref().map_or(&[][..], |it| &it.values.calls);
        let deps = Deps { budget: self.manifest.allowance.budget(paid), ..deps };
        let thread = graph.thread(THREAD, deps).with(options);
        let session = match here {
            Some(here) if here.is_done() && here.values.spent.is_some() && self.reopened => {
                let update = Session::update().spent(None).outcome(None);
                thread.update_state(update, AsNode::node(graph::REOPENED_AT)).await?;
                stream(&thread, Input::proceed(), trace, &mut teller).await?
            }
            Some(here) if here.is_done() => here.values,
            Some(_) => stream(&thread, Input::proceed(), trace, &mut teller).await?,
            None => {
                let Manifest { job, kept, .. } = self.manifest.clone();
                let attempt = kept.len() as u32;
                let session = Session { job, attempt, history: kept, ..Session::default() };
                stream(&thread, session.into(), trace, &mut teller).await?
            }
        };
        let report = self.finish(session, file)?;
        // A process that died between the last step and the list's last line has not told it.
        teller.tell(Progress::Complete { outcome: report.outcome.clone() })?;
        Ok(report)
    }

    /// Writes what it came to, which is the same however often it is written.
    fn finish(&self, session: Session, file: &str) -> Result<Report, RunProblem> {
        let outcome = session.outcome.ok_or(RunProblem::Stopped)?;
        let model = session.calls.first().map(|it| it.model.clone()).unwrap_or_default();
        let (history, calls) = (session.history, session.calls);
        let report = Report { task: session.job.task, model, outcome, history, calls };
        let extension = Path::new(file).extension().and_then(|it| it.to_str()).unwrap_or("txt");
        self.write(&format!("program.{extension}"), &report.outcome.code)?;
        self.write("result.json", &pretty(&report))?;
        Ok(report)
    }

    /// Takes the session for this process; the lock goes with it.
    fn lock(&self) -> Result<File, RunProblem> {
        let path = self.folder.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(with(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RunProblem::Busy(self.folder.clone())),
            Err(TryLockError::Error(source)) => Err(RunProblem::File { path, source }),
        }
    }

    /// Writes a file as a whole: nobody finds half of it.
    fn write(&self, name: &str, text: &str) -> Result<(), RunProblem> {
        let (path, fresh) = (self.folder.join(name), self.folder.join(format!(".{name}")));
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path)).map_err(with(&path))
    }
}

/// Runs the graph until it stops, and tells and notes what it does.
async fn stream<T: FnMut(&Numbered) + Send>(
    thread: &Thread<Session, Deps>,
    input: Input<Session>,
    mut trace: Option<&mut TraceBuilder>,
    teller: &mut Teller<T>,
) -> Result<Session, RunProblem> {
    if let Some(trace) = &mut trace {
        trace.begin(thread.graph().describe(&input).unwrap_or_default());
    }
    let mut events = thread.stream(input);
    while let Some(event) = events.next().await {
        if let EventKind::Custom(value) = event.kind {
            if let Ok(event) = serde_json::from_value(value) {
                teller.tell(event)?;
            }
        } else if let Some(trace) = &mut trace {
            trace.note(&event);
        }
    }
    match events.finish().await {
        Ok(Exit::Done(session)) => Ok(session),
        Ok(_) => Err(RunProblem::Stopped),
        Err(error) => {
            teller.tell(Progress::Error { message: error.to_string() })?;
            Err(error.into())
        }
    }
}

/// Tells what happens, each thing once.
struct Teller<T> {
    path: PathBuf,
    log: EventLog,
    tell: T,
}

impl<T: FnMut(&Numbered) + Send> Teller<T> {
    fn open(path: PathBuf, tell: T) -> Result<Self, RunProblem> {
        let log = EventLog::open(&path).map_err(with(&path))?;
        Ok(Self { path, log, tell })
    }

    fn tell(&mut self, event: Progress) -> Result<(), RunProblem> {
        if let Some(numbered) = self.log.tell(event).map_err(with(&self.path))? {
            (self.tell)(&numbered);
        }
        Ok(())
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("it holds nothing that JSON cannot") + "\n"
}

fn with(path: &Path) -> impl FnOnce(io::Error) -> RunProblem + '_ {
    |source| RunProblem::File { path: path.to_owned(), source }
}
