//! The queue of the only process that uses a SQLite file. It is in memory, and is restored from the stored runs.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rusqlite::types::Type;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;

use super::documents::{SqliteDocuments, find, put};
use crate::langgraph::{
    cancellation::Cancellation,
    error::{ApiError, ApiResult},
    storage::{ActiveRun, CancelOutcome, Claim, Decide, Next, Row, RunQueue, ThreadEntry},
    time::time_until,
};

#[derive(Debug)]
pub(super) struct SqliteQueue {
    documents: SqliteDocuments,
    entries: Mutex<Entries>,
    changed: Arc<Notify>,
    /// Locked while this process uses the database, so that no other process executes the same runs.
    lock_file: Option<File>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The active runs by start time and number, which is the order in which the runs of a thread execute.
    runs: BTreeMap<(Instant, u64), Entry>,
    last_number: u64,
    /// Threads that are being deleted or pruned.
    reserved: HashSet<Uuid>,
}

#[derive(Debug)]
struct Entry {
    run: Uuid,
    thread: Uuid,
    owner: Option<String>,
    /// Whether the run is being executed or ended.
    claimed: bool,
    /// Whether the run is ended without being executed. The next run of the thread need not wait for it.
    ending: bool,
    cancellation: Option<Cancellation>,
}

impl Entry {
    fn claim(&mut self) -> Claim {
        self.claimed = true;
        Claim {
            run: self.run,
            thread: self.thread,
            // No other process can claim the run.
            fence: 0,
            last_seq: 0,
            cancellation: self.cancellation.clone(),
            takes_over: false,
        }
    }
}

impl Entries {
    fn add(&mut self, run: Uuid, thread: Uuid, owner: Option<String>, delay: Duration) {
        self.last_number += 1;
        let entry = Entry { run, thread, owner, claimed: false, ending: false, cancellation: None };
        self.runs.insert((Instant::now() + delay, self.last_number), entry);
    }

    fn active(&self, thread: Option<Uuid>) -> Vec<ActiveRun> {
        let now = Instant::now();
        let selected = self.runs.iter().filter(|(_, it)| thread.is_none_or(|id| id == it.thread));
        let active = selected.map(|((start, _), it)| ActiveRun {
            run: it.run,
            thread: it.thread,
            owner: it.owner.clone(),
            started: it.claimed && !it.ending,
            due: *start <= now,
        });
        active.collect()
    }

    /// Claims the first run of a thread that has no executing run.
    fn claim_next(&mut self) -> Next {
        let now = Instant::now();
        let mut visited = HashSet::new();
        for ((start, _), entry) in &mut self.runs {
            if *start > now {
                return Next::Wait(Some(*start - now));
            }
            if !entry.ending && visited.insert(entry.thread) && !entry.claimed {
                return Next::Run(entry.claim());
            }
        }
        Next::Wait(None)
    }
}

/// The fields of a stored run that the queue needs.
#[derive(Deserialize)]
struct StoredRun {
    run_id: Uuid,
    thread_id: Uuid,
    created_at: String,
    kwargs: StoredKwargs,
}

#[derive(Deserialize)]
struct StoredKwargs {
    #[serde(default)]
    after_seconds: f64,
}

impl SqliteQueue {
    /// Creates a queue with the stored runs that have not ended.
    pub(super) fn load(
        documents: SqliteDocuments,
        lock_file: Option<File>,
    ) -> rusqlite::Result<Self> {
        let mut entries = Entries::default();
        for status in ["running", "pending"] {
            let connection = documents.lock();
            let mut statement = connection.prepare(
                "SELECT data, owner FROM documents WHERE kind = 'run' AND status = ?1 ORDER BY number",
            )?;
            let mut rows = statement.query([status])?;
            while let Some(row) = rows.next()? {
                let data: String = row.get(0)?;
                let run: StoredRun = serde_json::from_str(&data).map_err(|error| {
                    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into())
                })?;
                let delay = match status {
                    "pending" => time_until(&run.created_at, run.kwargs.after_seconds),
                    _ => Duration::ZERO,
                };
                entries.add(run.run_id, run.thread_id, row.get(1)?, delay);
            }
        }
        let entries = Mutex::new(entries);
        Ok(Self { documents, entries, changed: Arc::default(), lock_file })
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RunQueue for SqliteQueue {
    async fn change_thread(&self, thread: Uuid, decide: &mut Decide<'_>) -> ApiResult<()> {
        let mut entries = self.lock();
        let mut connection = self.documents.lock();
        let (document, owner) = find(&connection, "thread", &thread.to_string())?.unzip();
        let active = entries.active(Some(thread));
        let reserved = entries.reserved.contains(&thread);
        let change = decide(ThreadEntry { document, owner: owner.flatten(), active, reserved })?;
        let transaction = connection.transaction()?;
        for row in &change.put {
            if !put(&transaction, row, None)? {
                return Err(ApiError::id_in_use());
            }
        }
        transaction.commit()?;
        if let Some(cancellation) = change.cancel {
            let now = Instant::now();
            let due = entries.runs.iter_mut().filter(|((start, _), _)| *start <= now);
            for (_, entry) in due.filter(|(_, it)| it.thread == thread) {
                Cancellation::add(&mut entry.cancellation, cancellation.clone());
            }
        }
        if let Some(run) = change.run {
            entries.add(run.run, thread, run.owner, run.delay);
            self.changed.notify_one();
        }
        if change.reserve {
            entries.reserved.insert(thread);
        }
        Ok(())
    }

    async fn release_thread(&self, thread: Uuid) -> ApiResult<()> {
        self.lock().reserved.remove(&thread);
        Ok(())
    }

    async fn active_runs(&self, thread: Option<Uuid>) -> ApiResult<Vec<ActiveRun>> {
        Ok(self.lock().active(thread))
    }

    async fn claim_next(&self) -> ApiResult<Next> {
        Ok(self.lock().claim_next())
    }

    async fn request_cancel(
        &self,
        run: Uuid,
        cancellation: &Cancellation,
    ) -> ApiResult<CancelOutcome> {
        let mut entries = self.lock();
        let Some(entry) = entries.runs.values_mut().find(|it| it.run == run) else {
            return Ok(CancelOutcome::NotActive);
        };
        Cancellation::add(&mut entry.cancellation, cancellation.clone());
        if entry.claimed {
            return Ok(CancelOutcome::Requested);
        }
        entry.ending = true;
        Ok(CancelOutcome::Claimed(entry.claim()))
    }

    async fn put_run(&self, _: &Claim, run: Row, webhook: Option<Row>) -> ApiResult<bool> {
        let mut connection = self.documents.lock();
        let transaction = connection.transaction()?;
        for row in [Some(run), webhook].iter().flatten() {
            put(&transaction, row, None)?;
        }
        transaction.commit()?;
        Ok(true)
    }

    async fn end_run(&self, claim: &Claim, _: &Value) -> ApiResult<bool> {
        self.lock().runs.retain(|_, it| it.run != claim.run);
        self.changed.notify_one();
        Ok(true)
    }

    async fn release_claims(&self) -> ApiResult<()> {
        if let Some(Err(error)) = self.lock_file.as_ref().map(File::unlock) {
            tracing::warn!(%error, "cannot release the lock file of the database");
        }
        Ok(())
    }

    fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }
}
