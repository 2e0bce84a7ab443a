//! Retention: what is kept of threads, and for how long.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use graph_core::checkpoint::{CheckpointError, Checkpointer, Event, Keep, Lookup};

/// What is kept of one thread. Without any rule it is kept whole.
///
/// A thread's newest checkpoint always stays, so that it can go on, and so does all that a kept checkpoint needs:
/// forks and pending questions are safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a rule does nothing until a retention has it"]
pub struct Rule {
    last: Option<usize>,
    max_age: Option<Duration>,
    idle: Option<Duration>,
}

impl Rule {
    /// Keeps everything.
    pub fn keep_all() -> Self {
        Self::default()
    }

    /// Keeps the last so many checkpoints of each graph of the thread, at least one.
    pub fn keep_last(mut self, checkpoints: usize) -> Self {
        self.last = Some(checkpoints);
        self
    }

    /// Removes checkpoints that are older.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Deletes the whole thread once its newest checkpoint is so old, unless a question waits for its answer.
    pub fn delete_idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }
}

/// What is kept of all threads of a checkpointer: a rule for all, and others for some.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use graph_core::checkpoint::{Checkpointer, MemorySaver};
/// use graph_store::{Retention, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
/// let day = Duration::from_secs(24 * 3600);
/// let retention = Retention::new(Rule::keep_all().keep_last(50).delete_idle(90 * day))
///     .thread("audit", Rule::keep_all());
/// let cleaned = retention.apply(&*saver).await?;
/// assert_eq!(cleaned.checkpoints, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Retention {
    rule: Rule,
    threads: BTreeMap<String, Rule>,
}

/// What [`Retention::apply`] removed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Cleaned {
    /// Whole threads that were idle.
    pub threads: usize,
    /// Checkpoints of threads that stay.
    pub checkpoints: usize,
    /// Threads that could not be cleaned, and why; the others were.
    pub failed: Vec<(String, CheckpointError)>,
}

impl Retention {
    /// A rule for all threads.
    pub fn new(rule: Rule) -> Self {
        Self { rule, threads: BTreeMap::new() }
    }

    /// Another rule for this thread.
    #[must_use]
    pub fn thread(mut self, thread: impl Into<String>, rule: Rule) -> Self {
        self.threads.insert(thread.into(), rule);
        self
    }

    /// Cleans up once, beside live traffic.
    ///
    /// A thread that a run works on is left for the next time; a run that starts while its thread is cleaned finds
    /// it busy for that moment.
    pub async fn apply(&self, saver: &dyn Checkpointer) -> Result<Cleaned, CheckpointError> {
        let mut cleaned = Cleaned::default();
        for thread in saver.threads().await? {
            let rule = self.threads.get(&thread).copied().unwrap_or(self.rule);
            if let Err(error) = rule.apply(saver, &thread, &mut cleaned).await {
                cleaned.failed.push((thread, error));
            }
        }
        Ok(cleaned)
    }

    /// Cleans up now and then, for ever, and tells each time what came of it. Spawn it, and drop it to stop.
    ///
    /// ```no_run
    /// # use std::{sync::Arc, time::Duration};
    /// # use graph_core::checkpoint::MemorySaver;
    /// # use graph_store::{Retention, Rule};
    /// # let saver = Arc::new(MemorySaver::new());
    /// let retention = Retention::new(Rule::keep_all().keep_last(50));
    /// tokio::spawn(retention.every(Duration::from_secs(3600), saver, |outcome| {
    ///     match outcome {
    ///         Ok(cleaned) => {
    ///             for (thread, error) in cleaned.failed {
    ///                 eprintln!("retention of thread {thread}: {error}");
    ///             }
    ///         }
    ///         Err(error) => eprintln!("retention: {error}"),
    ///     }
    /// }));
    /// ```
    pub async fn every(
        self,
        interval: Duration,
        saver: Arc<dyn Checkpointer>,
        mut tell: impl FnMut(Result<Cleaned, CheckpointError>) + Send + 'static,
    ) {
        // Intervals of nothing are not allowed, and one that was missed is not made up for.
        let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            tell(self.apply(&*saver).await);
        }
    }
}

impl Rule {
    async fn apply(
        self,
        saver: &dyn Checkpointer,
        thread: &str,
        cleaned: &mut Cleaned,
    ) -> Result<(), CheckpointError> {
        let now = SystemTime::now();
        let idle = is_idle(saver, thread, self, now).await?;
        if !idle && !self.may_prune(saver, thread).await? {
            return Ok(());
        }
        // While it is leased no run can start from a checkpoint that is about to go.
        let _lease = match saver.lease(thread).await {
            Ok(lease) => lease,
            Err(CheckpointError::Busy { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        // A run may have come and gone since it was looked at.
        if idle && is_idle(saver, thread, self, now).await? {
            saver.delete_thread(thread).await?;
            cleaned.threads += 1;
            return Ok(());
        }
        let by_count = self.last.map(Keep::Newest);
        let by_age = self.max_age.and_then(|it| now.checked_sub(it)).map(Keep::Since);
        for keep in by_count.into_iter().chain(by_age) {
            let pruned = saver.prune(&[thread.to_owned()], keep).await?;
            cleaned.checkpoints += pruned.checkpoints;
        }
        Ok(())
    }

    /// Whether there may be something to remove: a look that costs little and takes no lease.
    async fn may_prune(
        self,
        saver: &dyn Checkpointer,
        thread: &str,
    ) -> Result<bool, CheckpointError> {
        let keeps = self.last.filter(|_| self.max_age.is_none());
        let removes = keeps.or(self.max_age.map(|_| 1));
        let Some(keeps) = removes else { return Ok(false) };
        let namespaces = saver.namespaces(thread).await?;
        Ok(namespaces.iter().any(|(_, checkpoints)| *checkpoints > keeps.max(1)))
    }
}

async fn is_idle(
    saver: &dyn Checkpointer,
    thread: &str,
    rule: Rule,
    now: SystemTime,
) -> Result<bool, CheckpointError> {
    let Some(idle) = rule.idle else { return Ok(false) };
    for (namespace, _) in saver.namespaces(thread).await? {
        let head = saver.get(&Lookup::head(thread, namespace)).await?;
        let is_young = |made: SystemTime| now.duration_since(made).is_ok_and(|age| age < idle);
        let busy = head.is_some_and(|it| {
            let asks = it.records.iter().any(|record| matches!(record.event, Event::Asked { .. }));
            asks || is_young(it.header.created_at) || it.header.created_at > now
        });
        if busy {
            return Ok(false);
        }
    }
    Ok(true)
}
