//! A checkpointer that keeps nothing but text, as one on a disk would.

use std::{fmt::Debug, future::Future, pin::Pin};

use graph_core::{
    MemorySaver,
    checkpoint::{
        Checkpoint, CheckpointError, Checkpointer, History, Keep, Lease, Lookup, NewCheckpoint,
        Place, Pruned, TaskRecord,
    },
};
use serde::{Serialize, de::DeserializeOwned};

/// Turns all it is given into JSON text and back before it keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextSaver {
    memory: MemorySaver,
}

/// What is left of a value once it was text, which must be all of it.
#[track_caller]
pub(crate) fn through_text<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("what is stored can be written as JSON");
    let back: T = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(&back, value, "a stored value changes on its way through {text}");
    back
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, CheckpointError>> + Send + 'a>>;

/// Written out as `async_trait` would write it, each reference with a lifetime of its own.
macro_rules! methods {
    ($($name:ident($($life:lifetime $arg:ident: $type:ty),*)($($owned:ident: $value:ty),*) -> $out:ty;)*) => {$(
        fn $name<'s, $($life,)* 'f>(
            &'s self, $($arg: &$life $type,)* $($owned: $value,)*
        ) -> Boxed<'f, $out>
        where 's: 'f, $($life: 'f,)* Self: 'f
        {
            self.memory.$name($($arg,)* $($owned,)*)
        }
    )*};
}

impl Checkpointer for TextSaver {
    methods! {
        lease('a thread: str)() -> Lease;
        get('a at: Lookup)() -> Option<Checkpoint>;
        list('a query: History)() -> Vec<Checkpoint>;
        threads()() -> Vec<String>;
        namespaces('a thread: str)() -> Vec<(String, usize)>;
        delete_thread('a thread: str)() -> ();
        delete_runs('a runs: [String])() -> ();
        copy_thread('a from: str, 'b to: str)() -> ();
        prune('a threads: [String])(keep: Keep) -> Pruned;
    }

    fn put<'s, 'f>(&'s self, mut checkpoint: NewCheckpoint) -> Boxed<'f, ()>
    where
        's: 'f,
        Self: 'f,
    {
        checkpoint.header = through_text(&checkpoint.header);
        checkpoint.cursor = through_text(&checkpoint.cursor);
        checkpoint.changes = through_text(&checkpoint.changes);
        self.memory.put(checkpoint)
    }

    fn record<'s, 'a, 'f>(&'s self, at: &'a Place, records: Vec<TaskRecord>) -> Boxed<'f, ()>
    where
        's: 'f,
        'a: 'f,
        Self: 'f,
    {
        let records = through_text(&records);
        self.memory.record(at, records)
    }
}
