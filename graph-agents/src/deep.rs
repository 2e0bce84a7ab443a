//! Deep agents: agents that plan, keep files and delegate tasks to sub-agents.

mod agent;
mod task;

pub use agent::DeepAgent;
