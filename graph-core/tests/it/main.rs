//! The typed face of the engine, feature by feature, at its public API.

mod build;
mod care;
mod contexts;
mod control;
mod dynamic;
mod edges;
mod edits;
mod effects;
mod entrypoints;
mod handlers;
mod interrupts;
mod nested;
mod nodes;
mod outliving;
mod reducers;
mod resume;
mod retries;
mod savers;
#[cfg(feature = "schema")]
mod schemas;
mod state;
mod storage;
mod streams;
mod subgraphs;
mod support;
mod travel;
