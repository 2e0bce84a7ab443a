//! The queue of the only process that uses a SQLite file. It is in memory, and is restored from the stored runs and the
//! stored requests to cancel them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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

use super::{
    cancellations,
    documents::{SqliteDocuments, find, put},
    events,
};
use crate::langgraph::{
    cancellation::Cancellation,
    error::ApiResult,
    storage::{ActiveRun, CancelOutcome, Claim, Decide, Filter, Next, Row, RunQueue, ThreadEntry},
    time::time_until,
};

/// Statuses of runs that have not ended, in the order in which such runs are restored.
const ACTIVE: [&str; 2] = ["running", "pending"];

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
    /// Threads whose metadata must not change, by the ids of the locks.
    metadata_locks: HashMap<Uuid, Uuid>,
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
    /// Whether the final status of the run is stored.
    has_ended: bool,
    cancellation: Option<Cancellation>,
}

impl Entry {
    fn new(run: Uuid, thread: Uuid, owner: Option<String>) -> Self {
        Self {
            run,
            thread,
            owner,
            claimed: false,
            ending: false,
            has_ended: false,
            cancellation: None,
        }
    }

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
    fn add(&mut self, entry: Entry, delay: Duration) {
        self.last_number += 1;
        self.runs.insert((Instant::now() + delay, self.last_number), entry);
    }

    /// Returns the runs of a thread that are due.
    fn due(&mut self, thread: Uuid) -> impl Iterator<Item = &mut Entry> {
        let due = self.runs.range_mut(..=(Instant::now(), u64::MAX)).map(|(_, entry)| entry);
        due.filter(move |it| it.thread == thread)
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
            has_ended: it.has_ended,
        });
        active.collect()
    }

    /// Claims a cancelled run that has not started, or the first run of a thread that has no executing run.
    fn claim_next(&mut self) -> Next {
        let now = Instant::now();
        let mut visited = HashSet::new();
        for ((start, _), entry) in &mut self.runs {
            if *start > now {
                return Next::Wait(Some(*start - now));
            }
            let is_next = entry.ending || visited.insert(entry.thread);
            if is_next && !entry.claimed {
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
        cancellations::open(&documents.lock())?;
        events::open(&documents.lock())?;
        for status in ACTIVE {
            let connection = documents.lock();
            let mut statement = connection.prepare(
                "SELECT data, owner, action, reason FROM documents \
                 LEFT JOIN cancellations ON cancellations.run = documents.id \
                 WHERE kind = 'run' AND status = ?1 ORDER BY number",
            )?;
            let mut rows = statement.query([status])?;
            while let Some(row) = rows.next()? {
                let data: String = row.get(0)?;
                let run: StoredRun = serde_json::from_str(&data).map_err(|error| {
                    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into())
                })?;
                let mut entry = Entry::new(run.run_id, run.thread_id, row.get(1)?);
                let action: Option<String> = row.get(2)?;
                entry.cancellation = Cancellation::from_stored(action.as_deref(), row.get(3)?);
                entry.ending = status == "pending" && entry.cancellation.is_some();
                let delay = match status {
                    "pending" if !entry.ending => {
                        time_until(&run.created_at, run.kwargs.after_seconds)
                    }
                    _ => Duration::ZERO,
                };
                entries.add(entry, delay);
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
        let change = decide(ThreadEntry {
            document,
            owner: owner.flatten(),
            active,
            reserved: entries.reserved.contains(&thread),
            metadata_locked: entries.metadata_locks.values().any(|it| *it == thread),
        })?;
        let transaction = connection.transaction()?;
        for row in &change.put {
            put(&transaction, row, Filter::default())?;
        }
        let mut cancelled: Vec<&mut Entry> = Vec::new();
        if let Some(cancellation) = &change.cancel {
            let is_new = |it: &&mut Entry| cancellation.overrides(it.cancellation.as_ref());
            cancelled.extend(entries.due(thread).filter(is_new));
            for entry in &cancelled {
                cancellations::put(&transaction, entry.run, cancellation)?;
            }
        }
        transaction.commit()?;
        cancelled.into_iter().for_each(|it| it.cancellation.clone_from(&change.cancel));
        if let Some(run) = change.run {
            entries.add(Entry::new(run.run, thread, run.owner), run.delay);
            self.changed.notify_one();
        }
        if change.reserve {
            entries.reserved.insert(thread);
        }
        entries.metadata_locks.extend(change.lock_metadata.map(|lock| (lock, thread)));
        Ok(())
    }

    async fn release_thread(&self, thread: Uuid) -> ApiResult<()> {
        self.lock().reserved.remove(&thread);
        Ok(())
    }

    async fn unlock_metadata(&self, lock: Uuid) -> ApiResult<()> {
        self.lock().metadata_locks.remove(&lock);
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
        if cancellation.overrides(entry.cancellation.as_ref()) {
            cancellations::put(&self.documents.lock(), run, cancellation)?;
            entry.cancellation = Some(cancellation.clone());
        }
        if entry.claimed {
            return Ok(CancelOutcome::Requested);
        }
        entry.ending = true;
        Ok(CancelOutcome::Claimed(entry.claim()))
    }

    async fn put_run(&self, claim: &Claim, run: Row, webhook: Option<Row>) -> ApiResult<bool> {
        let mut entries = self.lock();
        let mut connection = self.documents.lock();
        let transaction = connection.transaction()?;
        let has_ended = !run.status.as_deref().is_some_and(|it| ACTIVE.contains(&it));
        for row in [Some(run), webhook].iter().flatten() {
            put(&transaction, row, Filter::default())?;
        }
        transaction.commit()?;
        let stored = entries.runs.values_mut().find(|it| it.run == claim.run);
        stored.into_iter().for_each(|it| it.has_ended = has_ended);
        Ok(true)
    }

    async fn end_run(&self, claim: &Claim, output: &Value) -> ApiResult<bool> {
        if let Err(error) = events::end(&self.documents.lock(), claim.run, output) {
            tracing::warn!(run = %claim.run, %error, "cannot store the end of a run's events");
        }
        let mut was_cancelled = false;
        self.lock().runs.retain(|_, it| {
            let has_ended = it.run == claim.run;
            was_cancelled |= has_ended && it.cancellation.is_some();
            !has_ended
        });
        self.changed.notify_one();
        if was_cancelled {
            cancellations::delete(&self.documents.lock(), claim.run)?;
        }
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
