//! A row of times: ours, the floor and LangGraph, a round of each in turn.

use std::{io, path::Path, sync::Arc, time::Instant};

use graph_core::checkpoint::Checkpointer;
use tokio::runtime::Handle;

use super::{
    Load, Workload, chat,
    counted::Counted,
    database::{Databases, Pair},
    floor::{Commits, Floor, Room},
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
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    /// A step.
    pub cost: Cost,
    /// The bare cost of its fsyncs on a file that has its length already.
    pub floor: Cost,
    /// The same on a file that grows.
    pub growing_floor: Cost,
    /// What the floors wrote for each step.
    pub commits_a_step: f64,
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

/// Our side and the two floors.
struct Sides {
    sides: [Side; 3],
    commits_a_step: f64,
}

impl Sides {
    fn new(pair: &Pair, load: Load, runtime: &Handle) -> io::Result<Self> {
        let commits = commits(&pair.saver, load, runtime);
        let floor = |name: &str, room| floor(&pair.folder.join(name), commits, room);
        let (kept, grown) = (floor("kept", Room::Kept)?, floor("grown", Room::Grown)?);
        let runs = [ours(pair.saver.clone(), load, runtime), kept, grown];
        let steps = load.all_steps();
        let commits_a_step = commits.count as f64 / steps as f64;
        Ok(Self { sides: runs.map(|it| Side::warmed_up(it, steps)), commits_a_step })
    }

    /// Some rounds of each, which cost little beside one of LangGraph.
    fn round(&mut self, round: usize) {
        for turn in 0..TURNS {
            for side in 0..3 {
                self.sides[(round + turn + side) % 3].round();
            }
        }
    }

    fn costs(&self) -> Option<Ours> {
        let [cost, floor, growing_floor] = self.sides.each_ref().map(Side::cost);
        let (cost, floor, growing_floor) = (cost?, floor?, growing_floor?);
        Some(Ours { cost, floor, growing_floor, commits_a_step: self.commits_a_step })
    }
}

/// Counts what a run makes durable.
fn commits(saver: &Arc<dyn Checkpointer>, load: Load, runtime: &Handle) -> Commits {
    let counted = Arc::new(Counted::new(saver.clone()));
    runtime.block_on(chat::run(&chat::graph(counted.clone()), "counted", load));
    let count = counted.commits();
    Commits { count, bytes: counted.bytes() / count.max(1) }
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
            Some(it) if it.promise_less() && workload.store() == super::Store::Sqlite => {
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
    use crate::storage::{Store, disk};

    #[test]
    fn our_side_and_the_floors_run() {
        let (folder, runtime) = (disk::scratch().unwrap(), Runtime::new().unwrap());
        let mut databases = Databases::new(folder.path(), runtime.handle());
        let pair = databases.pair(Store::Sqlite).unwrap().unwrap();
        let load = Load { threads: 2, steps: 5, message: 10 };
        let mut sides = Sides::new(&pair, load, runtime.handle()).unwrap();
        sides.round(0);
        // Both threads store their input and START beside their steps.
        assert_eq!(sides.costs().unwrap().commits_a_step, 14.0 / 10.0);
    }
}
