//! Several agents in one graph.
//!
//! - [`Swarm`]: agents hand the conversation over to each other; the last active agent continues it.
//! - [`Supervisor`]: an agent that hands tasks to other agents and gets their results back.
//! - [`agent_tool`]: an agent as a tool of another agent.

mod agent_name;
mod agent_tool;
mod handoff;
mod inline_names;
mod supervisor;
mod swarm;

pub use agent_tool::agent_tool;
pub(crate) use agent_tool::run_agent;
pub use handoff::{forward_tool, handoff_tool};
pub use supervisor::{OutputMode, Supervisor};
pub use swarm::Swarm;
