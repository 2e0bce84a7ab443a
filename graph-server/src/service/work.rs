//! One live run, from its turn to where it rests.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::watch;

use super::{Inner, Live, Stop, reader::until_true};
use crate::{
    run::{RunInfo, Status},
    runner::{Ended, Teller},
};

/// What could not be noted is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Where a run was left; nothing where it is put aside.
type Left = Option<Stand>;

/// Where a run stands: where it rests, or that somebody works on it.
struct Stand {
    status: Status,
    error: Option<String>,
    outcome: Value,
}

impl Stand {
    fn at(status: Status) -> Self {
        Self { status, error: None, outcome: Value::Null }
    }

    fn failed(why: impl Into<String>) -> Self {
        Self { error: Some(why.into()), ..Self::at(Status::Error) }
    }
}

impl Inner {
    /// Lets a run have its turn, in the background.
    pub(super) fn work(self: &Arc<Self>, run: RunInfo, live: Arc<Live>) {
        let inner = self.clone();
        tokio::spawn(async move {
            let id = run.id.clone();
            if let Some(rest) = inner.turn(run, &live).await {
                tracing::info!(run = id, status = rest.status.name(), "rests");
                let _ = inner.note(&id, rest).await;
            }
            inner.leave(&id);
        });
    }

    /// Notes where a run stands, however often that has to be tried. Until it is on the disk nobody is told; a server
    /// that ends before goes on with the run. Says whether it is noted.
    async fn note(&self, id: &str, stand: Stand) -> bool {
        let (stand, mut closing) = (Arc::new(stand), self.closing.subscribe());
        loop {
            let (name, it) = (id.to_owned(), stand.clone());
            let set = self.blocking(move |registry| {
                registry.set(&name, it.status, it.error.as_deref(), &it.outcome)
            });
            let Err(problem) = set.await else { return true };
            tracing::error!(run = id, %problem, "cannot be noted");
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = until_true(&mut closing) => return false,
            }
        }
    }

    async fn turn(&self, run: RunInfo, live: &Live) -> Left {
        let mut stop = live.stop.subscribe();
        let mut closing = self.closing.subscribe();
        let turn = tokio::select! {
            biased;
            // A server that ends begins nothing.
            () = until_true(&mut closing) => return None,
            turn = self.turns.clone().acquire_owned() => turn,
            why = stopped(&mut stop) => return left(why),
        };
        // The semaphore is never closed.
        let _turn = turn.ok()?;
        if !self.note(&run.id, Stand::at(Status::Running)).await {
            return None;
        }
        let (runner, teller) = (self.runner.clone(), Teller { feed: live.feed.clone() });
        // A task of its own, so that a panic is this run's alone.
        let mut work = tokio::spawn(async move { runner.go(&run, &teller).await });
        let ended = tokio::select! {
            ended = &mut work => ended,
            why = stopped(&mut stop) => {
                work.abort();
                // Nobody works on it once this returns.
                let _ = work.await;
                return left(why);
            }
        };
        Some(match ended {
            Ok(Ok(Ended::Complete(outcome))) => Stand { outcome, ..Stand::at(Status::Complete) },
            Ok(Ok(Ended::Waiting)) => Stand::at(Status::Waiting),
            Ok(Err(failure)) => Stand::failed(failure.to_string()),
            Err(_) => Stand::failed("an internal error; the server's log has it"),
        })
    }
}

fn left(why: Stop) -> Left {
    match why {
        Stop::Cancelled => Some(Stand::at(Status::Cancelled)),
        Stop::PutAside => None,
    }
}

async fn stopped(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|it| *it) {
        Ok(Some(why)) => why,
        // Whoever could stop it is gone; then nobody will.
        _ => std::future::pending().await,
    }
}
