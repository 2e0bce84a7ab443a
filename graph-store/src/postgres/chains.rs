//! Chains in the table `link`.

use std::collections::{HashMap, hash_map::Entry};

use graph_core::checkpoint::{CheckpointError, Place};
use serde_json::{Map, Value};
use tokio_postgres::Row;

use super::{database::Postgres, failure::Failure};
use crate::{
    body::damaged,
    chain::{self, Link, Tip, Tips},
    codec::{Codec, CodecError},
};

/// Links that were read, by their number. Each is decoded once, when its field is known.
#[derive(Default)]
pub(super) struct Links {
    rows: HashMap<i64, Undecoded>,
    decoded: HashMap<i64, Link>,
}

/// A row of the columns number, number before, depth and body, which begin at `column`.
struct Undecoded {
    row: Row,
    column: usize,
}

impl Links {
    /// Takes in a row of the columns number, number before, depth and body, which begin at `column`.
    pub(super) fn add(&mut self, row: Row, column: usize) -> Result<(), tokio_postgres::Error> {
        self.rows.insert(row.try_get(column)?, Undecoded { row, column });
        Ok(())
    }

    /// The values of the fields whose newest links these are.
    pub(super) fn values(
        &mut self,
        codec: &Codec,
        newest: &Newest,
    ) -> Result<Map<String, Value>, Failure<Unreadable>> {
        let mut values = Map::new();
        for (field, tip) in newest {
            let what = || format!("field `{field}`");
            let chain = self.chain(codec, what, *tip)?;
            let chain = chain.iter().map(|id| &self.decoded[id]);
            let value = chain::value(chain)
                .map_err(|problem| CodecError::Decode { what: what(), problem })?;
            values.extend(value.map(|it| (field.clone(), it)));
        }
        Ok(values)
    }

    /// The tips with their depths, which only the links know; `None` before their values were asked for.
    pub(super) fn tips(&self, newest: &Newest) -> Option<Tips> {
        let tip = |(field, link): &(String, i64)| {
            Some((field.clone(), Tip { link: *link, depth: self.decoded.get(link)?.depth }))
        };
        newest.iter().map(tip).collect()
    }

    /// The chain from a link on back, newest first, all of it decoded.
    fn chain(
        &mut self,
        codec: &Codec,
        what: impl Fn() -> String,
        tip: i64,
    ) -> Result<Vec<i64>, Failure<Unreadable>> {
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

/// A link that cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable(CodecError);

impl From<CodecError> for Failure<Unreadable> {
    fn from(error: CodecError) -> Self {
        Self::Refused(Unreadable(error))
    }
}

impl Failure<Unreadable> {
    /// The failure of work on this checkpoint.
    pub(super) fn at(self, place: &Place) -> Failure<CheckpointError> {
        match self {
            Self::Database(error) => Failure::Database(error),
            Self::Refused(Unreadable(error)) => Failure::Refused(damaged(place, &error)),
        }
    }
}

/// The fields of a checkpoint that have a value, each with its newest link.
pub(super) type Newest = Vec<(String, i64)>;

/// Reads the columns `fields` and `links`.
pub(super) fn newest(row: &Row, column: usize) -> Result<Newest, tokio_postgres::Error> {
    let fields: Vec<&[u8]> = row.try_get(column)?;
    let links: Vec<i64> = row.try_get(column + 1)?;
    Ok(fields.into_iter().map(name).zip(links).collect())
}

/// A name as it is stored, which is as it was given: names are UTF-8.
pub(super) fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn depth(row: &Row, column: usize) -> Result<u32, tokio_postgres::Error> {
    Ok(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or(0))
}

impl Postgres {
    /// The links from one on back to that depth, newest first; `None` if some are missing, because their
    /// checkpoint is.
    pub(super) async fn stretch(
        &self,
        place: &Place,
        tip: i64,
        back_to: u32,
    ) -> Result<Option<Vec<Link>>, Failure<Unreadable>> {
        // The link at the far end is asked for without its body: it only shows that nothing is missing.
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
                &[
                    &place.thread.as_bytes(),
                    &place.namespace.as_bytes(),
                    &tip,
                    &stored_depth(back_to),
                ],
            )
            .await?;
        let mut stretch = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(body) = row.try_get::<_, Option<&[u8]>>(2)? else { return Ok(Some(stretch)) };
            let changes = self.codec().decode(|| "a change of a field".to_owned(), body)?;
            stretch.push(Link { prev: row.try_get(0)?, depth: depth(&row, 1)?, changes });
        }
        Ok(None)
    }
}

/// A depth as it is stored.
pub(super) fn stored_depth(depth: u32) -> i32 {
    i32::try_from(depth).unwrap_or(i32::MAX)
}
