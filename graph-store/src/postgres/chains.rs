//! Chains of links in the table `link`.

use std::collections::{HashMap, hash_map::Entry};

use graph_core::checkpoint::CheckpointKey;
use serde_json::{Map, Value};
use tokio_postgres::Row;

use super::{database::Postgres, failure::Failure};
use crate::{
    chain::{self, ChainTip, ChainTips, Link},
    codec::{Codec, CodecError},
};

/// Links read from the database, by id. Each link is decoded at most once, as soon as the field to which it belongs
/// is known.
#[derive(Default)]
pub(super) struct LinkReader {
    rows: HashMap<i64, Undecoded>,
    decoded: HashMap<i64, Link>,
}

/// A row with the columns `id`, `prev`, `depth` and `body`, starting at `column`.
struct Undecoded {
    row: Row,
    column: usize,
}

impl LinkReader {
    /// Adds a row with the columns `id`, `prev`, `depth` and `body`, starting at `column`.
    pub(super) fn add(&mut self, row: Row, column: usize) -> Result<(), tokio_postgres::Error> {
        self.rows.insert(row.try_get(column)?, Undecoded { row, column });
        Ok(())
    }

    /// Returns the values of the fields whose chain tips are `tips`.
    pub(super) fn values(
        &mut self,
        codec: &Codec,
        tips: &FieldTips,
    ) -> Result<Map<String, Value>, Failure<CodecError>> {
        let mut values = Map::new();
        for (field, tip) in tips {
            let what = || format!("field `{field}`");
            let chain = self.chain(codec, what, *tip)?;
            let chain = chain.iter().map(|id| &self.decoded[id]);
            let value = chain::value(chain)
                .map_err(|problem| CodecError::Decode { what: what(), problem })?;
            values.extend(value.map(|it| (field.clone(), it)));
        }
        Ok(values)
    }

    /// Returns the tips with their depths, which are stored only in the links. Returns `None` unless
    /// [`values`](Self::values) has decoded the links before.
    pub(super) fn chain_tips(&self, tips: &FieldTips) -> Option<ChainTips> {
        let tip = |(field, link): &(String, i64)| {
            Some((field.clone(), ChainTip { link: *link, depth: self.decoded.get(link)?.depth }))
        };
        tips.iter().map(tip).collect()
    }

    /// Decodes the chain that ends at `tip` and returns the ids of its links, newest first.
    fn chain(
        &mut self,
        codec: &Codec,
        what: impl Fn() -> String,
        tip: i64,
    ) -> Result<Vec<i64>, Failure<CodecError>> {
        let mut chain = Vec::new();
        let mut next = Some(tip);
        while let Some(id) = next {
            let link = match self.decoded.entry(id) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let Some(Undecoded { row, column }) = self.rows.get(&id) else {
                        let problem = format!("link {id} of its chain is missing");
                        return Err(CodecError::Decode { what: what(), problem }.into());
                    };
                    let (prev, depth) = (row.try_get(column + 1)?, depth(row, column + 2)?);
                    let changes = codec.decode(&what, row.try_get(column + 3)?)?;
                    entry.insert(Link { prev, depth, changes })
                }
            };
            next = link.prev;
            chain.push(id);
        }
        Ok(chain)
    }
}

/// The names of all fields that have a value at a checkpoint, each with the id of the field's newest link.
pub(super) type FieldTips = Vec<(String, i64)>;

/// Reads the columns `fields` and `links`, starting at `column`.
pub(super) fn field_tips(row: &Row, column: usize) -> Result<FieldTips, tokio_postgres::Error> {
    let fields: Vec<&[u8]> = row.try_get(column)?;
    let links: Vec<i64> = row.try_get(column + 1)?;
    Ok(fields.into_iter().map(name).zip(links).collect())
}

/// Decodes a stored name. Names are always UTF-8.
pub(super) fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn depth(row: &Row, column: usize) -> Result<u32, tokio_postgres::Error> {
    Ok(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or(0))
}

impl Postgres {
    /// Returns the links from `tip` back to the depth `back_to`, newest first. Returns `None` if some links are
    /// missing because their checkpoint no longer exists.
    pub(super) async fn links_back_to(
        &self,
        key: &CheckpointKey,
        tip: i64,
        back_to: u32,
    ) -> Result<Option<Vec<Link>>, Failure<CodecError>> {
        // The link at depth `back_to` is read without its body, because it only proves that no link is missing.
        let rows = self
            .query(
                "WITH RECURSIVE here AS MATERIALIZED (
                     SELECT n.id FROM @.namespace n WHERE n.thread = $1 AND n.name = $2
                 ), chain AS (
                     SELECT l.prev, l.depth, l.body FROM here, LATERAL (
                         SELECT l.prev, l.depth, CASE WHEN l.depth > $4 THEN l.body END AS body
                         FROM @.link l WHERE l.namespace = here.id AND l.id = $3 OFFSET 0
                     ) AS l
                 UNION ALL
                     SELECT l.prev, l.depth, l.body FROM here, chain c, LATERAL (
                         SELECT l.prev, l.depth, CASE WHEN l.depth > $4 THEN l.body END AS body
                         FROM @.link l WHERE l.namespace = here.id AND l.id = c.prev OFFSET 0
                     ) AS l
                     WHERE c.depth > $4
                 )
                 SELECT prev, depth, body FROM chain ORDER BY depth DESC",
                &[&key.thread.as_bytes(), &key.namespace.as_bytes(), &tip, &stored_depth(back_to)],
            )
            .await?;
        let mut links = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(body) = row.try_get::<_, Option<&[u8]>>(2)? else { return Ok(Some(links)) };
            let changes = self.codec().decode(|| "a change of a field".to_owned(), body)?;
            links.push(Link { prev: row.try_get(0)?, depth: depth(&row, 1)?, changes });
        }
        Ok(None)
    }
}

/// Converts a depth to the type of the column `depth`.
pub(super) fn stored_depth(depth: u32) -> i32 {
    i32::try_from(depth).unwrap_or(i32::MAX)
}
