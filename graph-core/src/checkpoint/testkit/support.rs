//! What the checks have in common: a builder for checkpoints, short ways to read, and comparisons that say
//! what was expected and what was found.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value, json};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    FieldWrite,
    checkpoint::{
        Change, Checkpoint, CheckpointError, CheckpointId, Checkpointer, Cursor, Event, GotoRecord,
        Header, History, Lookup, NewCheckpoint, Place, Source, TaskId, TaskRecord,
    },
};

/// Names the checks of a file: each is an async function of the saver and of the arguments given here.
macro_rules! checks {
    ($($name:literal => $check:ident($($arg:expr),*),)+) => {
        pub(super) const CHECKS: &[$crate::checkpoint::testkit::Check] = &[
            $($crate::checkpoint::testkit::Check {
                name: $name,
                body: |saver| Box::pin($check(saver, $($arg),*)),
            }),+
        ];
    };
}

/// Fails the check unless the result is an error of this kind.
macro_rules! refused {
    ($result:expr, $error:pat $(if $guard:expr)?) => {
        match &$result {
            Err($error) $(if $guard)? => {}
            other => {
                let expected = stringify!($error $(if $guard)?);
                return Err($crate::checkpoint::testkit::support::Problem::differs(
                    "the answer", &format_args!("Err({expected})"), other,
                ));
            }
        }
    };
}

pub(super) type Saver = Arc<dyn Checkpointer>;
pub(super) type Outcome<T = ()> = Result<T, Problem>;

/// Why a check failed.
#[derive(Debug)]
pub(super) struct Problem(String);

impl Problem {
    pub(super) fn differs(what: &str, expected: &dyn fmt::Debug, found: &dyn fmt::Debug) -> Self {
        Self(format!("{what}: expected {}, found {}", short(expected), short(found)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<CheckpointError> for Problem {
    fn from(error: CheckpointError) -> Self {
        Self(format!("the saver gave an error where none was expected: {error}"))
    }
}

/// Fails unless what was found is what was expected.
#[expect(clippy::needless_pass_by_value, reason = "hundreds of calls read better without `&`")]
pub(super) fn same<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(Problem::differs(what, &expected, &found)) }
}

/// The thread and the namespace of all that names no other.
pub(super) const THREAD: &str = "thread";
pub(super) const ROOT: &str = "";

/// A checkpoint in the making.
#[derive(Clone, Debug)]
#[must_use]
pub(super) struct Draft(pub(super) NewCheckpoint);

/// The first checkpoint of a namespace.
pub(super) fn first() -> Draft {
    let id = CheckpointId::next();
    Draft(NewCheckpoint {
        place: place(id),
        expected_head: None,
        base: None,
        header: Header {
            parent: None,
            origin: id,
            step: -1,
            source: Source::Input,
            created_at: time(1_000),
            run: "run".to_owned(),
            version: 1,
            parents: [].into(),
            metadata: Map::new(),
        },
        cursor: Cursor::default(),
        changes: Vec::new(),
    })
}

/// The step that follows the head.
pub(super) fn after(head: CheckpointId) -> Draft {
    let mut draft = first().expecting(head).based_on(head).source(Source::Loop);
    draft.0.header.parent = Some(head);
    draft.0.header.origin = head;
    draft.0.header.step = 0;
    draft
}

impl Draft {
    pub(super) fn id(&self) -> CheckpointId {
        self.0.place.id
    }

    pub(super) fn thread(mut self, thread: &str) -> Self {
        self.0.place.thread = thread.to_owned();
        self
    }

    pub(super) fn namespace(mut self, namespace: &str) -> Self {
        self.0.place.namespace = namespace.to_owned();
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

/// Puts so many checkpoints in a row; see [`chain_like`].
pub(super) async fn chain(saver: &Saver, n: usize) -> Outcome<Vec<CheckpointId>> {
    chain_like(saver, &first(), n).await
}

/// Puts so many checkpoints in a row, where and by whom the draft says.
///
/// The last one has the field `n`, its number, and the field `log`, the numbers so far: see [`logged`].
pub(super) async fn chain_like(
    saver: &Saver,
    like: &Draft,
    n: usize,
) -> Outcome<Vec<CheckpointId>> {
    let mut ids = Vec::new();
    for idx in 0..n {
        let mut draft = ids.last().map_or_else(first, |head| after(*head));
        draft.0.place.thread.clone_from(&like.0.place.thread);
        draft.0.place.namespace.clone_from(&like.0.place.namespace);
        draft.0.header.run.clone_from(&like.0.header.run);
        draft.0.header.step = i64::try_from(idx).unwrap_or(i64::MAX) - 1;
        ids.push(draft.set("n", idx).extend("log", [idx]).put(saver).await?);
    }
    Ok(ids)
}

/// The values of checkpoint `idx` of a [`chain`].
pub(super) fn logged(idx: usize) -> Value {
    json!({"n": idx, "log": (0..=idx).collect::<Vec<_>>()})
}

/// Reads a checkpoint of the root namespace that must be there.
pub(super) async fn read(saver: &Saver, id: CheckpointId) -> Outcome<Checkpoint> {
    read_at(saver, &place(id)).await
}

/// Reads a checkpoint that must be there.
pub(super) async fn read_at(saver: &Saver, at: &Place) -> Outcome<Checkpoint> {
    let lookup = Lookup::exact(&at.thread, &at.namespace, at.id);
    saver.get(&lookup).await?.ok_or_else(|| Problem::differs("reading", at, &"nothing"))
}

/// Fails unless the checkpoint is there and has just these values.
pub(super) async fn holds(saver: &Saver, id: CheckpointId, values: Value) -> Outcome {
    holds_at(saver, &place(id), values).await
}

/// Fails unless the checkpoint is there and has just these values.
pub(super) async fn holds_at(saver: &Saver, at: &Place, values: Value) -> Outcome {
    let found = Value::Object(read_at(saver, at).await?.values);
    same("the values", found, values)
}

/// Fails unless the checkpoint is not there.
pub(super) async fn absent(saver: &Saver, at: &Place) -> Outcome {
    let found = saver.get(&Lookup::exact(&at.thread, &at.namespace, at.id)).await?;
    same("reading what is not there", found.map(|it| it.place), None)
}

/// The newest checkpoint of a namespace.
pub(super) async fn head(
    saver: &Saver,
    thread: &str,
    namespace: &str,
) -> Outcome<Option<CheckpointId>> {
    Ok(saver.get(&Lookup::head(thread, namespace)).await?.map(|it| it.place.id))
}

/// The ids of a listing.
pub(super) async fn ids(saver: &Saver, query: &History) -> Outcome<Vec<CheckpointId>> {
    Ok(saver.list(query).await?.iter().map(|it| it.place.id).collect())
}

/// The whole history of the root namespace.
pub(super) fn history() -> History {
    History::of(THREAD, ROOT)
}

/// The ids, newest first.
pub(super) fn reversed(ids: &[CheckpointId]) -> Vec<CheckpointId> {
    ids.iter().rev().copied().collect()
}

pub(super) fn place(id: CheckpointId) -> Place {
    place_in(THREAD, ROOT, id)
}

pub(super) fn place_in(thread: &str, namespace: &str, id: CheckpointId) -> Place {
    Place { thread: thread.to_owned(), namespace: namespace.to_owned(), id }
}

pub(super) fn time(secs: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is no map") };
    map
}

/// A record of the task with this name.
pub(super) fn record(task: &str, event: Event) -> TaskRecord {
    TaskRecord { task: TaskId::of(&[task.as_bytes()]), node: task.to_owned(), event }
}

/// The task wrote this.
pub(super) fn done(value: impl Into<Value>) -> Event {
    Event::Done { writes: vec![write("field", value)], gotos: vec![goto("next")] }
}

/// An outside call with this key brought this.
pub(super) fn effect(key: &str, result: impl Into<Value>) -> Event {
    Event::Effect { key: key.to_owned(), result: result.into() }
}

pub(super) fn write(field: &str, value: impl Into<Value>) -> FieldWrite {
    FieldWrite { field: field.to_owned(), value: value.into(), overwrite: false }
}

pub(super) fn goto(to: &str) -> GotoRecord {
    GotoRecord { to: to.to_owned(), payload: None }
}

/// Runs the futures as tasks that all start together.
pub(super) async fn at_once<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let work: Vec<_> = work.into_iter().collect();
    let start = Arc::new(Barrier::new(work.len()));
    let mut tasks = JoinSet::new();
    for it in work {
        let start = start.clone();
        tasks.spawn(async move {
            start.wait().await;
            it.await
        });
    }
    tasks.join_all().await
}

/// What is shown of a value in a failure: a report should not hold a text of a megabyte.
fn short(value: &dyn fmt::Debug) -> String {
    const SHOWN: usize = 400;
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}
