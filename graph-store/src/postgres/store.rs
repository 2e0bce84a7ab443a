//! Long-term memory on a PostgreSQL server.

mod apply;

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use graph_core::store::{
    IndexConfig, Op, Outcome, Store, StoreError, TtlConfig,
    backend::{Moment, Settings},
};
use tokio_postgres::IsolationLevel;

use super::{
    database::Postgres,
    failure::{Failure, is_conflict, is_lost},
};
use crate::items::{Touch, Work, prepare};
use crate::time::nanos;

/// How many expired items one statement of a sweep removes.
const SLICE: i64 = 1_000;
/// How long to wait before each new try of a transaction that was undone.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];

/// Keeps items on a PostgreSQL server. Cloning gives another handle to the same server.
///
/// It behaves as [`InMemoryStore`](graph_core::store::InMemoryStore) does, batches included: they are done whole
/// or not at all, and one that only reads sees one state of the store. A search reads the items under its prefix,
/// and so does one with a query, which compares every vector there. Values and vectors are encrypted if the
/// database is; namespaces, keys and times are not. A namespace and a key together take 2,600 bytes at most.
///
/// Items that expired are hidden; [`sweep`](Store::sweep) removes them. The time is this machine's: machines that
/// share a server should agree on it.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    database: Postgres,
    settings: Settings,
}

impl PostgresStore {
    /// Keeps items in an open database, without index or default lifetime.
    pub fn new(database: &Postgres) -> Self {
        Self { database: database.clone(), settings: Settings::new() }
    }

    /// Indexes what is put from now on, so that a search can have a query.
    ///
    /// Items that were put with vectors of another length are found as if they had none, until they are put again.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.settings = self.settings.with_index(index);
        self
    }

    /// Sets how items expire; [`Put::ttl`](graph_core::store::Put::ttl) works without it.
    pub fn with_ttl(mut self, ttl: TtlConfig) -> Self {
        self.settings = self.settings.with_ttl(ttl);
        self
    }

    /// Reads the time from `clock` instead of the system's.
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.settings = self.settings.with_clock(clock);
        self
    }

    /// Takes the index, the lifetimes and the clock from these settings.
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The database.
    pub fn database(&self) -> &Postgres {
        &self.database
    }

    fn explain(&self, failure: Failure<StoreError>) -> StoreError {
        match failure {
            Failure::Refused(error) => error,
            Failure::Database(source) => StoreError::backend(self.database.explain(source)),
        }
    }

    /// Does the work, by as few statements and transactions as it takes.
    async fn attempt(
        &self,
        works: &[Work],
        moment: Moment,
    ) -> Result<(Vec<Outcome>, Vec<Touch>), Undone> {
        let mut connection = self.database.connection().await.map_err(Undone::for_sure)?;
        let done = match Transacted::of(works) {
            Transacted::Not => apply::all(&connection, &self.database, works, moment).await,
            Transacted::Reading => {
                let begin = connection.build_transaction().read_only(true);
                let begin = begin.isolation_level(IsolationLevel::RepeatableRead);
                let transaction = begin.start().await.map_err(Undone::for_sure)?;
                apply::all(&transaction, &self.database, works, moment).await
            }
            Transacted::Writing => {
                let transaction = connection.transaction().await.map_err(Undone::for_sure)?;
                let done = apply::locked(&transaction, &self.database, works, moment).await;
                let outcomes = done.map_err(Undone::for_sure)?;
                transaction.commit().await.map_err(Undone::perhaps)?;
                return Ok((outcomes, Vec::new()));
            }
        };
        done.map_err(Undone::for_sure)
    }
}

/// In what a batch is done.
enum Transacted {
    /// One statement needs no transaction.
    Not,
    /// All reads see one state.
    Reading,
    Writing,
}

impl Transacted {
    fn of(works: &[Work]) -> Self {
        match works {
            [Work::Search(search, _)] if !apply::is_one_chunk(search) => Self::Reading,
            [] | [_] => Self::Not,
            many if many.iter().any(Work::writes) => Self::Writing,
            _ => Self::Reading,
        }
    }
}

/// Why work came to nothing.
struct Undone {
    failure: Failure<StoreError>,
    /// Whether it can just be done again.
    again: bool,
}

impl Undone {
    /// Nothing of it was done, or nothing that may not be done twice.
    fn for_sure(failure: impl Into<Failure<StoreError>>) -> Self {
        let failure = failure.into();
        let again = matches!(&failure, Failure::Database(it) if is_lost(it) || is_conflict(it));
        Self { failure, again }
    }

    /// Nobody knows, if the connection was lost: the reads of a batch that is done twice would see its own writes.
    fn perhaps(failure: impl Into<Failure<StoreError>>) -> Self {
        let failure = failure.into();
        let again = matches!(&failure, Failure::Database(it) if is_conflict(it));
        Self { failure, again }
    }
}

impl From<StoreError> for Failure<StoreError> {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn sweep(&self) -> Result<usize, StoreError> {
        let now = nanos(self.settings.moment().now);
        let mut swept = 0;
        loop {
            // What somebody else works on this moment is left to the next sweep.
            let delete = "WITH past AS (
                     SELECT namespace, key FROM @.item WHERE expires_at <= $1 LIMIT $2
                     FOR UPDATE SKIP LOCKED
                 )
                 DELETE FROM @.item i USING past
                 WHERE i.namespace = past.namespace AND i.key = past.key RETURNING 1";
            let slice = self.database.query(delete, &[&now, &SLICE]).await;
            let slice = slice.map_err(|it| self.explain(it.into()))?.len();
            swept += slice;
            if slice == 0 {
                return Ok(swept);
            }
        }
    }

    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Outcome>, StoreError> {
        let (works, moment) = prepare(&self.settings, self.database.codec(), ops).await?;
        let mut pauses = AGAIN.iter();
        let (outcomes, touches) = loop {
            match self.attempt(&works, moment).await {
                Ok(done) => break done,
                Err(Undone { failure, again }) => match pauses.next().filter(|_| again) {
                    Some(pause) => tokio::time::sleep(*pause).await,
                    None => return Err(self.explain(failure)),
                },
            }
        };
        if !touches.is_empty() {
            let touched = apply::touch(&self.database, &touches).await;
            touched.map_err(|it| self.explain(it.into()))?;
        }
        Ok(outcomes)
    }
}
