//! Tests of agents through their public API.

mod agents;
mod messages;
mod tools;
