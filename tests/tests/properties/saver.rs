//! A checkpointer that stores everything as text, as a checkpointer on disk would.

use std::{fmt::Debug, future::Future, pin::Pin};

use graph_core::{
    MemorySaver,
    checkpoint::{
        Checkpoint, CheckpointError, CheckpointWrite, Checkpointer, HistoryQuery, Keep, Lease,
        Lookup, PruneStats,
    },
};
use serde::{Serialize, de::DeserializeOwned};

/// Converts everything to JSON text and back before storing it in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextSaver {
    memory: MemorySaver,
}

/// Converts a value to JSON text and back, and asserts that it is unchanged.
#[track_caller]
pub(crate) fn json_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("stored values are representable as JSON");
    let back: T = serde_json::from_str(&text).expect("the JSON text can be parsed");
    assert_eq!(&back, value, "the value changed in the round trip through {text}");
    back
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CheckpointError>> + Send + 'a>>;

/// Expands to the code that `async_trait` would generate, with a separate lifetime for each reference.
macro_rules! methods {
    ($($name:ident($($life:lifetime $arg:ident: $type:ty),*)($($owned:ident: $value:ty),*) -> $out:ty;)*) => {$(
        fn $name<'s, $($life,)* 'f>(
            &'s self, $($arg: &$life $type,)* $($owned: $value,)*
        ) -> BoxFuture<'f, $out>
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
        list('a query: HistoryQuery)() -> Vec<Checkpoint>;
        threads()() -> Vec<String>;
        namespaces('a thread: str)() -> Vec<(String, usize)>;
        delete_thread('a thread: str)() -> ();
        delete_runs('a runs: [String])() -> ();
        copy_thread('a from: str, 'b to: str)() -> ();
        prune('a threads: [String])(keep: Keep) -> PruneStats;
    }

    fn write<'s, 'f>(&'s self, mut writes: Vec<CheckpointWrite>) -> BoxFuture<'f, ()>
    where
        's: 'f,
        Self: 'f,
    {
        for write in &mut writes {
            match write {
                CheckpointWrite::Put(checkpoint) => {
                    checkpoint.header = json_round_trip(&checkpoint.header);
                    checkpoint.frontier = json_round_trip(&checkpoint.frontier);
                    checkpoint.changes = json_round_trip(&checkpoint.changes);
                }
                CheckpointWrite::Record(_, records) => *records = json_round_trip(records),
            }
        }
        self.memory.write(writes)
    }
}
