//! Two processes that race for one thread, told by lines on their standard input.
//!
//! A round has two parts. At `look` a racer reads the thread's head and says `ready`; at `go` it tries to put the
//! next checkpoint on the head it has read, and says what came of it.

use std::{sync::Arc, time::SystemTime};

use graph_core::{
    Checkpointer, CompiledGraph, Exit, RunError, START, State, StateGraph, Stops, Thread,
    checkpoint::{
        Change, Checkpoint, CheckpointError, CheckpointId, Cursor, Header, Lookup, NewCheckpoint,
        Place, Source,
    },
};
use serde_json::json;

/// How a racer takes its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It takes the thread, and puts a checkpoint.
    Leased,
    /// It puts a checkpoint on a thread it has not taken, as one whose lease was lost would.
    Unleased,
    /// It lets a graph go on for one step.
    Graph,
}

impl Way {
    /// Reads the word for it; `None` if there is none such.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Leased, Self::Unleased, Self::Graph].into_iter().find(|it| it.word() == word)
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Unleased => "unleased",
            Self::Graph => "graph",
        }
    }
}

/// What the racers' graph counts.
#[derive(State, Clone, Debug, Default)]
pub struct Lap {
    /// The number of steps taken.
    #[reduce(add)]
    pub count: u64,
}

async fn step(_: &Lap) -> LapUpdate {
    Lap::update().count(1)
}

/// A graph that goes on for ever, a step at a time.
#[must_use]
pub fn graph(saver: Arc<dyn Checkpointer>) -> CompiledGraph<Lap> {
    StateGraph::<Lap>::new()
        .node(step)
        .edge(START, step)
        .edge(step, step)
        .stop_after(Stops::Everywhere)
        .shared_checkpointer(saver)
        .compile()
        .expect("the racers' graph is sound")
}

/// One of the two.
#[derive(Debug)]
pub struct Racer {
    saver: Arc<dyn Checkpointer>,
    thread: String,
    way: Way,
    laps: Thread<Lap>,
    head: Option<Checkpoint>,
}

impl Racer {
    /// A racer for this thread.
    #[must_use]
    pub fn new(saver: Arc<dyn Checkpointer>, thread: &str, way: Way) -> Self {
        let laps = graph(saver.clone()).thread(thread, ());
        Self { saver, thread: thread.to_owned(), way, laps, head: None }
    }

    /// Does what a line says, and gives the line to answer with.
    pub async fn obey(&mut self, order: &str) -> String {
        match order {
            "look" => match self.saver.get(&Lookup::head(&self.thread, "")).await {
                Ok(head) => {
                    self.head = head;
                    "ready".to_owned()
                }
                Err(error) => format!("failed: {error}"),
            },
            "go" => self.go().await.unwrap_or_else(|error| refusal(&error)),
            other => format!("failed: `{other}` is neither `look` nor `go`"),
        }
    }

    async fn go(&self) -> Result<String, RunError> {
        let count = match self.way {
            Way::Leased => {
                let lease = self.saver.lease(&self.thread).await?;
                let count = self.put().await?;
                drop(lease);
                count
            }
            Way::Unleased => self.put().await?,
            Way::Graph => match self.laps.proceed().await? {
                Exit::Stopped { state, .. } => state.count,
                exit => return Ok(format!("failed: {exit:?}")),
            },
        };
        Ok(format!("won {count}"))
    }

    async fn put(&self) -> Result<u64, CheckpointError> {
        let head = self.head.as_ref();
        let count = 1 + head.and_then(|it| it.values.get("count")?.as_u64()).unwrap_or(0);
        let head_id = head.map(|it| it.place.id);
        let id = CheckpointId::after(head_id);
        let header = Header {
            parent: head_id,
            origin: head.map_or(id, |it| it.header.origin),
            step: head.map_or(-1, |it| it.header.step + 1),
            source: if head.is_some() { Source::Loop } else { Source::Input },
            created_at: SystemTime::now(),
            run: std::process::id().to_string(),
            version: 1,
            parents: Default::default(),
            metadata: Default::default(),
        };
        let checkpoint = NewCheckpoint {
            place: Place { thread: self.thread.clone(), namespace: String::new(), id },
            expected_head: head_id,
            base: head_id,
            header,
            cursor: Cursor::default(),
            changes: vec![("count".to_owned(), Change::Set(json!(count)))],
        };
        self.saver.put(checkpoint).await?;
        Ok(count)
    }
}

/// How a racer was refused; all else is a failure.
fn refusal(error: &RunError) -> String {
    match error {
        RunError::Checkpoint(CheckpointError::Busy { .. }) => "busy".to_owned(),
        RunError::Checkpoint(CheckpointError::HeadMoved { .. }) => "moved".to_owned(),
        RunError::Checkpoint(CheckpointError::LeaseLost { .. }) => "lost".to_owned(),
        error => format!("failed: {error}"),
    }
}
