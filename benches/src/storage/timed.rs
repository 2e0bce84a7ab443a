//! A row of times: ours, the floor and LangGraph, a round of each in turn.

use std::{io, path::Path, sync::Arc, time::Instant};

use graph_core::checkpoint::Checkpointer;
use tokio::runtime::Handle;

use super::{
    Load, Store, Workload, chat,
    counted::Counted,
    database::{Databases, Pair},
    disk,
    floor::{Commits, Floor, Room},
    insert::Insert,
    theirs::{self, Promise},
};
use crate::{
    langgraph::LangGraph,
    measure::{Cost, Run, Samples, Side},
};

/// How often our sides take turns in a round.
const TURNS: usize = 3;

/// One workload at one load.
#[derive(Clone, Debug)]
pub struct Row {
    /// The workload.
    pub workload: Workload,
    /// How much of it.
    pub load: Load,
    /// A step of ours and of the floors; `None` where the database is not here.
    pub ours: Option<Ours>,
    /// A step of LangGraph that promises what ours does.
    pub langgraph: Option<Cost>,
    /// A step of LangGraph as it is installed, where that promises less.
    pub weaker: Option<Cost>,
}

/// What was measured on our side.
#[derive(Clone, Debug)]
pub struct Ours {
    /// A step.
    pub cost: Cost,
    /// The bare cost of its fsyncs. The first one is what the limit is held against.
    pub floors: Vec<(Kind, Cost)>,
    /// What the floors wrote for each step.
    pub commits_a_step: f64,
}

/// What the fsyncs of a floor write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As many bytes as the database writes for a commit.
    Same(usize),
    /// What the engine asks to be stored, in a statement on the server.
    Inserted,
    /// What the engine asks to be stored, over what stood there.
    InPlace,
    /// The same at the end of a file.
    Grown,
}

/// Measures one row.
pub fn row(
    workload: Workload,
    load: Load,
    rounds: usize,
    databases: &mut Databases<'_>,
    langgraph: &mut Option<LangGraph>,
) -> io::Result<Row> {
    let absent = Row { workload, load, ours: None, langgraph: None, weaker: None };
    let Some(pair) = databases.pair(workload.store())? else { return Ok(absent) };
    let mut sides = Sides::new(&pair, load, databases.runtime())?;
    let mut theirs = Theirs::new(workload, load, pair.theirs, langgraph);
    theirs.round(langgraph);
    theirs.forget();
    for round in 0..rounds {
        sides.round(round);
        theirs.round(langgraph);
    }
    let [langgraph, weaker] = theirs.costs();
    Ok(Row { ours: sides.costs(), langgraph, weaker, ..absent })
}

/// Our side and the floors.
struct Sides {
    /// Ours, then the floors.
    sides: Vec<Side>,
    floors: Vec<Kind>,
    commits_a_step: f64,
}

impl Sides {
    fn new(pair: &Pair, load: Load, runtime: &Handle) -> io::Result<Self> {
        let Needs { commits, heavy } = needs(&pair.saver, load, runtime);
        let floor = |name: &str, commits, room| floor(&pair.folder.join(name), commits, room);
        let mut floors = Vec::new();
        match (&pair.server, heavy) {
            (Some(url), _) => floors.push((Kind::Inserted, insert(url, commits, runtime)?)),
            (None, Some(heavy)) => {
                floors.push((Kind::Same(heavy.bytes), floor("heavy", heavy, Room::Kept)?));
            }
            // What it writes cannot be counted here.
            (None, None) => {}
        }
        floors.push((Kind::InPlace, floor("kept", commits, Room::Kept)?));
        floors.push((Kind::Grown, floor("grown", commits, Room::Grown)?));
        let (floors, runs): (_, Vec<Run>) = floors.into_iter().unzip();
        let runs = [ours(pair.saver.clone(), load, runtime)].into_iter().chain(runs);
        let steps = load.all_steps();
        Ok(Self {
            sides: runs.map(|it| Side::warmed_up(it, steps)).collect(),
            floors,
            commits_a_step: commits.count as f64 / steps as f64,
        })
    }

    /// Some rounds of each, which cost little beside one of LangGraph.
    fn round(&mut self, round: usize) {
        let count = self.sides.len();
        for turn in 0..TURNS {
            for side in 0..count {
                self.sides[(round + turn + side) % count].round();
            }
        }
    }

    fn costs(&self) -> Option<Ours> {
        let mut costs = self.sides.iter().map(Side::cost);
        let cost = costs.next()??;
        let floors = self.floors.iter().zip(costs).map(|(kind, cost)| Some((*kind, cost?)));
        let floors = floors.collect::<Option<_>>()?;
        Some(Ours { cost, floors, commits_a_step: self.commits_a_step })
    }
}

/// What a run makes durable.
struct Needs {
    /// As the engine asks for it.
    commits: Commits,
    /// With what this process wrote for it.
    heavy: Option<Commits>,
}

fn needs(saver: &Arc<dyn Checkpointer>, load: Load, runtime: &Handle) -> Needs {
    let counted = Arc::new(Counted::before(saver.clone()));
    let before = disk::written();
    runtime.block_on(chat::run(&chat::graph(counted.clone()), "counted", load));
    let written = before.zip(disk::written()).map(|(before, after)| after - before);
    let count = counted.way().commits();
    let commits = |bytes: usize| Commits { count, bytes: bytes / count.max(1) };
    Needs { commits: commits(counted.way().bytes()), heavy: written.map(commits) }
}

fn ours(saver: Arc<dyn Checkpointer>, load: Load, runtime: &Handle) -> Run {
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

fn floor(path: &Path, commits: Commits, room: Room) -> io::Result<Run> {
    let mut floor = Floor::new(path, commits, room)?;
    Ok(Box::new(move || floor.run().expect("the disk took the file before")))
}

fn insert(url: &str, commits: Commits, runtime: &Handle) -> io::Result<Run> {
    let insert = Insert::new(url, commits, runtime)?;
    Ok(Box::new(move || insert.run().expect("the server took a statement before")))
}

/// LangGraph's side, once or twice.
struct Theirs {
    workload: Workload,
    load: Load,
    at: String,
    runs: usize,
    samples: Vec<(Promise, Samples)>,
}

impl Theirs {
    fn new(workload: Workload, load: Load, at: String, langgraph: &Option<LangGraph>) -> Self {
        let savers = langgraph.as_ref().and_then(LangGraph::savers);
        let promises: &[Promise] = match savers {
            None => &[],
            Some(it) if it.promise_less() && workload.store() == Store::Sqlite => {
                &[Promise::Full, Promise::AsInstalled]
            }
            Some(_) => &[Promise::AsInstalled],
        };
        let samples = promises.iter().map(|it| (*it, Samples::default())).collect();
        Self { workload, load, at, runs: 0, samples }
    }

    /// A round of each; one that fails is LangGraph's last.
    fn round(&mut self, langgraph: &mut Option<LangGraph>) {
        for (promise, samples) in &mut self.samples {
            let Some(child) = langgraph.as_mut() else { return };
            self.runs += 1;
            let (database, name) = ((self.workload.store(), &*self.at), self.runs.to_string());
            match theirs::run(child, database, *promise, name, self.load) {
                Ok(time) => samples.add(time, self.load.all_steps()),
                Err(error) => {
                    eprintln!("LangGraph gives no answer: {error}");
                    *langgraph = None;
                }
            }
        }
    }

    /// Forgets the round that warmed it up.
    fn forget(&mut self) {
        for (_, samples) in &mut self.samples {
            *samples = Samples::default();
        }
    }

    /// The cost at our promise, and at LangGraph's own where that is weaker.
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
    fn our_side_and_the_floors_run() {
        let (folder, runtime) = (disk::scratch().unwrap(), Runtime::new().unwrap());
        let mut databases = Databases::new(folder.path(), runtime.handle());
        let pair = databases.pair(Store::Sqlite).unwrap().unwrap();
        let load = Load { threads: 2, steps: 5, message: 10 };
        let mut sides = Sides::new(&pair, load, runtime.handle()).unwrap();
        sides.round(0);
        let costs = sides.costs().unwrap();
        // Both threads store their input and START beside their steps.
        assert_eq!(costs.commits_a_step, 14.0 / 10.0);
        // SQLite writes whole pages.
        #[cfg(target_os = "linux")]
        assert!(matches!(costs.floors[0].0, Kind::Same(bytes) if bytes > 1_000));
    }
}
