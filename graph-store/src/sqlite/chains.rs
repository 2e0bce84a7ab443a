//! Chains of links in the table `link`.
//!
//! All large, append-only data is stored in this one table: changes to fields, checkpoint bodies and task records.
//! Most of the time, the data that a commit appends is therefore on a single page, which is shared by threads that
//! commit together.

use std::{collections::HashMap, rc::Rc};

use graph_core::checkpoint::Change;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::Xxh3Default;

use super::failure::Failure;
use crate::{
    chain::{self, ChainTip, ChainTips, Link, LinkPlacement},
    codec::{Codec, CodecError},
    encoded::EncodedChange,
};

/// Reads and appends links. Each link is read from the database at most once.
pub(super) struct LinkTable<'a> {
    connection: &'a Connection,
    codec: &'a Codec,
    loaded: HashMap<i64, Rc<Link>>,
}

impl<'a> LinkTable<'a> {
    pub(super) fn new(connection: &'a Connection, codec: &'a Codec) -> Self {
        Self { connection, codec, loaded: HashMap::new() }
    }

    fn get(&mut self, id: i64, field: &str) -> Result<Rc<Link>, Failure<CodecError>> {
        if let Some(link) = self.loaded.get(&id) {
            return Ok(link.clone());
        }
        let what = || format!("field `{field}`");
        let LinkRow { prev, depth, body } = read_link(self.connection, id, what)?;
        let changes = self.codec.decode(what, &body)?;
        let link = Rc::new(Link { prev, depth, changes });
        self.loaded.insert(id, link.clone());
        Ok(link)
    }

    /// Returns the links from `tip` backwards, newest first, while `keep` returns true.
    fn chain(
        &mut self,
        tip: i64,
        field: &str,
        keep: impl Fn(&Link) -> bool,
    ) -> Result<Vec<Rc<Link>>, Failure<CodecError>> {
        let mut chain = Vec::new();
        let mut next = Some(tip);
        while let Some(id) = next {
            let link = self.get(id, field)?;
            if !keep(&link) {
                break;
            }
            next = link.prev;
            chain.push(link);
        }
        Ok(chain)
    }

    /// Returns the values of the fields whose chain tips are `tips`.
    pub(super) fn values(
        &mut self,
        tips: &ChainTips,
    ) -> Result<Map<String, Value>, Failure<CodecError>> {
        let mut values = Map::new();
        for (field, tip) in tips {
            let chain = self.chain(tip.link, field, |_| true)?;
            let value = chain::value(chain.iter().map(|it| &**it)).map_err(|problem| {
                CodecError::Decode { what: format!("field `{field}`"), problem }
            })?;
            values.extend(value.map(|it| (field.clone(), it)));
        }
        Ok(values)
    }

    /// Stores a change to a field and returns the field's new tip. Returns `None` if the change removes the value.
    pub(super) fn add(
        &mut self,
        new: EncodedChange,
        tip: Option<ChainTip>,
    ) -> Result<Option<ChainTip>, Failure<CodecError>> {
        let EncodedChange { field, change, encoded } = new;
        if matches!(change, Change::Clear) {
            return Ok(None);
        }
        let (prev, depth, body) = match LinkPlacement::of(&change, tip) {
            LinkPlacement::First => (None, 0, encoded),
            LinkPlacement::Append { tip, depth } => (Some(tip), depth, encoded),
            LinkPlacement::Compact { tip, depth, back_to } => {
                let before = self.chain(tip, &field, |it| it.depth > back_to)?;
                let before = before.into_iter().map(|it| Link::clone(&it)).collect();
                let link = chain::compact(before, change, depth);
                match self.codec.encode(|| format!("field `{field}`"), &link.changes) {
                    Ok(body) => (link.prev, depth, body),
                    // The merged link would exceed the maximum size of a value, so the links stay separate. Reads are
                    // then slower.
                    Err(CodecError::TooLarge { .. }) => (Some(tip), depth, encoded),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let link = add_link(self.connection, prev, depth, &body)?;
        Ok(Some(ChainTip { link, depth }))
    }
}

/// A row of the table `link`.
pub(super) struct LinkRow {
    pub(super) prev: Option<i64>,
    pub(super) depth: u32,
    pub(super) body: Vec<u8>,
}

/// Reads a row and verifies its checksum. `what` describes the owner of the row in error messages.
pub(super) fn read_link(
    connection: &Connection,
    id: i64,
    what: impl Fn() -> String,
) -> Result<LinkRow, Failure<CodecError>> {
    let row = connection
        .prepare_cached("SELECT prev, depth, bound, body FROM link WHERE id = ?1")?
        .query_row([id], |row| {
            let body = row.get_ref(3)?.as_blob()?.to_vec();
            Ok((LinkRow { prev: row.get(0)?, depth: row.get(1)?, body }, row.get::<_, i64>(2)?))
        })
        .optional()?;
    let Some((row, found)) = row else {
        let problem = format!("link {id} of its chain is missing");
        return Err(CodecError::Decode { what: what(), problem }.into());
    };
    // A link is always newer than its predecessor, so a chain cannot contain a cycle.
    if found != checksum(row.prev, row.depth, &row.body) || row.prev.is_some_and(|it| it >= id) {
        let problem = format!("link {id} of its chain has a wrong checksum or predecessor");
        return Err(CodecError::Decode { what: what(), problem }.into());
    }
    Ok(row)
}

/// Inserts a row into the table `link` and returns its id.
pub(super) fn add_link(
    connection: &Connection,
    prev: Option<i64>,
    depth: u32,
    body: &[u8],
) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT INTO link (prev, depth, bound, body) VALUES (?1, ?2, ?3, ?4)")?
        .insert(params![prev, depth, checksum(prev, depth, body), body])
}

/// Computes the checksum of a row.
fn checksum(prev: Option<i64>, depth: u32, body: &[u8]) -> i64 {
    let mut hash = Xxh3Default::new();
    hash.update(&prev.unwrap_or(-1).to_le_bytes());
    hash.update(&depth.to_le_bytes());
    hash.update(body);
    hash.digest() as i64
}

/// Encodes chain tips. They consist only of field names and numbers, and are never encrypted.
pub(super) fn encode_tips(tips: &ChainTips) -> Result<Vec<u8>, CodecError> {
    Codec::new(usize::MAX).encode(|| "the list of fields".to_owned(), tips)
}

pub(super) fn decode_tips(bytes: &[u8]) -> Result<ChainTips, CodecError> {
    Codec::new(usize::MAX).decode(|| "the list of fields".to_owned(), bytes)
}
