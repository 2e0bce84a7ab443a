//! The guest's side of a sandbox: an agent that runs programs, accesses files and runs graphs for the host.
//!
//! An application's graphs are compiled code, so they must be part of the guest's program. The simplest setup is to use
//! the application itself as the guest: call [`enter`] at the start of `main`. In a process that was started as a
//! guest, `enter` runs the guest and does not return; otherwise it returns immediately.
//!
//! ```
//! use graph_core::{START, State, StateGraph};
//! use sandbox_vm::guest::{self, Agent};
//!
//! #[derive(State, Clone, Debug, Default)]
//! struct Debate {
//!     topic: String,
//!     verdict: String,
//! }
//!
//! async fn judge(debate: &Debate) -> DebateUpdate {
//!     Debate::update().verdict(format!("{} wins", debate.topic))
//! }
//!
//! fn main() {
//!     guest::enter(|| {
//!         Agent::new().graph("debate", |host| {
//!             let graph = StateGraph::<Debate>::new()
//!                 .node(judge)
//!                 .edge(START, judge)
//!                 .shared_checkpointer(host.checkpointer())
//!                 .compile()?;
//!             Ok((graph, ()))
//!         })
//!     });
//!     // In the host process, the application continues here.
//! }
//! ```

mod agent;
mod children;
mod connection;
mod enter;
mod exec;
mod files;
mod host;
mod interceptor;
mod reseed;
mod run;
mod saver;

pub(crate) use self::agent::{agent_runtime, serve_blocking, serve_on};
pub use self::{
    agent::{Agent, ServeError},
    enter::enter,
    host::Host,
};
