//! Helpers for the checks: a builder for checkpoints, functions to read them, and assertions that report expected and
//! actual values.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use graph_core::{
    FieldWrite,
    checkpoint::{
        Change, Checkpoint, CheckpointError, CheckpointId, CheckpointKey, Checkpointer,
        FrontierRecord, GotoRecord, Header, HistoryQuery, Lookup, NewCheckpoint, Source, TaskEvent,
        TaskId, TaskRecord,
    },
};
use serde_json::{Map, Value, json};
use tokio::{sync::Barrier, task::JoinSet};

use crate::sample::next_checkpoint;

/// Fails the check unless the result is an error that matches the pattern.
macro_rules! expect_err {
    ($result:expr, $error:pat $(if $guard:expr)?) => {
        match &$result {
            Err($error) $(if $guard)? => {}
            other => {
                let expected = stringify!($error $(if $guard)?);
                return Err($crate::checkpointer::support::CheckProblem::differs(
                    "the result", &format_args!("Err({expected})"), other,
                ));
            }
        }
    };
}

pub(super) type Saver = Arc<dyn Checkpointer>;
pub(super) type CheckResult<T = ()> = Result<T, CheckProblem>;

/// Describes why a check failed.
#[derive(Debug)]
pub(super) struct CheckProblem(String);

impl CheckProblem {
    pub(super) fn differs(what: &str, expected: &dyn fmt::Debug, found: &dyn fmt::Debug) -> Self {
        Self(format!("{what}: expected {}, found {}", truncated(expected), truncated(found)))
    }
}

impl fmt::Display for CheckProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<CheckpointError> for CheckProblem {
    fn from(error: CheckpointError) -> Self {
        Self(format!("unexpected error: {error}"))
    }
}

/// Fails the check unless both values are equal.
#[expect(clippy::needless_pass_by_value, reason = "hundreds of calls read better without `&`")]
pub(super) fn expect_eq<T: PartialEq + fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> CheckResult {
    if found == expected { Ok(()) } else { Err(CheckProblem::differs(what, &expected, &found)) }
}

/// Name of the thread that checks use by default.
pub(super) const THREAD: &str = "thread";
/// Namespace that checks use by default.
pub(super) const ROOT: &str = "";

/// A builder for a checkpoint.
#[derive(Clone, Debug)]
#[must_use]
pub(super) struct Draft(pub(super) NewCheckpoint);

/// Returns a builder for the first checkpoint of a namespace.
pub(super) fn first() -> Draft {
    let draft = Draft(next_checkpoint(THREAD, None, Vec::new())).source(Source::Input);
    draft.header(|it| {
        it.step = -1;
        it.created_at = time(1_000);
    })
}

/// Returns a builder for the checkpoint that follows `head`.
pub(super) fn after(head: CheckpointId) -> Draft {
    let mut draft = first().expecting(head).based_on(head).source(Source::Loop);
    draft.0.header.parent = Some(head);
    draft.0.header.origin = head;
    draft.0.header.step = 0;
    draft
}

impl Draft {
    pub(super) fn id(&self) -> CheckpointId {
        self.0.key.id
    }

    pub(super) fn thread(mut self, thread: &str) -> Self {
        self.0.key.thread = thread.to_owned();
        self
    }

    pub(super) fn namespace(mut self, namespace: &str) -> Self {
        self.0.key.namespace = namespace.to_owned();
        self
    }

    pub(super) fn expecting(mut self, head: CheckpointId) -> Self {
        self.0.expected_head = Some(head);
        self
    }

    pub(super) fn based_on(mut self, base: CheckpointId) -> Self {
        self.0.base = Some(base);
        self
    }

    pub(super) fn without_base(mut self) -> Self {
        self.0.base = None;
        self
    }

    pub(super) fn header(mut self, edit: impl FnOnce(&mut Header)) -> Self {
        edit(&mut self.0.header);
        self
    }

    pub(super) fn source(self, source: Source) -> Self {
        self.header(|it| it.source = source)
    }

    pub(super) fn run(self, run: &str) -> Self {
        self.header(|it| it.run = run.to_owned())
    }

    pub(super) fn made_at(self, secs: u64) -> Self {
        self.header(|it| it.created_at = time(secs))
    }

    pub(super) fn metadata(self, metadata: Value) -> Self {
        self.header(|it| it.metadata = object(metadata))
    }

    pub(super) fn change(mut self, field: &str, change: Change) -> Self {
        self.0.changes.push((field.to_owned(), change));
        self
    }

    pub(super) fn set(self, field: &str, value: impl Into<Value>) -> Self {
        self.change(field, Change::Set(value.into()))
    }

    pub(super) fn extend<V: Into<Value>>(
        self,
        field: &str,
        items: impl IntoIterator<Item = V>,
    ) -> Self {
        self.change(field, Change::Extend(items.into_iter().map(Into::into).collect()))
    }

    pub(super) fn merge(self, field: &str, entries: Value) -> Self {
        self.change(field, Change::Merge(object(entries)))
    }

    pub(super) async fn put(self, saver: &Saver) -> Result<CheckpointId, CheckpointError> {
        let id = self.id();
        saver.put(self.0).await.map(|()| id)
    }
}

/// Stores `n` consecutive checkpoints; see [`chain_like`].
pub(super) async fn chain(saver: &Saver, n: usize) -> CheckResult<Vec<CheckpointId>> {
    chain_like(saver, &first(), n).await
}

/// Stores `n` consecutive checkpoints with the thread, namespace and run of `like`.
///
/// Each checkpoint has a field `n` with its index and a field `log` with all indices so far: see [`chain_values`].
pub(super) async fn chain_like(
    saver: &Saver,
    like: &Draft,
    n: usize,
) -> CheckResult<Vec<CheckpointId>> {
    let mut ids = Vec::new();
    for idx in 0..n {
        let mut draft = ids.last().map_or_else(first, |head| after(*head));
        draft.0.key.thread.clone_from(&like.0.key.thread);
        draft.0.key.namespace.clone_from(&like.0.key.namespace);
        draft.0.header.run.clone_from(&like.0.header.run);
        draft.0.header.step = i64::try_from(idx).unwrap_or(i64::MAX) - 1;
        ids.push(draft.set("n", idx).extend("log", [idx]).put(saver).await?);
    }
    Ok(ids)
}

/// Returns the expected values of checkpoint `idx` of a [`chain`].
pub(super) fn chain_values(idx: usize) -> Value {
    json!({"n": idx, "log": (0..=idx).collect::<Vec<_>>()})
}

/// Reads a checkpoint in the root namespace. Fails the check if it does not exist.
pub(super) async fn read(saver: &Saver, id: CheckpointId) -> CheckResult<Checkpoint> {
    read_at(saver, &key(id)).await
}

/// Reads a checkpoint. Fails the check if it does not exist.
pub(super) async fn read_at(saver: &Saver, at: &CheckpointKey) -> CheckResult<Checkpoint> {
    let lookup = Lookup::exact(&at.thread, &at.namespace, at.id);
    saver.get(&lookup).await?.ok_or_else(|| CheckProblem::differs("the checkpoint", at, &"none"))
}

/// Fails the check unless the checkpoint exists in the root namespace and has exactly these values.
pub(super) async fn expect_values(saver: &Saver, id: CheckpointId, values: Value) -> CheckResult {
    expect_values_at(saver, &key(id), values).await
}

/// Fails the check unless the checkpoint exists and has exactly these values.
pub(super) async fn expect_values_at(
    saver: &Saver,
    at: &CheckpointKey,
    values: Value,
) -> CheckResult {
    let found = Value::Object(read_at(saver, at).await?.values);
    expect_eq("the values", found, values)
}

/// Fails the check if the checkpoint exists.
pub(super) async fn expect_absent(saver: &Saver, at: &CheckpointKey) -> CheckResult {
    let found = saver.get(&Lookup::exact(&at.thread, &at.namespace, at.id)).await?;
    expect_eq("the checkpoint", found.map(|it| it.key), None)
}

/// Returns the id of the newest checkpoint in a namespace.
pub(super) async fn head(
    saver: &Saver,
    thread: &str,
    namespace: &str,
) -> CheckResult<Option<CheckpointId>> {
    Ok(saver.get(&Lookup::head(thread, namespace)).await?.map(|it| it.key.id))
}

/// Lists checkpoints and returns their ids.
pub(super) async fn ids(saver: &Saver, query: &HistoryQuery) -> CheckResult<Vec<CheckpointId>> {
    Ok(saver.list(query).await?.iter().map(|it| it.key.id).collect())
}

/// Returns a query for the whole history of the root namespace.
pub(super) fn history() -> HistoryQuery {
    HistoryQuery::new(THREAD, ROOT)
}

/// Returns the ids in reverse order, newest first.
pub(super) fn reversed(ids: &[CheckpointId]) -> Vec<CheckpointId> {
    ids.iter().rev().copied().collect()
}

pub(super) fn key(id: CheckpointId) -> CheckpointKey {
    key_in(THREAD, ROOT, id)
}

pub(super) fn key_in(thread: &str, namespace: &str, id: CheckpointId) -> CheckpointKey {
    CheckpointKey { thread: thread.to_owned(), namespace: namespace.to_owned(), id }
}

pub(super) fn time(secs: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is not a map") };
    map
}

/// Returns a record of the task with this name.
pub(super) fn record(task: &str, event: TaskEvent) -> TaskRecord {
    TaskRecord { task: TaskId::from_parts(&[task.as_bytes()]), node: task.to_owned(), event }
}

/// Returns the event of a finished task that wrote `value`.
pub(super) fn done(value: impl Into<Value>) -> TaskEvent {
    TaskEvent::Done { writes: vec![write("field", value)], gotos: vec![goto("next")] }
}

/// Returns the event of an external call.
pub(super) fn effect(key: &str, result: impl Into<Value>) -> TaskEvent {
    TaskEvent::Effect { key: key.to_owned(), result: result.into() }
}

pub(super) fn write(field: &str, value: impl Into<Value>) -> FieldWrite {
    FieldWrite { field: field.to_owned(), value: value.into(), overwrite: false }
}

/// Decodes a frontier from its stored form.
pub(super) fn frontier(stored: Value) -> FrontierRecord {
    serde_json::from_value(stored).expect("the stored form of a frontier is valid")
}

pub(super) fn goto(to: &str) -> GotoRecord {
    GotoRecord { to: to.to_owned(), payload: None }
}

/// Runs the futures as concurrent tasks that start together.
pub(super) async fn run_concurrently<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let work: Vec<_> = work.into_iter().collect();
    let start = Arc::new(Barrier::new(work.len()));
    let mut tasks = JoinSet::new();
    for task in work {
        let start = start.clone();
        tasks.spawn(async move {
            start.wait().await;
            task.await
        });
    }
    tasks.join_all().await
}

/// Formats a value for a report, truncated to 400 characters.
fn truncated(value: &dyn fmt::Debug) -> String {
    const SHOWN: usize = 400;
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}
