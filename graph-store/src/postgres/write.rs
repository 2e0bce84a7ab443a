//! Storing writes.

use std::sync::Arc;

use deadpool_postgres::PoolError;
use graph_core::checkpoint::{CheckpointError, Place};

use super::{
    batch::{Batch, Group},
    chains::name,
    database::{Again, Postgres},
    failure::Failure,
    known::{Known, Numbers},
    ops::{Op, Put},
};
use crate::{
    body::damaged,
    chain::{Tip, Tips},
    codec::CodecError,
};

const WRITE: &str = "SELECT @.write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
                     $15, $16, $17, $18, $19, $20, $21)";

/// How often a base is read again that has changed meanwhile. It changes where a thread is deleted and copied to
/// again and again, and not otherwise.
const TRIES: usize = 5;

/// Stores writes in order: all of them in one transaction, or else one by one, if some of them are there already.
pub(super) async fn write(
    database: &Postgres,
    known: &Known,
    numbers: &Numbers,
    ops: &[Op],
) -> Result<(), Failure<CheckpointError>> {
    if ops.len() > 1
        && let Answer::Stored = attempt(database, known, numbers, ops).await?
    {
        return Ok(());
    }
    for op in ops {
        write_one(database, known, numbers, op).await?;
    }
    Ok(())
}

async fn write_one(
    database: &Postgres,
    known: &Known,
    numbers: &Numbers,
    op: &Op,
) -> Result<(), Failure<CheckpointError>> {
    let place = match op {
        Op::Put(put) => &put.place,
        Op::Record(records) => &records.place,
    };
    for _ in 0..TRIES {
        match attempt(database, known, numbers, std::slice::from_ref(op)).await? {
            Answer::Stored => return Ok(()),
            // What was known of its base does not hold any more.
            Answer::Unclear => known.forget(place),
        }
    }
    let (what, problem) = ("its base".to_owned(), "links of it are missing".to_owned());
    Err(damaged(place, &CodecError::Decode { what, problem }).into())
}

enum Answer {
    Stored,
    /// Nothing was stored, because something is not as it was taken for.
    Unclear,
}

/// Stores all or nothing.
async fn attempt(
    database: &Postgres,
    known: &Known,
    numbers: &Numbers,
    ops: &[Op],
) -> Result<Answer, Failure<CheckpointError>> {
    let batch = Batch::plan(database, known, numbers, ops).await?;
    // A single write is for the database to judge: it may be there already.
    if batch.lacks_base && ops.len() > 1 {
        return Ok(Answer::Unclear);
    }
    let answers = match &batch.groups[..] {
        [] => return Ok(Answer::Stored),
        [only] => vec![store(database, only).await?],
        many => store_many(database, many).await?,
    };
    for (group, answer) in batch.groups.iter().zip(&answers) {
        match answer.as_str() {
            "stored" | "known" => {}
            "mixed" | "stale" => return Ok(Answer::Unclear),
            refusal => return Err(refused(group, refusal).into()),
        }
    }
    for (group, answer) in batch.groups.iter().zip(answers) {
        if answer == "stored"
            && let Some((place, tips)) = batch.newest(group)
        {
            known.insert(place, tips);
        }
    }
    Ok(Answer::Stored)
}

fn refused(group: &Group<'_>, refusal: &str) -> CheckpointError {
    let thread = group.thread.to_owned();
    match (refusal, group.first()) {
        ("lease", _) => CheckpointError::LeaseLost { thread },
        ("base", Some(Put { place: Place { namespace, .. }, base: Some(id), .. })) => {
            CheckpointError::UnknownCheckpoint { thread, namespace: namespace.clone(), id: *id }
        }
        _ => CheckpointError::HeadMoved { thread },
    }
}

async fn store(database: &Postgres, group: &Group<'_>) -> Result<String, Failure<CheckpointError>> {
    let params = group.params(database.token(group.thread));
    let rows = database.query(WRITE, &params.list()).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

async fn store_many(
    database: &Postgres,
    groups: &[Group<'_>],
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
    groups: &[Group<'_>],
) -> Result<Vec<String>, PoolError> {
    let mut connection = database.connection().await?;
    let write = connection.prepare_cached(&database.sql(WRITE)).await?;
    let transaction = connection.transaction().await?;
    let mut answers = Vec::new();
    for group in groups {
        let params = group.params(database.token(group.thread));
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
