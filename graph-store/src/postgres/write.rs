//! Storing writes.

use std::sync::Arc;

use deadpool_postgres::PoolError;
use graph_core::checkpoint::CheckpointError;

use super::{
    batch::Batch,
    chains::name,
    database::{Again, Postgres},
    failure::Failure,
    group::Group,
    known::{Known, Numbers},
    lanes::{Lanes, statement},
    ops::Op,
};
use crate::{
    body::damaged,
    chain::{Tip, Tips},
    codec::CodecError,
    stored::Put,
};

/// How often a base is read again that has changed meanwhile. It changes where a thread is deleted and copied to
/// again and again, and not otherwise.
const TRIES: usize = 5;

/// What writing needs.
pub(super) struct Writer {
    pub(super) known: Known,
    numbers: Numbers,
    lanes: Arc<Lanes>,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { known: Known::default(), numbers: Numbers::new(), lanes: Arc::default() }
    }

    /// Stores writes in order: all of them in one transaction, or else one by one, if some are there already.
    pub(super) async fn write(
        &self,
        database: &Postgres,
        ops: &[Op],
    ) -> Result<(), Failure<CheckpointError>> {
        if ops.len() > 1
            && let Answer::Stored = self.attempt(database, ops).await?
        {
            return Ok(());
        }
        for op in ops {
            self.write_one(database, op).await?;
        }
        Ok(())
    }

    async fn write_one(
        &self,
        database: &Postgres,
        op: &Op,
    ) -> Result<(), Failure<CheckpointError>> {
        let place = match op {
            Op::Put(put) => &put.place,
            Op::Record(records) => &records.place,
        };
        for _ in 0..TRIES {
            match self.attempt(database, std::slice::from_ref(op)).await? {
                Answer::Stored => return Ok(()),
                // What was known of its base does not hold any more.
                Answer::Unclear => self.known.forget(place),
            }
        }
        let (what, problem) = ("its base".to_owned(), "links of it are missing".to_owned());
        Err(damaged(place, &CodecError::Decode { what, problem }).into())
    }

    /// Stores all or nothing.
    async fn attempt(
        &self,
        database: &Postgres,
        ops: &[Op],
    ) -> Result<Answer, Failure<CheckpointError>> {
        let batch = Batch::plan(database, &self.known, &self.numbers, ops).await?;
        // A single write is for the database to judge: it may be there already.
        if batch.lacks_base && ops.len() > 1 {
            return Ok(Answer::Unclear);
        }
        let answers = match &batch.groups[..] {
            [] => return Ok(Answer::Stored),
            [only] => vec![self.lanes.store(database, only).await?],
            many => store_many(database, many).await?,
        };
        for (group, answer) in batch.groups.iter().zip(&answers) {
            match answer.as_str() {
                "stored" | "known" => {}
                "mixed" | "stale" => return Ok(Answer::Unclear),
                refusal => return Err(group.refused(refusal).into()),
            }
        }
        for (group, answer) in batch.groups.iter().zip(answers) {
            if answer == "stored"
                && let Some(place) = group.puts.last().map(|it| &it.place)
                && let Some(tips) = batch.tips.get(place)
            {
                self.known.insert(place, tips.clone());
            }
        }
        Ok(Answer::Stored)
    }
}

enum Answer {
    Stored,
    /// Nothing was stored, because something is not as it was taken for.
    Unclear,
}

async fn store_many(
    database: &Postgres,
    groups: &[Arc<Group>],
) -> Result<Vec<String>, Failure<CheckpointError>> {
    let mut again = Again::default();
    loop {
        match try_store_many(database, groups).await {
            Err(error) if again.pause(&error).await => {}
            answer => return Ok(answer?),
        }
    }
}

/// Gives the answers, up to the first that refuses; then nothing is stored.
async fn try_store_many(
    database: &Postgres,
    groups: &[Arc<Group>],
) -> Result<Vec<String>, PoolError> {
    let mut connection = database.connection().await?;
    let write = connection.prepare_cached(&database.sql(&statement(1))).await?;
    let transaction = connection.transaction().await?;
    let mut answers = Vec::new();
    for group in groups {
        let params = group.params(database.token(&group.thread));
        let answer: String = transaction.query_one(&write, &params.list()).await?.try_get(0)?;
        let goes_on = matches!(answer.as_str(), "stored" | "known");
        answers.push(answer);
        if !goes_on {
            transaction.rollback().await?;
            return Ok(answers);
        }
    }
    transaction.commit().await?;
    Ok(answers)
}

impl Postgres {
    /// The newest links of the checkpoint that the changes are relative to; `None` if it is not there.
    pub(super) async fn base_tips(
        &self,
        known: &Known,
        put: &Put,
    ) -> Result<Option<Arc<Tips>>, Failure<CheckpointError>> {
        let Some(base) = put.base else { return Ok(Some(Arc::default())) };
        if let Some(tips) = known.get(&put.place, base) {
            return Ok(Some(tips));
        }
        let rows = self
            .query(
                "SELECT u.field, u.link, l.depth FROM @.checkpoint c
                 LEFT JOIN LATERAL unnest(c.fields, c.links) AS u (field, link) ON true
                 LEFT JOIN @.link l ON l.namespace = c.namespace AND l.id = u.link
                 WHERE c.id = $3 AND c.namespace = (
                     SELECT n.id FROM @.namespace n WHERE n.thread = $1 AND n.name = $2
                 )",
                &[
                    &put.place.thread.as_bytes(),
                    &put.place.namespace.as_bytes(),
                    &&base.to_bytes()[..],
                ],
            )
            .await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut tips = Tips::new();
        for row in rows {
            // A checkpoint without fields is one row of nothing.
            if let Some(field) = row.try_get::<_, Option<&[u8]>>(0)? {
                let depth: Option<i32> = row.try_get(2)?;
                let depth = depth.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
                tips.insert(name(field), Tip { link: row.try_get(1)?, depth });
            }
        }
        Ok(Some(Arc::new(tips)))
    }
}
