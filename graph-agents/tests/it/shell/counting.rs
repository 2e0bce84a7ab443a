//! A command executor that starts no programs.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use graph_agents::{
    AgentError,
    middleware::{CommandExecutor, CommandResult, CommandSession, Shell},
};
use graph_core::NodeError;
use tokio::sync::Notify;

/// Records its events, and counts the commands of each session.
#[derive(Clone, Debug, Default)]
pub(super) struct Counting {
    events: Arc<Mutex<Vec<String>>>,
    sessions: Arc<AtomicUsize>,
    /// Number of sessions that have not been dropped.
    alive: Arc<AtomicUsize>,
    /// Notified by the command `block`, which does not end.
    pub(super) blocked: Arc<Notify>,
}

#[derive(Debug)]
struct CountingSession {
    executor: Counting,
    id: usize,
    commands: usize,
}

impl Drop for CountingSession {
    fn drop(&mut self) {
        self.executor.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counting {
    pub(super) fn shell(&self) -> Arc<Shell> {
        Arc::new(Shell::new(self.clone()).trusted())
    }

    pub(super) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    fn record(&self, event: String) {
        self.events.lock().unwrap().push(event);
    }

    pub(super) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

#[async_trait]
impl CommandExecutor for Counting {
    async fn start(&self) -> Result<Box<dyn CommandSession>, NodeError> {
        let id = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        self.alive.fetch_add(1, Ordering::Relaxed);
        self.record(format!("{id}: start"));
        Ok(Box::new(CountingSession { executor: self.clone(), id, commands: 0 }))
    }
}

#[async_trait]
impl CommandSession for CountingSession {
    async fn execute(&mut self, command: &str) -> Result<CommandResult, NodeError> {
        self.commands += 1;
        self.executor.record(format!("{}: begin {command}", self.id));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        if command == "block" {
            self.executor.blocked.notify_one();
            std::future::pending::<()>().await;
        }
        self.executor.record(format!("{}: end {command}", self.id));
        Ok(match command {
            "break" => return Err(AgentError::named("SandboxError", "lost").into()),
            "hang" => CommandResult::ended_session("Error: too slow."),
            "fail" => CommandResult::exited(1, "failed"),
            _ => CommandResult::exited(0, format!("{} of session {}", self.commands, self.id)),
        })
    }

    async fn close(&mut self) {
        self.executor.record(format!("{}: close", self.id));
    }
}
