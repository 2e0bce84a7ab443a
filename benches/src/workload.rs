//! The workloads: their sizes, limits and implementations.
//!
//! Each run is a task on a multi-threaded runtime, as in a server. Tasks that the engine or the baseline spawns
//! therefore go to the local queue of the worker thread.

use std::{
    fmt::Debug,
    future::Future,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use crate::{
    baseline,
    engine::{self, Log},
    measure::{Run, Stopwatch},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A loop that consists of one node.
    Loop,
    /// Payloads sent to one node in one step.
    FanOut,
    /// Nodes that run one after another.
    Chain,
    /// A loop that appends to a long list.
    Append,
    /// Like [`Loop`](Self::Loop), but each step is stored in memory before the next one starts.
    CheckpointedLoop,
    /// Like [`Append`](Self::Append), but each step is stored in memory before the next one starts.
    CheckpointedAppend,
}

/// The amount of work for one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Size shown in the table.
    pub size: usize,
    /// Number of measured steps or tasks per run.
    pub steps: usize,
    /// Amount of work for LangGraph, if it is measured.
    pub langgraph: Option<LangGraphSize>,
}

/// An amount of work that LangGraph completes in a second or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LangGraphSize {
    /// The same size as for the engine, or the largest size that LangGraph can run.
    pub size: usize,
    /// Number of measured steps or tasks per run.
    pub steps: usize,
}

/// The implementations that are compared in one row.
pub struct Sides {
    /// The implementation on the engine.
    pub engine: Run,
    /// The implementation on plain tokio, if there is one.
    pub baseline: Option<Run>,
}

impl Debug for Sides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sides").finish_non_exhaustive()
    }
}

impl Workload {
    /// All workloads, in the order of the table.
    pub const ALL: [Self; 6] = [
        Self::Loop,
        Self::FanOut,
        Self::Chain,
        Self::Append,
        Self::CheckpointedLoop,
        Self::CheckpointedAppend,
    ];

    /// Returns the name used on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::FanOut => "fan-out",
            Self::Chain => "chain",
            Self::Append => "append",
            Self::CheckpointedLoop => "checkpointed-loop",
            Self::CheckpointedAppend => "checkpointed-append",
        }
    }

    /// Returns the maximum ratio of the engine's cost to that of plain tokio, if there is a limit.
    pub fn max_slowdown(self) -> Option<f64> {
        match self {
            Self::Loop | Self::Chain | Self::Append => Some(5.0),
            Self::FanOut => Some(2.0),
            Self::CheckpointedLoop | Self::CheckpointedAppend => None,
        }
    }

    /// Returns the minimum ratio of LangGraph's cost to the engine's, if there is a limit.
    pub fn min_speedup(self) -> Option<f64> {
        match self {
            Self::Loop | Self::Chain | Self::Append => Some(1_000.0),
            Self::FanOut => Some(200.0),
            Self::CheckpointedLoop | Self::CheckpointedAppend => None,
        }
    }

    /// Returns the three sizes at which the workload is measured.
    pub fn sizes(self) -> [Size; 3] {
        let even = |size, langgraph| Size {
            size,
            steps: size,
            langgraph: Some(LangGraphSize { size: langgraph, steps: langgraph }),
        };
        let append = |size, steps| Size {
            size,
            steps: 10_000,
            langgraph: Some(LangGraphSize { size, steps }),
        };
        match self {
            Self::Loop => [even(1_000, 1_000), even(10_000, 3_000), even(100_000, 3_000)],
            Self::FanOut => [even(1_000, 1_000), even(10_000, 1_000), even(100_000, 1_000)],
            Self::Chain => [even(100, 100), even(1_000, 1_000), even(10_000, 1_000)],
            Self::Append => [append(10_000, 200), append(100_000, 100), append(1_000_000, 20)],
            Self::CheckpointedLoop => Self::Loop.sizes().map(Size::without_langgraph),
            Self::CheckpointedAppend => Self::Append.sizes().map(Size::without_langgraph),
        }
    }

    /// Creates the implementations that are compared in one row.
    pub fn sides(self, size: Size, runtime: &Handle) -> Sides {
        let engine = self.on_engine(size, runtime);
        Sides { engine, baseline: self.baseline(size, runtime) }
    }

    fn on_engine(self, size: Size, runtime: &Handle) -> Run {
        let Size { size, steps, .. } = size;
        let count = size as u64;
        match self {
            Self::Loop => {
                let graph = engine::loop_graph();
                task(runtime, move || {
                    let graph = graph.clone();
                    async move { timed(engine::run_loop(&graph, count), count).await }
                })
            }
            Self::FanOut => {
                let graph = engine::fan_out_graph();
                task(runtime, move || {
                    let graph = graph.clone();
                    async move { timed(engine::run_fan_out(&graph, count), sum(count)).await }
                })
            }
            Self::Chain => {
                let graph = engine::chain_graph(size);
                task(runtime, move || {
                    let graph = graph.clone();
                    async move { timed(engine::run_chain(&graph), count).await }
                })
            }
            Self::Append => {
                let watch = Stopwatch::default();
                let graph = engine::append_graph(watch.clone());
                task(runtime, move || {
                    let (graph, watch) = (graph.clone(), watch.clone());
                    async move {
                        let log = Log::filled(size, steps + 1);
                        timed_by_stopwatch(
                            engine::run_append(&graph, log),
                            size + steps + 1,
                            &watch,
                        )
                        .await
                    }
                })
            }
            Self::CheckpointedLoop => task(runtime, move || async move {
                let graph = engine::checkpointed_loop_graph();
                timed(engine::run_checkpointed_loop(&graph, count), count).await
            }),
            Self::CheckpointedAppend => task(runtime, move || async move {
                let watch = Stopwatch::default();
                let graph = engine::checkpointed_append_graph(watch.clone());
                let log = Log::filled(size, steps + 1);
                timed_by_stopwatch(
                    engine::run_checkpointed_append(&graph, log),
                    size + steps + 1,
                    &watch,
                )
                .await
            }),
        }
    }

    fn baseline(self, size: Size, runtime: &Handle) -> Option<Run> {
        let Size { size, steps, .. } = size;
        let count = size as u64;
        match self {
            Self::Loop => {
                Some(task(runtime, move || timed(baseline::run_loop(black_box(count)), count)))
            }
            Self::FanOut => Some(task(runtime, move || {
                timed(baseline::run_fan_out(black_box(count)), sum(count))
            })),
            Self::Chain => {
                let nodes = Arc::new(baseline::chain(size));
                Some(task(runtime, move || {
                    let nodes = nodes.clone();
                    async move { timed(baseline::run_chain(&nodes), count).await }
                }))
            }
            Self::Append => Some(task(runtime, move || async move {
                let watch = Stopwatch::default();
                let log = Log::filled(size, steps + 1);
                timed_by_stopwatch(baseline::run_append(log, &watch), size + steps + 1, &watch)
                    .await
            })),
            Self::CheckpointedLoop | Self::CheckpointedAppend => None,
        }
    }
}

impl Size {
    fn without_langgraph(self) -> Self {
        Self { langgraph: None, ..self }
    }
}

/// Wraps a run in a task that is spawned on the runtime.
fn task<F>(runtime: &Handle, run: impl Fn() -> F + 'static) -> Run
where
    F: Future<Output = Duration> + Send + 'static,
{
    let runtime = runtime.clone();
    Box::new(move || runtime.block_on(runtime.spawn(run())).expect("a workload does not panic"))
}

/// Measures a whole run and checks its result.
async fn timed<T: PartialEq + Debug>(run: impl Future<Output = T>, expect: T) -> Duration {
    let start = Instant::now();
    let result = black_box(run.await);
    let time = start.elapsed();
    assert_eq!(result, expect);
    time
}

/// Measures all steps of a run except the first one, which has to copy the initial list.
async fn timed_by_stopwatch(
    run: impl Future<Output = usize>,
    expect: usize,
    watch: &Stopwatch,
) -> Duration {
    assert_eq!(black_box(run.await), expect);
    watch.time().expect("the run takes at least one step")
}

fn sum(parts: u64) -> u64 {
    parts * (parts - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_runs() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for workload in Workload::ALL {
            let size = Size { size: 20, steps: 20, langgraph: None };
            let mut sides = workload.sides(size, runtime.handle());
            assert!((sides.engine)() > Duration::ZERO, "{workload:?}");
            let baseline = sides.baseline.map(|mut it| it() > Duration::ZERO);
            assert_eq!(baseline, workload.max_slowdown().map(|_| true), "{workload:?}");
        }
    }
}
