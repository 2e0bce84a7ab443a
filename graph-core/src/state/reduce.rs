//! Reducers, which combine writes with the current value of a field.
//!
//! `#[reduce(append)]` selects a built-in reducer by its name in lower case. `#[reduce(MyReducer)]` selects a type that
//! implements [`Reducer`].

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    hash::{BuildHasher, Hash},
    ops::AddAssign,
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::state::change::Change;

/// Folds updates into the current value of a field of type `T`.
///
/// The result must not depend on how writes are grouped into steps: folding `a` and `b` in two steps must give the
/// same value as folding them in one.
///
/// ```
/// use graph_core::{State, reduce::Reducer};
///
/// /// Keeps the longest string.
/// struct Longest;
///
/// impl Reducer<String> for Longest {
///     type Update = String;
///     fn fold(current: &mut String, update: String) {
///         if update.len() > current.len() {
///             *current = update;
///         }
///     }
///     fn replace(current: &mut String, update: String) {
///         *current = update;
///     }
/// }
///
/// #[derive(State, Clone, Default)]
/// struct Report {
///     #[reduce(Longest)]
///     title: String,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "reducer `{Self}` does not support fields of type `{T}`",
    label = "this reducer does not support the field's type",
    note = "`append` needs a list or a `String`, `add` a number, `merge` a map or a set, `topic` and `upsert` a `Vec`",
    note = "for other types, write `#[reduce(with = function)]` with a function `fn(&mut T, T)`",
    note = "a custom reducer must implement `Reducer<{T}>`"
)]
pub trait Reducer<T> {
    /// Type of a written value. If the field is part of the input, `T` must convert into this type.
    type Update: Clone + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Whether several tasks of one step may write the field.
    const MANY_WRITERS: bool = true;

    /// Whether the first write of a step replaces the value of the previous step.
    const RESETS_EACH_STEP: bool = false;

    /// Folds a write into the current value.
    fn fold(current: &mut T, update: Self::Update);

    /// Replaces the current value with the written one.
    fn replace(current: &mut T, update: Self::Update);

    /// Returns a change that a checkpoint can store instead of the whole value, or `None` to store the whole value.
    ///
    /// Called before the fold, and only if the step is checkpointed.
    fn delta(_current: &T, _update: &Self::Update) -> Option<Change> {
        None
    }
}

/// Keeps the last written value. Two writers in one step are a conflict. Fields without `#[reduce]` use this reducer.
#[derive(Debug)]
pub struct Last;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T> for Last {
    type Update = T;
    const MANY_WRITERS: bool = false;
    fn fold(current: &mut T, update: T) {
        *current = update;
    }
    fn replace(current: &mut T, update: T) {
        *current = update;
    }
}

/// Keeps the last value in task order. Any number of tasks may write the field in one step.
#[derive(Debug)]
pub struct Any;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T> for Any {
    type Update = T;
    fn fold(current: &mut T, update: T) {
        *current = update;
    }
    fn replace(current: &mut T, update: T) {
        *current = update;
    }
}

/// Appends to a list or a string.
#[derive(Debug)]
pub struct Append;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<Vec<T>> for Append {
    type Update = Vec<T>;
    fn fold(current: &mut Vec<T>, update: Vec<T>) {
        current.extend(update);
    }
    fn replace(current: &mut Vec<T>, update: Vec<T>) {
        *current = update;
    }
    fn delta(_: &Vec<T>, update: &Vec<T>) -> Option<Change> {
        items(update).map(Change::Extend)
    }
}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<Arc<Vec<T>>>
    for Append
{
    type Update = Vec<T>;
    fn fold(current: &mut Arc<Vec<T>>, update: Vec<T>) {
        Arc::make_mut(current).extend(update);
    }
    fn replace(current: &mut Arc<Vec<T>>, update: Vec<T>) {
        *current = Arc::new(update);
    }
    fn delta(_: &Arc<Vec<T>>, update: &Vec<T>) -> Option<Change> {
        items(update).map(Change::Extend)
    }
}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<VecDeque<T>>
    for Append
{
    type Update = VecDeque<T>;
    fn fold(current: &mut VecDeque<T>, update: VecDeque<T>) {
        current.extend(update);
    }
    fn replace(current: &mut VecDeque<T>, update: VecDeque<T>) {
        *current = update;
    }
    fn delta(_: &VecDeque<T>, update: &VecDeque<T>) -> Option<Change> {
        items(update).map(Change::Extend)
    }
}

impl Reducer<String> for Append {
    type Update = String;
    fn fold(current: &mut String, update: String) {
        current.push_str(&update);
    }
    fn replace(current: &mut String, update: String) {
        *current = update;
    }
}

/// Adds the written value to the current one with `+=`.
#[derive(Debug)]
pub struct Add;

impl<T: AddAssign + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T>
    for Add
{
    type Update = T;
    fn fold(current: &mut T, update: T) {
        *current += update;
    }
    fn replace(current: &mut T, update: T) {
        *current = update;
    }
}

/// Keeps the greatest value.
#[derive(Debug)]
pub struct Max;

impl<T: PartialOrd + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T>
    for Max
{
    type Update = T;
    fn fold(current: &mut T, update: T) {
        if update > *current {
            *current = update;
        }
    }
    fn replace(current: &mut T, update: T) {
        *current = update;
    }
}

/// Keeps the smallest value.
#[derive(Debug)]
pub struct Min;

impl<T: PartialOrd + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T>
    for Min
{
    type Update = T;
    fn fold(current: &mut T, update: T) {
        if update < *current {
            *current = update;
        }
    }
    fn replace(current: &mut T, update: T) {
        *current = update;
    }
}

/// Merges maps and sets. For equal keys, the later write wins.
#[derive(Debug)]
pub struct Merge;

macro_rules! merge {
    ([$($generics:tt)*] $type:ty, $delta:expr) => {
        impl<$($generics)*> Reducer<$type> for Merge {
            type Update = $type;
            fn fold(current: &mut $type, update: $type) {
                current.extend(update);
            }
            fn replace(current: &mut $type, update: $type) {
                *current = update;
            }
            fn delta(_: &$type, update: &$type) -> Option<Change> {
                let delta: fn(&$type) -> Option<Change> = $delta;
                delta(update)
            }
        }
    };
}

merge!([K: Ord + Clone + Serialize + DeserializeOwned + Send + Sync + 'static, V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static] BTreeMap<K, V>, object);

merge!([K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + Sync + 'static, V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static, H: BuildHasher + Clone + Default + Send + Sync + 'static] HashMap<K, V, H>, object);

merge!([T: Ord + Clone + Serialize + DeserializeOwned + Send + Sync + 'static] BTreeSet<T>, |_| None);

merge!([T: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + Sync + 'static, H: BuildHasher + Clone + Default + Send + Sync + 'static] HashSet<T, H>, |_| None);

merge!([] Map<String, Value>, object);

fn object<T: Serialize>(update: &T) -> Option<Change> {
    match serde_json::to_value(update) {
        Ok(Value::Object(entries)) => Some(Change::Merge(entries)),
        _ => None,
    }
}

/// Collects the writes of one step into a list. The first write of the next step starts a new list.
#[derive(Debug)]
pub struct Topic;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<Vec<T>> for Topic {
    type Update = Vec<T>;
    const RESETS_EACH_STEP: bool = true;
    fn fold(current: &mut Vec<T>, update: Vec<T>) {
        current.extend(update);
    }
    fn replace(current: &mut Vec<T>, update: Vec<T>) {
        *current = update;
    }
}

/// Replaces each item of the list whose key equals that of a written item, and appends written items with new keys.
/// Repeating a write therefore changes nothing.
///
/// `#[reduce(upsert(id))]` uses the field `id` of the items as the key.
#[derive(Debug)]
pub struct Upsert<K>(std::marker::PhantomData<K>);

/// Extracts the key from an item of a list whose reducer is [`Upsert`].
pub trait Keyed<T> {
    /// Type of the key.
    type Key: PartialEq;
    /// Returns the key of an item.
    fn key(item: &T) -> Self::Key;
}

impl<K, T> Reducer<Vec<T>> for Upsert<K>
where
    K: Keyed<T>,
    T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Update = Vec<T>;

    fn fold(current: &mut Vec<T>, update: Vec<T>) {
        for item in update {
            let key = K::key(&item);
            // Most updates concern recently added items, so search from the end.
            match current.iter_mut().rfind(|it| K::key(it) == key) {
                Some(existing) => *existing = item,
                None => current.push(item),
            }
        }
    }

    fn replace(current: &mut Vec<T>, update: Vec<T>) {
        *current = update;
    }

    fn delta(current: &Vec<T>, update: &Vec<T>) -> Option<Change> {
        let mut keys: Vec<K::Key> = Vec::new();
        let mut puts = Vec::with_capacity(update.len());
        for item in update {
            let key = K::key(item);
            let position = current.iter().rposition(|it| K::key(it) == key).or_else(|| {
                keys.iter().position(|it| *it == key).map(|index| current.len() + index)
            });
            let position = position.unwrap_or_else(|| {
                keys.push(key);
                current.len() + keys.len() - 1
            });
            puts.push((position, serde_json::to_value(item).ok()?));
        }
        Some(Change::Put(puts))
    }
}

/// Serialises the items of a list to JSON. Returns `None` if an item cannot be serialised.
fn items<'a, T: serde::Serialize + 'a>(
    items: impl IntoIterator<Item = &'a T>,
) -> Option<Vec<Value>> {
    items.into_iter().map(|it| serde_json::to_value(it).ok()).collect()
}
