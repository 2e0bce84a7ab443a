//! Stores checkpoints and task records.

use std::sync::Arc;

use deadpool_postgres::PoolError;
use graph_core::checkpoint::CheckpointError;

use super::{
    batch::Batch,
    chains::name,
    database::{Postgres, RetryBackoff},
    failure::Failure,
    group::WriteGroup,
    ops::WriteOp,
    tip_cache::{LinkIds, TipCache},
    write_queue::{WriteQueue, statement},
};
use crate::{
    body::damaged,
    chain::{ChainTip, ChainTips},
    codec::CodecError,
    encoded::EncodedCheckpoint,
};

/// Maximum number of attempts to store a write whose base has changed. The base changes repeatedly only if its thread
/// is repeatedly deleted and then recreated as a copy of another thread.
const MAX_ATTEMPTS: usize = 5;

/// State that all writes of a saver share.
pub(super) struct Writer {
    pub(super) tip_cache: TipCache,
    link_ids: LinkIds,
    queue: Arc<WriteQueue>,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { tip_cache: TipCache::default(), link_ids: LinkIds::new(), queue: Arc::default() }
    }

    /// Stores writes in order. Stores all of them in one transaction, or one by one if some of them are already
    /// stored.
    pub(super) async fn write(
        &self,
        database: &Postgres,
        ops: &[WriteOp],
    ) -> Result<(), Failure<CheckpointError>> {
        if ops.len() > 1
            && let WriteOutcome::Stored = self.attempt(database, ops).await?
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
        op: &WriteOp,
    ) -> Result<(), Failure<CheckpointError>> {
        let key = match op {
            WriteOp::Put(put) => &put.key,
            WriteOp::Record(records) => &records.key,
        };
        for _ in 0..MAX_ATTEMPTS {
            match self.attempt(database, std::slice::from_ref(op)).await? {
                WriteOutcome::Stored => return Ok(()),
                // The cached tips of the write's base are stale.
                WriteOutcome::Stale => self.tip_cache.remove(key),
            }
        }
        let (what, problem) = ("its base".to_owned(), "some of its links are missing".to_owned());
        Err(damaged(key, &CodecError::Decode { what, problem }).into())
    }

    /// Tries once to store all writes. Stores all of them or none.
    async fn attempt(
        &self,
        database: &Postgres,
        ops: &[WriteOp],
    ) -> Result<WriteOutcome, Failure<CheckpointError>> {
        let batch = Batch::plan(database, &self.tip_cache, &self.link_ids, ops).await?;
        // A single write is sent even if its base is missing, because the write may already be stored, which only the
        // database knows.
        if batch.is_base_missing && ops.len() > 1 {
            return Ok(WriteOutcome::Stale);
        }
        let answers = match &batch.groups[..] {
            [] => return Ok(WriteOutcome::Stored),
            [only] => vec![self.queue.store(database, only).await?],
            many => store_many(database, many).await?,
        };
        for (group, answer) in batch.groups.iter().zip(&answers) {
            match answer.as_str() {
                "stored" | "known" => {}
                "mixed" | "stale" => return Ok(WriteOutcome::Stale),
                answer => return Err(group.rejection(answer).into()),
            }
        }
        for (group, answer) in batch.groups.iter().zip(answers) {
            if answer == "stored"
                && let Some(key) = group.puts.last().map(|it| &it.key)
                && let Some(tips) = batch.tips.get(key)
            {
                self.tip_cache.insert(key, tips.clone());
            }
        }
        Ok(WriteOutcome::Stored)
    }
}

enum WriteOutcome {
    Stored,
    /// Nothing was stored, because an assumption of the plan was wrong.
    Stale,
}

async fn store_many(
    database: &Postgres,
    groups: &[Arc<WriteGroup>],
) -> Result<Vec<String>, Failure<CheckpointError>> {
    let mut backoff = RetryBackoff::default();
    loop {
        match try_store_many(database, groups).await {
            Err(error) if backoff.wait_before_retry(&error).await => {}
            answer => return Ok(answer?),
        }
    }
}

/// Returns the answers up to and including the first rejection. If there is a rejection, nothing is stored.
async fn try_store_many(
    database: &Postgres,
    groups: &[Arc<WriteGroup>],
) -> Result<Vec<String>, PoolError> {
    let mut connection = database.connection().await?;
    let write = connection.prepare_cached(&database.sql(&statement(1))).await?;
    let transaction = connection.transaction().await?;
    let mut answers = Vec::new();
    for group in groups {
        let params = group.params(database.token(&group.thread));
        let answer: String = transaction.query_one(&write, &params.list()).await?.try_get(0)?;
        let is_accepted = matches!(answer.as_str(), "stored" | "known");
        answers.push(answer);
        if !is_accepted {
            transaction.rollback().await?;
            return Ok(answers);
        }
    }
    transaction.commit().await?;
    Ok(answers)
}

impl Postgres {
    /// Returns the chain tips of the checkpoint that the changes are relative to. Returns `None` if that checkpoint
    /// does not exist.
    pub(super) async fn base_tips(
        &self,
        cache: &TipCache,
        put: &EncodedCheckpoint,
    ) -> Result<Option<Arc<ChainTips>>, Failure<CheckpointError>> {
        let Some(base) = put.base else { return Ok(Some(Arc::default())) };
        if let Some(tips) = cache.get(&put.key, base) {
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
                &[&put.key.thread.as_bytes(), &put.key.namespace.as_bytes(), &&base.to_bytes()[..]],
            )
            .await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut tips = ChainTips::new();
        for row in rows {
            // A checkpoint without fields yields one row of NULLs.
            if let Some(field) = row.try_get::<_, Option<&[u8]>>(0)? {
                let depth: Option<i32> = row.try_get(2)?;
                let depth = depth.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
                tips.insert(name(field), ChainTip { link: row.try_get(1)?, depth });
            }
        }
        Ok(Some(Arc::new(tips)))
    }
}
