//! What a service runs.

use std::{io, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    run::{RunEvent, RunInfo},
    service::Feed,
};

/// Does the work of a service's runs.
///
/// A runner keeps its runs' progress and events on disk itself: whatever happens to the process, the service asks it
/// to go on with the run, and it goes on from where it stood.
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    /// Goes on with a run from wherever it stands, and tells what happens once it is stored.
    ///
    /// The future is dropped when the run is cancelled or the server ends; later it may be asked for again.
    async fn go(&self, run: &RunInfo, teller: &Teller) -> Result<Ended, Failure>;

    /// Whether a complete run has something left that going on with it may still bring. It may block.
    fn is_open(&self, _run: &RunInfo) -> bool {
        false
    }

    /// The stored events of a run after this number, at most so many. It may block.
    fn events(&self, run: &str, after: u64, most: usize) -> io::Result<Vec<RunEvent>>;
}

/// Where a runner left a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// At its end, with what it came to in short: it is shown in lists of runs.
    Complete(Value),
    /// At a question.
    Waiting,
}

/// Why a run failed, in words for whoever asked for it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// Tells the readers of a run what happens in it.
#[derive(Debug)]
pub struct Teller {
    pub(crate) feed: Arc<Feed>,
}

impl Teller {
    /// Tells an event that is stored already. Its number is one above that of the event before.
    pub fn tell(&self, event: RunEvent) {
        self.feed.tell(event);
    }
}
