//! Where a debate turns to for what it does not have itself.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use graph_core::{Context, NodeError};
use sandbox_vm::guest::Host;

use crate::ask::{Ask, Heard, LLM};

/// Where a debate asks for calls and keeps its files: the host of its guest, or, for who only looks into a debate's
/// thread, nobody. Cheap to clone.
#[derive(Clone)]
pub struct Desk(Arc<dyn Outside>);

#[async_trait]
trait Outside: Send + Sync {
    async fn ask(&self, cx: &Context<Desk>, key: &str, ask: Ask) -> Result<Heard, NodeError>;

    fn workspace(&self) -> &Path;
}

impl Desk {
    /// The host of the guest that the debate runs in.
    pub fn of(host: &Host) -> Self {
        Self(Arc::new(host.clone()))
    }

    /// Nobody: the thread of a debate can be read and edited, but not run.
    pub fn nobody() -> Self {
        Self(Arc::new(Nobody))
    }

    /// Makes a call, once: a task that runs again gets the journaled answer.
    pub(super) async fn ask(
        &self,
        cx: &Context<Self>,
        key: &str,
        ask: Ask,
    ) -> Result<Heard, NodeError> {
        self.0.ask(cx, key, ask).await
    }

    /// The folder of the sandbox's files.
    pub(super) fn workspace(&self) -> &Path {
        self.0.workspace()
    }
}

#[async_trait]
impl Outside for Host {
    async fn ask(&self, cx: &Context<Desk>, key: &str, ask: Ask) -> Result<Heard, NodeError> {
        self.call(cx, LLM, key, ask).await
    }

    fn workspace(&self) -> &Path {
        self.workspace()
    }
}

struct Nobody;

#[async_trait]
impl Outside for Nobody {
    async fn ask(&self, _: &Context<Desk>, _: &str, _: Ask) -> Result<Heard, NodeError> {
        Err(NodeError::terminal("a debate runs in a sandbox only"))
    }

    fn workspace(&self) -> &Path {
        Path::new("")
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}
