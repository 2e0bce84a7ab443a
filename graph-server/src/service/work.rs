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
                inner.note(&id, rest).await;
            }
            inner.leave(&id);
        });
    }

    /// Notes where a run rests. Until that is on the disk nobody is told; a server that ends before goes on with it.
    async fn note(&self, id: &str, rest: Rest) {
        let (rest, mut closing) = (Arc::new(rest), self.closing.subscribe());
        loop {
            let (name, it) = (id.to_owned(), rest.clone());
            let set = self.blocking(move |registry| {
                registry.set(&name, it.status, it.error.as_deref(), &it.outcome)
            });
            let Err(problem) = set.await else { return };
            tracing::error!(run = id, %problem, "cannot be noted");
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = until_true(&mut closing) => return,
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
