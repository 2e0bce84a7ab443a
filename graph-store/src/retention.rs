//! Retention: which checkpoints are kept, and for how long.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use graph_core::checkpoint::{CheckpointError, Checkpointer, Keep, Lookup, TaskEvent};

/// A retention rule for one thread. A rule without further settings keeps everything.
///
/// The newest checkpoint of a thread is always kept, so that the thread can be resumed. Everything that a kept
/// checkpoint needs is kept too, so forks and pending interrupts are safe.
///
/// ```
/// use std::time::Duration;
/// use graph_core::{MemorySaver, START, State, StateGraph};
/// use graph_store::{Retention, RetentionRule};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Chat {
///     #[reduce(append)]
///     messages: Vec<String>,
/// }
///
/// async fn answer(_: &Chat) -> ChatUpdate {
///     Chat::update().messages(["Good morning.".to_owned()])
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let saver = MemorySaver::new();
/// let graph = StateGraph::<Chat>::new()
///     .node(answer)
///     .edge(START, answer)
///     .checkpointer(saver.clone())
///     .compile()?;
/// let thread = graph.thread("chat-1", ());
/// thread.run(Chat::default()).await?;
/// thread.run(Chat::default()).await?;
///
/// // Keeps the two newest checkpoints, and none that is older than 30 days.
/// let month = Duration::from_secs(30 * 24 * 3600);
/// let rule = RetentionRule::keep_all().keep_last(2).max_age(month);
/// let report = Retention::new(rule).apply(&saver).await?;
/// assert_eq!(report.checkpoints, 4);
/// assert_eq!(thread.state().await?.expect("the newest is kept").values.messages.len(), 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a rule has no effect until it is passed to a `Retention`"]
pub struct RetentionRule {
    last: Option<usize>,
    max_age: Option<Duration>,
    idle: Option<Duration>,
}

impl RetentionRule {
    /// Keeps everything.
    pub fn keep_all() -> Self {
        Self::default()
    }

    /// Keeps the newest `checkpoints` checkpoints of each graph in the thread. At least one is kept.
    pub fn keep_last(mut self, checkpoints: usize) -> Self {
        self.last = Some(checkpoints);
        self
    }

    /// Removes checkpoints older than `age`.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Deletes the whole thread once its newest checkpoint is older than `idle`, unless an interrupt is pending.
    pub fn delete_idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }
}

/// Retention rules for all threads of a checkpointer: a default rule and overrides for individual threads.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use graph_core::checkpoint::{Checkpointer, MemorySaver};
/// use graph_store::{Retention, RetentionRule};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
/// let day = Duration::from_secs(24 * 3600);
/// let retention = Retention::new(RetentionRule::keep_all().keep_last(50).delete_idle(90 * day))
///     .thread("audit", RetentionRule::keep_all());
/// let report = retention.apply(&*saver).await?;
/// assert_eq!(report.checkpoints, 0);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Retention {
    rule: RetentionRule,
    threads: BTreeMap<String, RetentionRule>,
}

/// The result of [`Retention::apply`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RetentionReport {
    /// Number of idle threads that were deleted.
    pub threads: usize,
    /// Number of checkpoints that were removed from the remaining threads.
    pub checkpoints: usize,
    /// Threads that could not be processed, each with its error. All other threads were processed.
    pub failed: Vec<(String, CheckpointError)>,
}

impl Retention {
    /// Creates retention rules that apply `rule` to all threads.
    pub fn new(rule: RetentionRule) -> Self {
        Self { rule, threads: BTreeMap::new() }
    }

    /// Overrides the rule for one thread.
    #[must_use]
    pub fn thread(mut self, thread: impl Into<String>, rule: RetentionRule) -> Self {
        self.threads.insert(thread.into(), rule);
        self
    }

    /// Applies the rules once. Runs may be active at the same time.
    ///
    /// Threads with an active run are skipped until the next call. A run that is started while its thread is being
    /// processed fails with [`CheckpointError::Busy`].
    pub async fn apply(
        &self,
        saver: &dyn Checkpointer,
    ) -> Result<RetentionReport, CheckpointError> {
        let mut report = RetentionReport::default();
        for thread in saver.threads().await? {
            let rule = self.threads.get(&thread).copied().unwrap_or(self.rule);
            if let Err(error) = rule.apply(saver, &thread, &mut report).await {
                report.failed.push((thread, error));
            }
        }
        Ok(report)
    }

    /// Applies the rules periodically and forever, and passes each result to `report`. Spawn the returned future;
    /// drop it to stop.
    ///
    /// ```no_run
    /// # use std::{sync::Arc, time::Duration};
    /// # use graph_core::checkpoint::MemorySaver;
    /// # use graph_store::{Retention, RetentionRule};
    /// # let saver = Arc::new(MemorySaver::new());
    /// let retention = Retention::new(RetentionRule::keep_all().keep_last(50));
    /// tokio::spawn(retention.apply_every(Duration::from_secs(3600), saver, |result| {
    ///     match result {
    ///         Ok(report) => {
    ///             for (thread, error) in report.failed {
    ///                 eprintln!("retention of thread {thread}: {error}");
    ///             }
    ///         }
    ///         Err(error) => eprintln!("retention: {error}"),
    ///     }
    /// }));
    /// ```
    pub async fn apply_every(
        self,
        interval: Duration,
        saver: Arc<dyn Checkpointer>,
        mut report: impl FnMut(Result<RetentionReport, CheckpointError>) + Send + 'static,
    ) {
        // The period of a tokio interval must not be zero. Missed ticks are not made up for.
        let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            report(self.apply(&*saver).await);
        }
    }
}

impl RetentionRule {
    async fn apply(
        self,
        saver: &dyn Checkpointer,
        thread: &str,
        report: &mut RetentionReport,
    ) -> Result<(), CheckpointError> {
        let now = SystemTime::now();
        let idle = is_idle(saver, thread, self, now).await?;
        if !idle && !self.may_prune(saver, thread).await? {
            return Ok(());
        }
        // While the thread is leased, no run can start from a checkpoint that is about to be removed.
        let _lease = match saver.lease(thread).await {
            Ok(lease) => lease,
            Err(CheckpointError::Busy { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        // A run may have started and finished since the first check, so check again.
        if idle && is_idle(saver, thread, self, now).await? {
            saver.delete_thread(thread).await?;
            report.threads += 1;
            return Ok(());
        }
        let by_count = self.last.map(Keep::Newest);
        let by_age = self.max_age.and_then(|it| now.checked_sub(it)).map(Keep::Since);
        for keep in by_count.into_iter().chain(by_age) {
            let pruned = saver.prune(&[thread.to_owned()], keep).await?;
            report.checkpoints += pruned.checkpoints;
        }
        Ok(())
    }

    /// Returns whether there may be checkpoints to remove. This is a cheap check that needs no lease.
    async fn may_prune(
        self,
        saver: &dyn Checkpointer,
        thread: &str,
    ) -> Result<bool, CheckpointError> {
        let by_count = self.last.filter(|_| self.max_age.is_none());
        let min_kept = by_count.or(self.max_age.map(|_| 1));
        let Some(min_kept) = min_kept else { return Ok(false) };
        let namespaces = saver.namespaces(thread).await?;
        Ok(namespaces.iter().any(|(_, checkpoints)| *checkpoints > min_kept.max(1)))
    }
}

async fn is_idle(
    saver: &dyn Checkpointer,
    thread: &str,
    rule: RetentionRule,
    now: SystemTime,
) -> Result<bool, CheckpointError> {
    let Some(idle) = rule.idle else { return Ok(false) };
    for (namespace, _) in saver.namespaces(thread).await? {
        let head = saver.get(&Lookup::head(thread, namespace)).await?;
        let is_young =
            |created: SystemTime| now.duration_since(created).is_ok_and(|age| age < idle);
        let busy = head.is_some_and(|it| {
            let is_interrupted = it
                .records
                .iter()
                .any(|record| matches!(record.event, TaskEvent::Interrupted { .. }));
            is_interrupted || is_young(it.header.created_at) || it.header.created_at > now
        });
        if busy {
            return Ok(false);
        }
    }
    Ok(true)
}
