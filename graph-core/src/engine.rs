//! The engine: a loop of supersteps (plan → execute → commit) over a type-erased state.
//!
//! `Engine::run_to_end` is the loop. [`load`] prepares an engine from a checkpoint and an input, and [`step`] runs one
//! superstep. [`edit`] changes a thread, and [`inspect`] reads a thread; neither of them runs a node.

mod commit;
mod conflict;
pub(crate) mod edit;
mod events;
mod execute;
mod fast_path;
pub(crate) mod input;
pub(crate) mod inspect;
mod load;
pub(crate) mod outcome;
mod plan;
mod record_task_end;
mod records;
mod run_tasks;
mod running;
pub(crate) mod start;
mod step;
mod task_pool;
