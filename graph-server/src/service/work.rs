//! One live run, from its turn to where it rests.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::{Inner, Live, Stop};
use crate::{
    run::{RunInfo, Status},
    runner::{Ended, Teller},
};

/// Where a run was left; nothing where it is put aside.
type Left = Option<Rest>;

/// Where a run rests.
struct Rest {
    status: Status,
    error: Option<String>,
    outcome: Value,
}

impl Rest {
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
                let name = id.clone();
                let set = inner.blocking(move |it| {
                    it.set(&name, rest.status, rest.error.as_deref(), &rest.outcome)
                });
                if let Err(problem) = set.await {
                    // The registry still calls it live, so the next server goes on with it.
                    tracing::error!(run = id, %problem, "cannot be noted");
                }
            }
            inner.leave(&id);
        });
    }

    async fn turn(&self, run: RunInfo, live: &Live) -> Left {
        let mut stop = live.stop.subscribe();
        let turn = tokio::select! {
            turn = self.turns.clone().acquire_owned() => turn,
            why = stopped(&mut stop) => return left(why),
        };
        // The semaphore is never closed.
        let _turn = turn.ok()?;
        let id = run.id.clone();
        let begun = self.blocking(move |it| it.set(&id, Status::Running, None, &Value::Null));
        if let Err(problem) = begun.await {
            return Some(Rest::failed(problem.to_string()));
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
            Ok(Ok(Ended::Complete(outcome))) => Rest { outcome, ..Rest::at(Status::Complete) },
            Ok(Ok(Ended::Waiting)) => Rest::at(Status::Waiting),
            Ok(Err(failure)) => Rest::failed(failure.to_string()),
            Err(_) => Rest::failed("an internal error; the server's log has it"),
        })
    }
}

fn left(why: Stop) -> Left {
    match why {
        Stop::Cancelled => Some(Rest::at(Status::Cancelled)),
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
