//! What the writer knows of the threads it wrote to last, so that a put need not ask the file for it.
//!
//! All of it holds as long as nobody else commits to the file. SQLite tells whether somebody did, at the price of one
//! small question a transaction.

use std::sync::Arc;

use graph_core::checkpoint::{CheckpointId, Place};
use rusqlite::Connection;

use crate::{
    chain::Tips,
    recent::{Recent, namespace_of},
};

/// A namespace, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    /// Its row.
    pub(super) id: i64,
    pub(super) newest: Option<Newest>,
}

/// A namespace's newest checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Newest {
    pub(super) id: CheckpointId,
    /// Where its fields' values stand; `None` if that could not be read.
    pub(super) tips: Option<Arc<Tips>>,
    /// The newest record of a task of the step that follows.
    pub(super) records: Option<i64>,
}

/// What is known, as of the transaction that is under way.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// What SQLite counts the commits of others by.
    version: Option<i64>,
    tokens: Recent<String, i64>,
    namespaces: Recent<(String, String), Namespace>,
    /// Whether there may be records that came before their checkpoint.
    has_early: Option<bool>,
}

impl Known {
    /// Forgets everything if somebody else has committed. To be called at the beginning of a transaction.
    pub(super) fn check(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get::<_, i64>(0))?;
        if self.version != Some(version) {
            *self = Self { version: Some(version), ..Self::default() };
        }
        Ok(())
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The token that a thread is held with.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        self.tokens.get(thread).copied()
    }

    pub(super) fn taken(&mut self, thread: &str, token: i64) {
        self.tokens.insert(thread.to_owned(), token);
    }

    pub(super) fn released(&mut self, thread: &str) {
        self.tokens.remove(thread);
    }

    pub(super) fn namespace(&self, place: &Place) -> Option<Namespace> {
        self.namespaces.get(&namespace_of(place)).cloned()
    }

    pub(super) fn stands(&mut self, place: &Place, namespace: Namespace) {
        self.namespaces.insert(namespace_of(place), namespace);
    }

    /// Whether there may be records that came before their checkpoint.
    pub(super) fn has_early(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        if let Some(known) = self.has_early {
            return Ok(known);
        }
        let found = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM early)")?
            .query_row([], |row| row.get(0))?;
        self.has_early = Some(found);
        Ok(found)
    }

    /// A record came whose checkpoint is not there yet.
    pub(super) fn added_early(&mut self) {
        self.has_early = Some(true);
    }
}
