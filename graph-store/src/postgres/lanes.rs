//! Writes of several threads at once.
//!
//! A write that comes while few others are on their way goes its own way. Those that come while some are wait
//! for a moment, and then go together, in one statement: that is one round trip and one commit for all of them, and
//! few of the server's processes at work instead of many. What a transaction costs besides the rows it stores is
//! most of what a small one costs, so few full statements beat many that are nearly empty. Each write still is
//! stored or refused by itself: the function in the database answers for each, and one that is refused leaves
//! nothing behind.

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
    failure::{Failure, is_lost},
    group::{Group, PARAMS},
};

/// How many statements are on their way at once before others wait: while one waits for the disk, another is worked on.
const LANES: usize = 2;
/// How many there may be once so many wait that each goes full.
const FULL_LANES: usize = 8;
/// How many groups one statement takes at most.
const TOGETHER: usize = 16;
/// How many groups statements take. There is a prepared one for each of these, and not for every number.
const SIZES: [usize; 8] = [TOGETHER, 12, 8, 6, 4, 3, 2, 1];

/// The statements on their way, and the groups that wait for one.
#[derive(Default)]
pub(super) struct Lanes(
    // A std mutex: it is held for a moment only.
    Mutex<Traffic>,
);

#[derive(Default)]
struct Traffic {
    busy: usize,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    group: Arc<Group>,
    answer: oneshot::Sender<Result<String, CheckpointError>>,
}

impl Lanes {
    /// Stores a group, alone or with others, and gives the database's answer.
    pub(super) async fn store(
        self: &Arc<Self>,
        database: &Postgres,
        group: &Arc<Group>,
    ) -> Result<String, Failure<CheckpointError>> {
        let answered = {
            let mut traffic = self.lock();
            if traffic.busy < LANES {
                traffic.busy += 1;
                None
            } else {
                let (answer, answered) = oneshot::channel();
                traffic.waiting.push_back(Waiting { group: group.clone(), answer });
                if traffic.waiting.len() >= TOGETHER && traffic.busy < FULL_LANES {
                    traffic.busy += 1;
                    Convoy::start(self.clone(), database);
                }
                Some(answered)
            }
        };
        match answered {
            Some(answered) => match answered.await {
                Ok(answer) => Ok(answer?),
                // The runtime that would have stored it is gone.
                Err(_) => Ok(alone(database, group).await?),
            },
            None => {
                let _lane = Lane { lanes: self.clone(), database: database.clone() };
                Ok(alone(database, group).await?)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement on its way. When it has come back, or nobody waits for it any more, the groups that wait go next.
struct Lane {
    lanes: Arc<Lanes>,
    database: Postgres,
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut traffic = self.lanes.lock();
        if traffic.waiting.is_empty() {
            traffic.busy -= 1;
            return;
        }
        drop(traffic);
        Convoy::start(self.lanes.clone(), &self.database);
    }
}

/// Stores what waits, until nothing does.
struct Convoy {
    lanes: Arc<Lanes>,
    is_over: bool,
}

impl Convoy {
    /// Goes on in a lane that is counted as busy.
    fn start(lanes: Arc<Lanes>, database: &Postgres) {
        let convoy = Self { lanes, is_over: false };
        let (runtime, database) = (database.runtime(), database.clone());
        drop(runtime.spawn(async move { convoy.run(&database).await }));
    }

    async fn run(mut self, database: &Postgres) {
        while let Some(groups) = self.next() {
            store_together(database, groups).await;
            // Those who were answered this moment come with their next write in the next one.
            tokio::task::yield_now().await;
        }
    }

    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut traffic = self.lanes.lock();
        let Some(size) = SIZES.into_iter().find(|it| *it <= traffic.waiting.len()) else {
            traffic.busy -= 1;
            self.is_over = true;
            return None;
        };
        Some(traffic.waiting.drain(..size).collect())
    }
}

impl Drop for Convoy {
    fn drop(&mut self) {
        // The runtime goes down: whoever waits is told so.
        if !self.is_over {
            let mut traffic = self.lanes.lock();
            traffic.busy -= 1;
            traffic.waiting.clear();
        }
    }
}

async fn store_together(database: &Postgres, mut groups: Vec<Waiting>) {
    // The same order everywhere keeps locks from crossing.
    groups.sort_by(|a, b| {
        (&a.group.thread, &a.group.namespace).cmp(&(&b.group.thread, &b.group.namespace))
    });
    match try_store_together(database, &groups).await {
        Ok(answers) => {
            for (waiting, answer) in groups.into_iter().zip(answers) {
                // Nobody waits any more if the caller was dropped.
                let _ = waiting.answer.send(Ok(answer));
            }
        }
        // Then it is the fault of none of them.
        Err(error) if groups.len() == 1 || is_lost(&error) => {
            let error = CheckpointError::Storage(Arc::new(database.explain(error)));
            for waiting in groups {
                let _ = waiting.answer.send(Err(error.clone()));
            }
        }
        // The fault of one must not be that of the others.
        Err(_) => {
            for waiting in groups {
                let answer = alone(database, &waiting.group).await;
                let answer = answer.map_err(|it| database.checkpoint_error(it.into()));
                let _ = waiting.answer.send(answer);
            }
        }
    }
}

async fn try_store_together(
    database: &Postgres,
    groups: &[Waiting],
) -> Result<Vec<String>, PoolError> {
    let params: Vec<_> =
        groups.iter().map(|it| it.group.params(database.token(&it.group.thread))).collect();
    let list: Vec<_> = params.iter().flat_map(|it| it.list()).collect();
    let rows = database.query(&statement(groups.len()), &list).await?;
    let row = rows.first();
    let answer = |index| row.map_or(Ok(String::new()), |it| it.try_get(index));
    Ok((0..groups.len()).map(answer).collect::<Result<_, _>>()?)
}

async fn alone(database: &Postgres, group: &Group) -> Result<String, PoolError> {
    let params = group.params(database.token(&group.thread));
    let rows = database.query(&statement(1), &params.list()).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

/// Stores so many groups: `SELECT @.write($1, …), @.write($22, …)`.
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
