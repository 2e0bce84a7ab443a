//! Combines concurrent writes to several threads.
//!
//! While few statements are in flight, a write is sent immediately. Otherwise it waits for a moment and is then
//! sent together with other waiting writes in one statement, which needs only one round trip and one commit, and
//! keeps few server processes busy instead of many. The overhead of a transaction dominates the cost of a small
//! transaction, so a few full statements are faster than many nearly empty ones. Each write is still stored or
//! rejected individually: the database function returns one answer per write, and a rejected write leaves nothing
//! behind.

use std::{
    collections::VecDeque,
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use deadpool_postgres::PoolError;
use graph_core::checkpoint::CheckpointError;
use tokio::sync::oneshot;

use super::{
    database::Postgres,
    failure::{Failure, is_connection_lost},
    group::{PARAMS, WriteGroup},
};

/// Maximum number of statements in flight before writes are queued. With two, the server can process one statement
/// while the other is waiting for the disk.
const MAX_STATEMENTS: usize = 2;
/// Maximum number of statements in flight when enough writes are queued to fill each statement.
const MAX_FULL_STATEMENTS: usize = 8;
/// Maximum number of groups per statement.
const MAX_GROUPS: usize = 16;
/// The permitted numbers of groups per statement. Each number needs its own prepared statement, so the list is short.
const STATEMENT_SIZES: [usize; 8] = [MAX_GROUPS, 12, 8, 6, 4, 3, 2, 1];

/// The number of statements in flight, and the groups that are waiting to be sent.
#[derive(Default)]
pub(super) struct WriteQueue(
    // A std mutex, because it is only locked briefly.
    Mutex<QueueState>,
);

#[derive(Default)]
struct QueueState {
    in_flight: usize,
    waiting: VecDeque<QueuedGroup>,
}

struct QueuedGroup {
    group: Arc<WriteGroup>,
    answer: oneshot::Sender<Result<String, CheckpointError>>,
}

impl WriteQueue {
    /// Stores a group, alone or together with others, and returns the database's answer.
    pub(super) async fn store(
        self: &Arc<Self>,
        database: &Postgres,
        group: &Arc<WriteGroup>,
    ) -> Result<String, Failure<CheckpointError>> {
        let answered = {
            let mut state = self.lock();
            if state.in_flight < MAX_STATEMENTS {
                state.in_flight += 1;
                None
            } else {
                let (answer, answered) = oneshot::channel();
                state.waiting.push_back(QueuedGroup { group: group.clone(), answer });
                if state.waiting.len() >= MAX_GROUPS && state.in_flight < MAX_FULL_STATEMENTS {
                    state.in_flight += 1;
                    QueueDrainer::start(self.clone(), database);
                }
                Some(answered)
            }
        };
        match answered {
            Some(answered) => match answered.await {
                Ok(answer) => Ok(answer?),
                // The runtime that would have stored the group has shut down, so the caller stores the group itself.
                Err(_) => Ok(store_alone(database, group).await?),
            },
            None => {
                let _slot = InFlightSlot { queue: self.clone(), database: database.clone() };
                Ok(store_alone(database, group).await?)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a statement that is in flight. When the statement has completed or is cancelled, dropping the slot
/// sends the waiting groups.
struct InFlightSlot {
    queue: Arc<WriteQueue>,
    database: Postgres,
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if state.waiting.is_empty() {
            state.in_flight -= 1;
            return;
        }
        drop(state);
        QueueDrainer::start(self.queue.clone(), &self.database);
    }
}

/// Sends waiting groups until the queue is empty.
struct QueueDrainer {
    queue: Arc<WriteQueue>,
    is_finished: bool,
}

impl QueueDrainer {
    /// Spawns a task that drains the queue. The caller has already counted the task in `in_flight`.
    fn start(queue: Arc<WriteQueue>, database: &Postgres) {
        let drainer = Self { queue, is_finished: false };
        let (runtime, database) = (database.runtime(), database.clone());
        drop(runtime.spawn(async move { drainer.run(&database).await }));
    }

    async fn run(mut self, database: &Postgres) {
        while let Some(groups) = self.next() {
            store_together(database, groups).await;
            // Lets callers that have just received an answer queue their next write before the next statement is
            // assembled.
            tokio::task::yield_now().await;
        }
    }

    fn next(&mut self) -> Option<Vec<QueuedGroup>> {
        let mut state = self.queue.lock();
        let Some(size) = STATEMENT_SIZES.into_iter().find(|it| *it <= state.waiting.len()) else {
            state.in_flight -= 1;
            self.is_finished = true;
            return None;
        };
        Some(state.waiting.drain(..size).collect())
    }
}

impl Drop for QueueDrainer {
    fn drop(&mut self) {
        // If the drainer has not finished, the runtime is shutting down. Dropping the senders notifies the waiting
        // callers.
        if !self.is_finished {
            let mut state = self.queue.lock();
            state.in_flight -= 1;
            state.waiting.clear();
        }
    }
}

async fn store_together(database: &Postgres, mut groups: Vec<QueuedGroup>) {
    // Locking the namespaces in the same order everywhere prevents deadlocks.
    groups.sort_by(|a, b| {
        (&a.group.thread, &a.group.namespace).cmp(&(&b.group.thread, &b.group.namespace))
    });
    match try_store_together(database, &groups).await {
        Ok(answers) => {
            for (waiting, answer) in groups.into_iter().zip(answers) {
                // Sending fails if the caller has been dropped.
                let _ = waiting.answer.send(Ok(answer));
            }
        }
        // There is only one group, or the failure affects all groups.
        Err(error) if groups.len() == 1 || is_connection_lost(&error) => {
            let error = CheckpointError::Storage(Arc::new(database.database_error(error)));
            for waiting in groups {
                let _ = waiting.answer.send(Err(error.clone()));
            }
        }
        // The failure may be caused by one group, which must not affect the others, so each group is stored
        // separately.
        Err(_) => {
            for waiting in groups {
                let answer = store_alone(database, &waiting.group).await;
                let answer = answer.map_err(|it| database.checkpoint_error(it.into()));
                let _ = waiting.answer.send(answer);
            }
        }
    }
}

async fn try_store_together(
    database: &Postgres,
    groups: &[QueuedGroup],
) -> Result<Vec<String>, PoolError> {
    let params: Vec<_> =
        groups.iter().map(|it| it.group.params(database.token(&it.group.thread))).collect();
    let list: Vec<_> = params.iter().flat_map(|it| it.list()).collect();
    let rows = database.query(&statement(groups.len()), &list).await?;
    let row = rows.first();
    let answer = |index| row.map_or(Ok(String::new()), |it| it.try_get(index));
    Ok((0..groups.len()).map(answer).collect::<Result<_, _>>()?)
}

async fn store_alone(database: &Postgres, group: &WriteGroup) -> Result<String, PoolError> {
    let params = group.params(database.token(&group.thread));
    let rows = database.query(&statement(1), &params.list()).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

/// Builds the statement that stores `n_groups` groups: `SELECT @.write($1, …), @.write($22, …)`.
pub(super) fn statement(n_groups: usize) -> String {
    let mut sql = String::from("SELECT ");
    for param in 0..n_groups * PARAMS {
        let before = match (param, param % PARAMS) {
            (0, _) => "@.write(",
            (_, 0) => "), @.write(",
            _ => ", ",
        };
        let _ = write!(sql, "{before}${}", param + 1);
    }
    sql.push(')');
    sql
}

#[cfg(test)]
mod tests {
    use super::statement;

    #[test]
    fn every_group_has_its_parameters() {
        assert!(statement(1).starts_with("SELECT @.write($1, $2, "));
        assert!(statement(1).ends_with(", $21)"));
        assert!(statement(2).contains("$21), @.write($22, "));
        assert!(statement(2).ends_with(", $42)"));
    }
}
