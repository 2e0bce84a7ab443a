//! Tests of the engine's typed public API.

mod build;
mod closures;
mod complaints;
mod contexts;
mod control;
mod eager;
mod edges;
mod edits;
mod effects;
mod entrypoints;
mod exit_durability;
mod handlers;
mod interrupts;
mod json_graphs;
mod lifetimes;
mod nested;
mod node_options;
mod nodes;
mod reducers;
mod remote;
mod remote_tasks;
mod repeated_answers;
mod resume;
mod retries;
mod same_state;
mod saver_failures;
#[cfg(feature = "schema")]
mod schemas;
mod state;
mod stored_threads;
mod streams;
mod subgraph_threads;
mod subgraphs;
mod support;
mod time_travel;
mod traps;
