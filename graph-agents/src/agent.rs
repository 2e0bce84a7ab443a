//! Agents: a model in a loop with tools.

mod builder;
mod compile;
mod compiled;
mod handoff_node;
mod hook_node;
mod model_call;
mod model_node;
mod model_options;
mod repair;
mod route;
mod shape;
mod structured;

pub use builder::Agent;
pub use compiled::{AgentOutcome, CompiledAgent, Conversation};
