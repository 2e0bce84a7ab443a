//! A start with a run id that several processes repeat, because none of them knows whether the others succeeded.

use std::sync::Arc;

use graph_core::{Checkpointer, Durability, RunError, RunOptions, State, StateGraph, Thread};
use serde::{Deserialize, Serialize};

/// Counts the applied inputs and the executed steps.
#[derive(State, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    #[reduce(add)]
    pub inputs: u64,
    #[reduce(add)]
    pub charged: u64,
    #[reduce(add)]
    pub shipped: u64,
}

impl Orders {
    /// Returns the state after `n` orders, each of which was applied once.
    pub fn complete(n: u64) -> Self {
        Self { inputs: n, charged: n, shipped: n }
    }
}

async fn charge(_: &Orders) -> OrdersUpdate {
    Orders::update().charged(1_u64)
}

async fn ship(_: &Orders) -> OrdersUpdate {
    Orders::update().shipped(1_u64)
}

/// The report that a worker prints when its run is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartReport {
    pub orders: Orders,
    /// Number of write points that the worker has passed.
    pub n_writes: usize,
}

/// Opens the thread on which orders are started.
pub fn thread(saver: Arc<dyn Checkpointer>, name: &str) -> Thread<Orders> {
    StateGraph::<Orders>::new()
        .node(charge)
        .node(ship)
        .sequence((charge, ship))
        .shared_checkpointer(saver)
        .compile()
        .expect("the graph is valid")
        .thread(name, ())
}

/// Starts the order with this run id, or completes it if it has already started.
pub async fn start(
    thread: &Thread<Orders>,
    run_id: &str,
    durability: Durability,
) -> Result<Orders, RunError> {
    let options = RunOptions::new().run_id(run_id).durability(durability);
    thread.clone().with_options(options).invoke(Orders::update().inputs(1_u64)).await
}
