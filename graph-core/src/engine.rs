//! The engine: a loop of supersteps over a type-erased state.
//!
//! [`start`] prepares a [`running`] graph from a checkpoint and an input, and [`superstep`] runs its steps. [`edit`]
//! changes a thread, and [`inspect`] reads a thread; neither of them runs a node.

mod ahead;
mod commit;
mod conflict;
mod eager;
pub(crate) mod edit;
mod end_task;
mod execute;
mod fast_path;
mod halt;
pub(crate) mod input;
pub(crate) mod inspect;
mod load;
pub(crate) mod outcome;
mod persist;
mod plan;
mod publish;
mod publish_failure;
pub(crate) mod receive_task;
mod records;
mod resolve;
mod run_loop;
mod running;
mod send_task;
pub(crate) mod start;
mod step_task;
mod superstep;
mod target;
mod task_pool;
pub(crate) mod thread_state;
