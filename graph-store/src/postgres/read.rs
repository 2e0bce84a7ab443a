//! Reading checkpoints.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use deadpool_postgres::Transaction;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointId, History, Lookup, Place, TaskRecord,
};
use tokio_postgres::{IsolationLevel, Row, types::ToSql};

use super::{
    chains::{Links, Newest, newest},
    database::{Again, Postgres},
    failure::Failure,
    known::Known,
};
use crate::{body::Body, codec::Codec, stored};

/// How many checkpoints one statement of a listing reads.
const PAGE: usize = 256;

/// One checkpoint, by one statement: its row, its chains and its records, as they were at one moment.
///
/// Each chain is followed link by link, as `LATERAL … OFFSET 0` says, so that no plan reads a whole table.
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

/// One checkpoint: the addressed one, or the namespace's newest.
pub(super) async fn get(
    database: &Postgres,
    known: &Known,
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
    let mut stored = None;
    for row in &rows {
        if kind(row)? == "checkpoint" {
            stored = Some(Stored::read(row, 1, 7)?);
        }
    }
    let Some(stored) = stored else { return Ok(None) };
    let place = Place { thread: at.thread.clone(), namespace: at.namespace.clone(), id: stored.id };
    let mut links = Links::default();
    let mut records = Vec::new();
    for row in rows {
        match kind(&row)?.as_str() {
            "link" => links.add(row, 4)?,
            "record" => records.push((row.try_get::<_, i64>(4)?, record(codec, &place, &row, 7)?)),
            _ => {}
        }
    }
    records.sort_by_key(|it| it.0);
    let records = records.into_iter().map(|it| it.1).collect();
    let body = Body::decode(codec, &place, &stored.body)?;
    let checkpoint = whole(codec, place, body, &stored.newest, &mut links, records)?;
    // What is read is often what the next write builds on.
    if let Some(tips) = links.tips(&stored.newest) {
        known.insert(&checkpoint.place, Arc::new(tips));
    }
    Ok(Some(checkpoint))
}

/// The checkpoints of a namespace that are asked for, newest first. Each link is read once.
pub(super) async fn list(
    database: &Postgres,
    query: &History,
) -> Result<Vec<Checkpoint>, Failure<CheckpointError>> {
    let mut again = Again::default();
    loop {
        match try_list(database, query).await {
            Err(Failure::Database(error)) if again.pause(&error).await => {}
            answer => return answer,
        }
    }
}

async fn try_list(
    database: &Postgres,
    query: &History,
) -> Result<Vec<Checkpoint>, Failure<CheckpointError>> {
    let mut connection = database.connection().await?;
    // All statements see one state of the database.
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
    for (stored, body) in found {
        let records = records.remove(&stored.id).unwrap_or_default();
        let place = place_in(query, stored.id);
        let newest = &stored.newest;
        checkpoints.push(whole(database.codec(), place, body, newest, &mut links, records)?);
    }
    Ok(checkpoints)
}

struct Reader<'a> {
    database: &'a Postgres,
    transaction: Transaction<'a>,
}

impl Reader<'_> {
    async fn namespace(&self, query: &History) -> Result<Option<i64>, Failure<CheckpointError>> {
        let rows = self
            .query(
                "SELECT n.id FROM @.namespace n WHERE n.thread = $1 AND n.name = $2",
                &[&query.thread.as_bytes(), &query.namespace.as_bytes()],
            )
            .await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    /// The rows that are asked for, and what they say besides the fields.
    async fn matching(
        &self,
        namespace: i64,
        query: &History,
    ) -> Result<Vec<(Stored, Body)>, Failure<CheckpointError>> {
        let mut found = Vec::new();
        // No id is as great as this one.
        let mut before = query.before.map_or([0xff; 16], CheckpointId::to_bytes);
        let limit = query.limit.unwrap_or(usize::MAX);
        let page = match query.metadata.is_empty() && query.source.is_none() {
            true => PAGE.min(limit),
            false => PAGE,
        };
        while found.len() < limit {
            let rows = self
                .query(
                    "SELECT c.id, c.fields, c.links, c.body FROM @.checkpoint c
                     WHERE c.namespace = $1 AND c.id < $2 ORDER BY c.id DESC LIMIT $3",
                    &[&namespace, &&before[..], &i64::try_from(page).unwrap_or(i64::MAX)],
                )
                .await?;
            for row in &rows {
                let stored = Stored::read(row, 0, 3)?;
                before = stored.id.to_bytes();
                let place = place_in(query, stored.id);
                let body = Body::decode(self.database.codec(), &place, &stored.body)?;
                if found.len() < limit && query.matches(stored.id, &body.header) {
                    found.push((stored, body));
                }
            }
            if rows.len() < page {
                break;
            }
        }
        Ok(found)
    }

    /// The links and the records of these checkpoints.
    async fn parts(
        &self,
        namespace: i64,
        query: &History,
        found: &[(Stored, Body)],
    ) -> Result<(Links, HashMap<CheckpointId, Vec<TaskRecord>>), Failure<CheckpointError>> {
        let mut links = Links::default();
        let mut records: HashMap<_, Vec<_>> = HashMap::new();
        if found.is_empty() {
            return Ok((links, records));
        }
        let codec = self.database.codec();
        let tips: BTreeSet<i64> =
            found.iter().flat_map(|(it, _)| it.newest.iter().map(|it| it.1)).collect();
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
            let record = record(codec, &place_in(query, id), row, 1)?;
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

/// A checkpoint's row.
struct Stored {
    id: CheckpointId,
    newest: Newest,
    body: Vec<u8>,
}

impl Stored {
    /// Reads the columns `id`, `fields` and `links`, which begin at `column`, and the body.
    fn read(row: &Row, column: usize, body: usize) -> Result<Self, tokio_postgres::Error> {
        let (id, newest) = (id_at(row, column)?, newest(row, column + 1)?);
        Ok(Self { id, newest, body: row.try_get(body)? })
    }
}

/// Puts a checkpoint together from its rows.
fn whole(
    codec: &Codec,
    place: Place,
    body: Body,
    newest: &Newest,
    links: &mut Links,
    records: Vec<TaskRecord>,
) -> Result<Checkpoint, Failure<CheckpointError>> {
    let values = links.values(codec, newest).map_err(|it| it.at(&place))?;
    Ok(Checkpoint { place, header: body.header, cursor: body.cursor, values, records })
}

fn record(
    codec: &Codec,
    place: &Place,
    row: &Row,
    column: usize,
) -> Result<TaskRecord, Failure<CheckpointError>> {
    Ok(stored::record(codec, place, row.try_get(column)?)?)
}

/// A checkpoint's id in a column; one that is none becomes the least of all, which nothing has.
pub(super) fn id_at(row: &Row, column: usize) -> Result<CheckpointId, tokio_postgres::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    Ok(CheckpointId::from_bytes(bytes.try_into().unwrap_or_default()))
}

fn place_in(query: &History, id: CheckpointId) -> Place {
    Place { thread: query.thread.clone(), namespace: query.namespace.clone(), id }
}
