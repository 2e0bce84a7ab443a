//! The typed face of the engine, feature by feature, at its public API.

mod care;
mod control;
mod edits;
mod effects;
mod entrypoints;
mod interrupts;
mod resume;
mod retries;
mod storage;
mod streams;
mod subgraphs;
mod support;
mod travel;
