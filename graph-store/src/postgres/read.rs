//! Reads checkpoints.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use deadpool_postgres::Transaction;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointId, CheckpointKey, HistoryQuery, Lookup, TaskRecord,
};
use tokio_postgres::{IsolationLevel, Row, types::ToSql};

use super::{
    chains::{FieldTips, LinkReader, field_tips},
    database::{Postgres, RetryBackoff},
    failure::Failure,
    tip_cache::TipCache,
};
use crate::{body::Body, codec::Codec, encoded};

/// Maximum number of checkpoints that one statement reads when checkpoints are listed.
const PAGE_ROWS: usize = 256;

/// The statement that reads one checkpoint: its row, its chains and its records, in one consistent snapshot.
///
/// `LATERAL … OFFSET 0` makes the server follow each chain link by link, so that no query plan scans a whole table.
macro_rules! one_checkpoint {
    ($which:literal) => {
        concat!(
            "WITH RECURSIVE found AS MATERIALIZED (
                 SELECT c.namespace, c.id, c.fields, c.links, c.body FROM @.checkpoint c
                 WHERE c.namespace = (
                     SELECT n.id FROM @.namespace n WHERE n.thread = $1 AND n.name = $2
                 ) ",
            $which,
            "
             ), chain AS (
                 SELECT l.id, l.prev, l.depth, l.body FROM found, LATERAL (
                     SELECT l.id, l.prev, l.depth, l.body FROM @.link l
                     WHERE l.namespace = found.namespace AND l.id = ANY (found.links) OFFSET 0
                 ) AS l
             UNION ALL
                 SELECT l.id, l.prev, l.depth, l.body FROM found, chain, LATERAL (
                     SELECT l.id, l.prev, l.depth, l.body FROM @.link l
                     WHERE l.namespace = found.namespace AND l.id = chain.prev OFFSET 0
                 ) AS l
             )
             SELECT 'checkpoint', id, fields, links, NULL::bigint, NULL::bigint, NULL::integer, body
             FROM found
             UNION ALL
             SELECT 'link', NULL, NULL, NULL, id, prev, depth, body FROM chain
             UNION ALL
             SELECT 'record', NULL, NULL, NULL, r.seq, NULL, NULL, r.body
             FROM found, LATERAL (
                 SELECT r.seq, r.body FROM @.record r
                 WHERE r.namespace = found.namespace AND r.checkpoint = found.id OFFSET 0
             ) AS r"
        )
    };
}

/// Reads one checkpoint: the one with the given id, or the newest one in its namespace.
pub(super) async fn get(
    database: &Postgres,
    cache: &TipCache,
    at: &Lookup,
) -> Result<Option<Checkpoint>, Failure<CheckpointError>> {
    let (thread, namespace) = (at.thread.as_bytes(), at.namespace.as_bytes());
    let rows = match at.id {
        Some(id) => {
            let params: [&(dyn ToSql + Sync); 3] = [&thread, &namespace, &&id.to_bytes()[..]];
            database.query(one_checkpoint!("AND c.id = $3"), &params).await
        }
        None => {
            let latest = one_checkpoint!("ORDER BY c.id DESC LIMIT 1");
            database.query(latest, &[&thread, &namespace]).await
        }
    }?;
    let codec = database.codec();
    let kind = |row: &Row| row.try_get::<_, String>(0);
    let mut row_data = None;
    for row in &rows {
        if kind(row)? == "checkpoint" {
            row_data = Some(CheckpointRow::read(row, 1, 7)?);
        }
    }
    let Some(row_data) = row_data else { return Ok(None) };
    let key = CheckpointKey {
        thread: at.thread.clone(),
        namespace: at.namespace.clone(),
        id: row_data.id,
    };
    let mut links = LinkReader::default();
    let mut records = Vec::new();
    for row in rows {
        match kind(&row)?.as_str() {
            "link" => links.add(row, 4)?,
            "record" => records.push((row.try_get::<_, i64>(4)?, record(codec, &key, &row, 7)?)),
            _ => {}
        }
    }
    records.sort_by_key(|it| it.0);
    let records = records.into_iter().map(|it| it.1).collect();
    let body = Body::decode(codec, &key, &row_data.body)?;
    let checkpoint = assemble(codec, key, body, &row_data.tips, &mut links, records)?;
    // The next write often builds on the checkpoint that was just read, so its tips are cached.
    if let Some(tips) = links.chain_tips(&row_data.tips) {
        cache.insert(&checkpoint.key, Arc::new(tips));
    }
    Ok(Some(checkpoint))
}

/// Returns the checkpoints in a namespace that match the query, newest first. Each link is read only once.
pub(super) async fn list(
    database: &Postgres,
    query: &HistoryQuery,
) -> Result<Vec<Checkpoint>, Failure<CheckpointError>> {
    let mut backoff = RetryBackoff::default();
    loop {
        match try_list(database, query).await {
            Err(Failure::Database(error)) if backoff.wait_before_retry(&error).await => {}
            answer => return answer,
        }
    }
}

async fn try_list(
    database: &Postgres,
    query: &HistoryQuery,
) -> Result<Vec<Checkpoint>, Failure<CheckpointError>> {
    let mut connection = database.connection().await?;
    // All statements see one consistent snapshot.
    let transaction = connection
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let reader = Reader { database, transaction };
    let Some(namespace) = reader.namespace(query).await? else { return Ok(Vec::new()) };
    let found = reader.matching(namespace, query).await?;
    let (mut links, mut records) = reader.parts(namespace, query, &found).await?;
    reader.transaction.commit().await?;
    let mut checkpoints = Vec::with_capacity(found.len());
    for (row_data, body) in found {
        let records = records.remove(&row_data.id).unwrap_or_default();
        let key = checkpoint_key_of(query, row_data.id);
        let tips = &row_data.tips;
        checkpoints.push(assemble(database.codec(), key, body, tips, &mut links, records)?);
    }
    Ok(checkpoints)
}

struct Reader<'a> {
    database: &'a Postgres,
    transaction: Transaction<'a>,
}

impl Reader<'_> {
    async fn namespace(
        &self,
        query: &HistoryQuery,
    ) -> Result<Option<i64>, Failure<CheckpointError>> {
        let rows = self
            .query(
                "SELECT n.id FROM @.namespace n WHERE n.thread = $1 AND n.name = $2",
                &[&query.thread.as_bytes(), &query.namespace.as_bytes()],
            )
            .await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    /// Returns the rows that match the query, together with their decoded bodies.
    async fn matching(
        &self,
        namespace: i64,
        query: &HistoryQuery,
    ) -> Result<Vec<(CheckpointRow, Body)>, Failure<CheckpointError>> {
        let mut found = Vec::new();
        // Without `before`, the query starts at the newest checkpoint, because this value is greater than any id.
        let mut before = query.before.map_or([0xff; 16], CheckpointId::to_bytes);
        let limit = query.limit.unwrap_or(usize::MAX);
        let page = if query.reads_headers() { PAGE_ROWS } else { PAGE_ROWS.min(limit) };
        while found.len() < limit {
            let rows = self
                .query(
                    "SELECT c.id, c.fields, c.links, c.body FROM @.checkpoint c
                     WHERE c.namespace = $1 AND c.id < $2 ORDER BY c.id DESC LIMIT $3",
                    &[&namespace, &&before[..], &i64::try_from(page).unwrap_or(i64::MAX)],
                )
                .await?;
            for row in &rows {
                let row_data = CheckpointRow::read(row, 0, 3)?;
                before = row_data.id.to_bytes();
                let key = checkpoint_key_of(query, row_data.id);
                let body = Body::decode(self.database.codec(), &key, &row_data.body)?;
                if found.len() < limit && query.matches(row_data.id, &body.header) {
                    found.push((row_data, body));
                }
            }
            if rows.len() < page {
                break;
            }
        }
        Ok(found)
    }

    /// Reads the links and the records of the given checkpoints.
    async fn parts(
        &self,
        namespace: i64,
        query: &HistoryQuery,
        found: &[(CheckpointRow, Body)],
    ) -> Result<(LinkReader, HashMap<CheckpointId, Vec<TaskRecord>>), Failure<CheckpointError>>
    {
        let mut links = LinkReader::default();
        let mut records: HashMap<_, Vec<_>> = HashMap::new();
        if found.is_empty() {
            return Ok((links, records));
        }
        let codec = self.database.codec();
        let tips: BTreeSet<i64> =
            found.iter().flat_map(|(it, _)| it.tips.iter().map(|it| it.1)).collect();
        let rows = self
            .query(
                "WITH RECURSIVE needed (id) AS (
                     SELECT unnest($2::bigint[])
                 UNION
                     SELECT l.prev FROM needed, LATERAL (
                         SELECT l.prev FROM @.link l
                         WHERE l.namespace = $1 AND l.id = needed.id OFFSET 0
                     ) AS l WHERE l.prev IS NOT NULL
                 )
                 SELECT l.id, l.prev, l.depth, l.body FROM needed, LATERAL (
                     SELECT l.id, l.prev, l.depth, l.body FROM @.link l
                     WHERE l.namespace = $1 AND l.id = needed.id OFFSET 0
                 ) AS l",
                &[&namespace, &tips.into_iter().collect::<Vec<_>>()],
            )
            .await?;
        for row in rows {
            links.add(row, 0)?;
        }
        let ids: Vec<Vec<u8>> = found.iter().map(|(it, _)| it.id.to_bytes().to_vec()).collect();
        let rows = self
            .query(
                "SELECT r.checkpoint, r.body FROM @.record r
                 WHERE r.namespace = $1 AND r.checkpoint = ANY ($2) ORDER BY r.seq",
                &[&namespace, &ids],
            )
            .await?;
        for row in &rows {
            let id = id_at(row, 0)?;
            let record = record(codec, &checkpoint_key_of(query, id), row, 1)?;
            records.entry(id).or_default().push(record);
        }
        Ok((links, records))
    }

    async fn query(
        &self,
        statement: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.transaction.prepare_cached(&self.database.sql(statement)).await?;
        self.transaction.query(&statement, params).await
    }
}

/// The row of a checkpoint.
struct CheckpointRow {
    id: CheckpointId,
    tips: FieldTips,
    body: Vec<u8>,
}

impl CheckpointRow {
    /// Reads the columns `id`, `fields` and `links`, starting at `column`, and the body from the column `body`.
    fn read(row: &Row, column: usize, body: usize) -> Result<Self, tokio_postgres::Error> {
        let (id, tips) = (id_at(row, column)?, field_tips(row, column + 1)?);
        Ok(Self { id, tips, body: row.try_get(body)? })
    }
}

/// Assembles a checkpoint from its rows.
fn assemble(
    codec: &Codec,
    key: CheckpointKey,
    body: Body,
    tips: &FieldTips,
    links: &mut LinkReader,
    records: Vec<TaskRecord>,
) -> Result<Checkpoint, Failure<CheckpointError>> {
    let values = links.values(codec, tips).map_err(|it| it.of_checkpoint(&key))?;
    Ok(Checkpoint { key, header: body.header, frontier: body.frontier, values, records })
}

fn record(
    codec: &Codec,
    key: &CheckpointKey,
    row: &Row,
    column: usize,
) -> Result<TaskRecord, Failure<CheckpointError>> {
    Ok(encoded::decode_record(codec, key, row.try_get(column)?)?)
}

/// Reads a checkpoint id from a column. An invalid id becomes the lowest one, which no checkpoint has.
pub(super) fn id_at(row: &Row, column: usize) -> Result<CheckpointId, tokio_postgres::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    Ok(CheckpointId::from_bytes(bytes.try_into().unwrap_or_default()))
}

fn checkpoint_key_of(query: &HistoryQuery, id: CheckpointId) -> CheckpointKey {
    CheckpointKey { thread: query.thread.clone(), namespace: query.namespace.clone(), id }
}

/// Returns the number in the first column of the first row.
pub(super) fn count(rows: &[Row]) -> Result<usize, tokio_postgres::Error> {
    let number: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(number.and_then(|it| usize::try_from(it).ok()).unwrap_or(0))
}
