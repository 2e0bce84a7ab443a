//! Measures the time per step. Our saver, its lower bounds (floors) and LangGraph take turns.

use std::{io, path::Path, sync::Arc, time::Instant};

use graph_core::checkpoint::Checkpointer;
use tokio::runtime::Handle;

use super::{
    chat,
    counting_hook::CountingHook,
    database::{Databases, Pair},
    disk,
    floor::{CommitProfile, FileSpace, Floor},
    insert::Insert,
    langgraph::{self, SyncMode},
    workload::{StorageLoad, Store, StoredWorkload},
};
use crate::{
    langgraph::LangGraph,
    measure::{Cost, Run, Samples, Side},
};

/// Number of measurements of our saver and the floors in each round.
const TURNS: usize = 3;

/// The result of one workload at one load.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) workload: StoredWorkload,
    pub(crate) load: StorageLoad,
    /// Our costs per step. `None` if the database is not available.
    pub(crate) ours: Option<OurCosts>,
    /// LangGraph's cost per step with the same durability as ours.
    pub(crate) langgraph: Option<Cost>,
    /// LangGraph's cost per step with its default settings. `None` if the defaults are as durable as our settings.
    pub(crate) default_sync: Option<Cost>,
}

/// The costs of our saver and of the floors.
#[derive(Clone, Debug)]
pub(crate) struct OurCosts {
    pub(crate) cost: Cost,
    /// Costs of the floors per step. The limit on the ratio of our cost to the floor applies to the first entry.
    pub(crate) floors: Vec<(Kind, Cost)>,
    /// Number of fsyncs per step.
    pub(crate) commits_per_step: f64,
}

/// The kind of a floor: which data it writes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Overwrites a file with as many bytes as the database writes per commit.
    SameBytes(usize),
    /// Sends the engine's data to the server in an `INSERT` statement.
    Insert,
    /// Overwrites a file with the engine's data.
    InPlace,
    /// Appends the engine's data to a file.
    Growing,
}

pub(crate) fn row(
    workload: StoredWorkload,
    load: StorageLoad,
    rounds: usize,
    databases: &mut Databases<'_>,
    langgraph: &mut Option<LangGraph>,
) -> io::Result<Row> {
    let absent = Row { workload, load, ours: None, langgraph: None, default_sync: None };
    let Some(pair) = databases.pair(workload.store())? else { return Ok(absent) };
    let mut sides = Sides::new(&pair, load, databases.runtime())?;
    let mut other = LangGraphSide::new(workload, load, pair.langgraph, langgraph);
    other.round(langgraph);
    other.discard_warm_up();
    for round in 0..rounds {
        sides.round(round);
        other.round(langgraph);
    }
    let [langgraph, default_sync] = other.costs();
    Ok(Row { ours: sides.costs(), langgraph, default_sync, ..absent })
}

/// The measured writers: our saver, and the bare file and database writes that serve as lower bounds (floors).
struct Sides {
    /// Our saver first, followed by the floors.
    sides: Vec<Side>,
    floors: Vec<Kind>,
    commits_per_step: f64,
}

impl Sides {
    fn new(pair: &Pair, load: StorageLoad, runtime: &Handle) -> io::Result<Self> {
        let DurableWrites { commits, actual } = measure_writes(&pair.saver, load, runtime);
        let floor = |name: &str, commits, space| floor(&pair.dir.join(name), commits, space);
        let mut floors = Vec::new();
        match (&pair.server, actual) {
            (Some(url), _) => floors.push((Kind::Insert, insert(url, commits, runtime)?)),
            (None, Some(actual)) => {
                floors.push((
                    Kind::SameBytes(actual.bytes),
                    floor("heavy", actual, FileSpace::Preallocated)?,
                ));
            }
            // The system does not report how many bytes were written, so there is no floor with the same number of
            // bytes.
            (None, None) => {}
        }
        floors.push((Kind::InPlace, floor("kept", commits, FileSpace::Preallocated)?));
        floors.push((Kind::Growing, floor("grown", commits, FileSpace::Growing)?));
        let (floors, runs): (_, Vec<Run>) = floors.into_iter().unzip();
        let runs = [ours(pair.saver.clone(), load, runtime)].into_iter().chain(runs);
        let steps = load.all_steps();
        Ok(Self {
            sides: runs.map(|it| Side::warmed_up(it, steps)).collect(),
            floors,
            commits_per_step: commits.count as f64 / steps as f64,
        })
    }

    /// Measures each side several times, because this is cheap compared with running LangGraph.
    fn round(&mut self, round: usize) {
        let count = self.sides.len();
        for turn in 0..TURNS {
            for side in 0..count {
                self.sides[(round + turn + side) % count].round();
            }
        }
    }

    fn costs(&self) -> Option<OurCosts> {
        let mut costs = self.sides.iter().map(Side::cost);
        let cost = costs.next()??;
        let floors = self.floors.iter().zip(costs).map(|(kind, cost)| Some((*kind, cost?)));
        let floors = floors.collect::<Option<_>>()?;
        Some(OurCosts { cost, floors, commits_per_step: self.commits_per_step })
    }
}

/// The durable writes of one run.
struct DurableWrites {
    /// The writes that the engine requests.
    commits: CommitProfile,
    /// The writes that this process actually makes, if the system reports them.
    actual: Option<CommitProfile>,
}

fn measure_writes(
    saver: &Arc<dyn Checkpointer>,
    load: StorageLoad,
    runtime: &Handle,
) -> DurableWrites {
    let counting_hook = Arc::new(CountingHook::before(saver.clone()));
    let written_bytes = || disk::written_bytes("self");
    let before = written_bytes();
    runtime.block_on(chat::run(&chat::graph(counting_hook.clone()), "counted", load));
    let written = before.zip(written_bytes()).map(|(before, after)| (after - before) as usize);
    let count = counting_hook.hook().commits();
    let commits = |bytes: usize| CommitProfile { count, bytes: bytes / count.max(1) };
    DurableWrites { commits: commits(counting_hook.hook().bytes()), actual: written.map(commits) }
}

fn ours(saver: Arc<dyn Checkpointer>, load: StorageLoad, runtime: &Handle) -> Run {
    let (graph, runtime) = (chat::graph(saver), runtime.clone());
    let mut runs = 0;
    Box::new(move || {
        runs += 1;
        let (graph, name) = (graph.clone(), format!("run-{runs}"));
        let run = runtime.spawn(async move {
            let start = Instant::now();
            chat::run(&graph, name, load).await;
            start.elapsed()
        });
        runtime.block_on(run).expect("a workload does not panic")
    })
}

fn floor(path: &Path, commits: CommitProfile, space: FileSpace) -> io::Result<Run> {
    let mut floor = Floor::new(path, commits, space)?;
    Ok(Box::new(move || floor.run().expect("the file is writable")))
}

fn insert(url: &str, commits: CommitProfile, runtime: &Handle) -> io::Result<Run> {
    let insert = Insert::new(url, commits, runtime)?;
    Ok(Box::new(move || insert.run().expect("the server accepts statements")))
}

/// LangGraph's side of the comparison, with one or two sync modes.
struct LangGraphSide {
    workload: StoredWorkload,
    load: StorageLoad,
    at: String,
    runs: usize,
    samples: Vec<(SyncMode, Samples)>,
}

impl LangGraphSide {
    fn new(
        workload: StoredWorkload,
        load: StorageLoad,
        at: String,
        langgraph: &Option<LangGraph>,
    ) -> Self {
        let savers = langgraph.as_ref().map(LangGraph::savers);
        let promises: &[SyncMode] = match savers {
            None => &[],
            Some(it) if it.syncs_less() && workload.store() == Store::Sqlite => {
                &[SyncMode::Full, SyncMode::Default]
            }
            Some(_) => &[SyncMode::Default],
        };
        let samples = promises.iter().map(|it| (*it, Samples::default())).collect();
        Self { workload, load, at, runs: 0, samples }
    }

    /// Measures one round per sync mode. After a failure, LangGraph is no longer measured.
    fn round(&mut self, langgraph: &mut Option<LangGraph>) {
        for (sync_mode, samples) in &mut self.samples {
            let Some(child) = langgraph.as_mut() else { return };
            self.runs += 1;
            let (database, name) = ((self.workload.store(), &*self.at), self.runs.to_string());
            match langgraph::run(child, database, *sync_mode, name, self.load) {
                Ok(time) => samples.add(time, self.load.all_steps()),
                Err(error) => {
                    eprintln!("LangGraph failed: {error}");
                    *langgraph = None;
                }
            }
        }
    }

    /// Discards the samples of the warm-up round.
    fn discard_warm_up(&mut self) {
        for (_, samples) in &mut self.samples {
            *samples = Samples::default();
        }
    }

    /// Returns the cost with the same durability as ours, followed by the cost with LangGraph's default settings if
    /// these are less durable.
    fn costs(&self) -> [Option<Cost>; 2] {
        let cost = |index: usize| self.samples.get(index).and_then(|(_, it)| it.cost());
        [cost(0), cost(1)]
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;

    use super::*;
    use crate::storage::disk;

    #[test]
    fn savers_and_floors_are_measured_together() {
        let (dir, runtime) = (disk::scratch_dir().unwrap(), Runtime::new().unwrap());
        let mut databases = Databases::new(dir.path(), runtime.handle());
        let pair = databases.pair(Store::Sqlite).unwrap().unwrap();
        let load = StorageLoad { threads: 2, steps: 5, message: 10 };
        let mut sides = Sides::new(&pair, load, runtime.handle()).unwrap();
        sides.round(0);
        let costs = sides.costs().unwrap();
        // Each of the two threads stores its five steps, its input and START, which makes 14 commits for 10 steps.
        assert_eq!(costs.commits_per_step, 14.0 / 10.0);
        // SQLite writes whole pages, which are larger than the data.
        #[cfg(target_os = "linux")]
        assert!(matches!(costs.floors[0].0, Kind::SameBytes(bytes) if bytes > 1_000));
    }
}
