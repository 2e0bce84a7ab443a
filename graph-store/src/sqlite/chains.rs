//! Chains in the table `link`.
//!
//! All that is long and only ever added stands in this one table: changes of fields, headers of checkpoints, records of
//! tasks. So what a commit adds lies on one page most of the time, and threads that commit together share it.

use std::{collections::HashMap, rc::Rc};

use graph_core::checkpoint::{Change, CheckpointError, Place};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::Xxh3Default;

use super::failure::Failure;
use crate::{
    body::damaged,
    chain::{self, Hook, Link, Tip, Tips},
    codec::{Codec, CodecError},
    stored::NewChange,
};

/// A chain that cannot be read, or cannot be written.
#[derive(Debug)]
pub(super) enum Broken {
    Database(rusqlite::Error),
    Codec(CodecError),
}

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<CodecError> for Broken {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}

impl Broken {
    /// The failure of work on this checkpoint.
    pub(super) fn at(self, place: &Place) -> Failure<CheckpointError> {
        match self {
            Self::Database(error) => error.into(),
            Self::Codec(error @ (CodecError::TooLarge { .. } | CodecError::Encode { .. })) => {
                error.into()
            }
            Self::Codec(error) => Failure::Refused(damaged(place, &error)),
        }
    }
}

/// Reads links, each once.
pub(super) struct Links<'a> {
    connection: &'a Connection,
    codec: &'a Codec,
    known: HashMap<i64, Rc<Link>>,
}

impl<'a> Links<'a> {
    pub(super) fn new(connection: &'a Connection, codec: &'a Codec) -> Self {
        Self { connection, codec, known: HashMap::new() }
    }

    fn get(&mut self, id: i64, field: &str) -> Result<Rc<Link>, Broken> {
        if let Some(link) = self.known.get(&id) {
            return Ok(link.clone());
        }
        let what = || format!("field `{field}`");
        let Row { prev, depth, body } = read_link(self.connection, id, what)?;
        let changes = self.codec.decode(what, &body)?;
        let link = Rc::new(Link { prev, depth, changes });
        self.known.insert(id, link.clone());
        Ok(link)
    }

    /// The chain from a link on back, newest first, as far as `keep` says.
    fn chain(
        &mut self,
        tip: i64,
        field: &str,
        keep: impl Fn(&Link) -> bool,
    ) -> Result<Vec<Rc<Link>>, Broken> {
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

    /// The values that the fields have.
    pub(super) fn values(&mut self, tips: &Tips) -> Result<Map<String, Value>, Broken> {
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

    /// Stores a change of a field and gives its new tip; `None` if the field has no value now.
    pub(super) fn add(&mut self, new: NewChange, tip: Option<Tip>) -> Result<Option<Tip>, Broken> {
        let NewChange { field, change, encoded } = new;
        if matches!(change, Change::Clear) {
            return Ok(None);
        }
        let (prev, depth, body) = match Hook::of(&change, tip) {
            Hook::First => (None, 0, encoded),
            Hook::Next { tip, depth } => (Some(tip), depth, encoded),
            Hook::Over { tip, depth, back_to } => {
                let before = self.chain(tip, &field, |it| it.depth > back_to)?;
                let before = before.into_iter().map(|it| Link::clone(&it)).collect();
                let link = chain::take_in(before, change, depth);
                match self.codec.encode(|| format!("field `{field}`"), &link.changes) {
                    Ok(body) => (link.prev, depth, body),
                    // Then the links stay apart, and reading takes longer.
                    Err(CodecError::TooLarge { .. }) => (Some(tip), depth, encoded),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let link = add_link(self.connection, prev, depth, &body)?;
        Ok(Some(Tip { link, depth }))
    }
}

/// A row of the table.
pub(super) struct Row {
    pub(super) prev: Option<i64>,
    pub(super) depth: u32,
    pub(super) body: Vec<u8>,
}

/// Reads a row; `what` names in errors what it belongs to.
pub(super) fn read_link(
    connection: &Connection,
    id: i64,
    what: impl Fn() -> String,
) -> Result<Row, Broken> {
    let row = connection
        .prepare_cached("SELECT prev, depth, bound, body FROM link WHERE id = ?1")?
        .query_row([id], |row| {
            let body = row.get_ref(3)?.as_blob()?.to_vec();
            Ok((Row { prev: row.get(0)?, depth: row.get(1)?, body }, row.get::<_, i64>(2)?))
        })
        .optional()?;
    let Some((row, found)) = row else {
        let problem = format!("link {id} of its chain is missing");
        return Err(CodecError::Decode { what: what(), problem }.into());
    };
    // A link is newer than the one it hooks on to, so a chain has an end.
    if found != bound(row.prev, row.depth, &row.body) || row.prev.is_some_and(|it| it >= id) {
        let problem = format!("link {id} of its chain was changed since it was stored");
        return Err(CodecError::Decode { what: what(), problem }.into());
    }
    Ok(row)
}

/// Adds a row and gives its number.
pub(super) fn add_link(
    connection: &Connection,
    prev: Option<i64>,
    depth: u32,
    body: &[u8],
) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT INTO link (prev, depth, bound, body) VALUES (?1, ?2, ?3, ?4)")?
        .insert(params![prev, depth, bound(prev, depth, body), body])
}

/// The checksum over a row.
fn bound(prev: Option<i64>, depth: u32, body: &[u8]) -> i64 {
    let mut hash = Xxh3Default::new();
    hash.update(&prev.unwrap_or(-1).to_le_bytes());
    hash.update(&depth.to_le_bytes());
    hash.update(body);
    hash.digest() as i64
}

/// The tips as they are stored: names and numbers only, so never encrypted.
pub(super) fn encode_tips(tips: &Tips) -> Result<Vec<u8>, CodecError> {
    Codec::new(usize::MAX).encode(|| "the list of fields".to_owned(), tips)
}

pub(super) fn decode_tips(bytes: &[u8]) -> Result<Tips, CodecError> {
    Codec::new(usize::MAX).decode(|| "the list of fields".to_owned(), bytes)
}
