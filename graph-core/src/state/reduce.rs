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
    note = "`add` needs a number, `append` a list or a `String`, `merge` a map or a set, `topic` and `upsert` a `Vec`",
    note = "for other types, write `#[reduce(with = function)]` with a function `fn(&mut {T}, {T})`",
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

    /// Returns the write that turns `before` into `after`, or `None` if no single write does.
    ///
    /// A subgraph with the state of its parent writes this difference to the parent, so that concurrent changes of
    /// other tasks are kept. Without a difference, the subgraph overwrites the field.
    fn difference(_before: &T, _after: &T) -> Option<Self::Update> {
        None
    }
}

/// A user-defined reducer of fields of type `T`: a type that implements [`Reducer`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reducer of fields of type `{T}`",
    label = "does not implement `Reducer<{T}>`",
    note = "write `impl Reducer<{T}> for {Self}`, or write `#[reduce(with = function)]` with a function `fn(&mut {T}, {T})`"
)]
pub trait CustomReducer<T> {}

#[diagnostic::do_not_recommend]
impl<R: Reducer<T>, T> CustomReducer<T> for R {}

/// Declares that a write has the type of the field, so that it can replace the value.
macro_rules! writes_whole_values {
    ($type:ty) => {
        type Update = $type;
        fn replace(current: &mut $type, update: $type) {
            *current = update;
        }
    };
}

/// Keeps the last written value. Two writers in one step are a conflict. Fields without `#[reduce]` use this reducer.
#[derive(Debug)]
pub struct Last;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T> for Last {
    writes_whole_values!(T);
    const MANY_WRITERS: bool = false;
    fn fold(current: &mut T, update: T) {
        *current = update;
    }
    fn difference(_: &T, after: &T) -> Option<T> {
        Some(after.clone())
    }
}

/// Keeps the last value in task order. Any number of tasks may write the field in one step.
#[derive(Debug)]
pub struct Any;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T> for Any {
    writes_whole_values!(T);
    fn fold(current: &mut T, update: T) {
        *current = update;
    }
    fn difference(_: &T, after: &T) -> Option<T> {
        Some(after.clone())
    }
}

/// Appends to a list or a string.
#[derive(Debug)]
pub struct Append;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<Vec<T>> for Append {
    writes_whole_values!(Vec<T>);
    fn fold(current: &mut Vec<T>, update: Vec<T>) {
        current.extend(update);
    }
    fn delta(_: &Vec<T>, update: &Vec<T>) -> Option<Change> {
        items(update).map(Change::Extend)
    }
    fn difference(before: &Vec<T>, after: &Vec<T>) -> Option<Vec<T>> {
        appended(before, after)
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
    fn difference(before: &Arc<Vec<T>>, after: &Arc<Vec<T>>) -> Option<Vec<T>> {
        appended(&**before, &**after)
    }
}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<VecDeque<T>>
    for Append
{
    writes_whole_values!(VecDeque<T>);
    fn fold(current: &mut VecDeque<T>, update: VecDeque<T>) {
        current.extend(update);
    }
    fn delta(_: &VecDeque<T>, update: &VecDeque<T>) -> Option<Change> {
        items(update).map(Change::Extend)
    }
    fn difference(before: &VecDeque<T>, after: &VecDeque<T>) -> Option<VecDeque<T>> {
        appended(before, after)
    }
}

impl Reducer<String> for Append {
    writes_whole_values!(String);
    fn fold(current: &mut String, update: String) {
        current.push_str(&update);
    }
    fn difference(before: &String, after: &String) -> Option<String> {
        after.strip_prefix(before.as_str()).map(str::to_owned)
    }
}

/// Adds the written value to the current one with `+=`.
#[derive(Debug)]
pub struct Add;

impl<T: AddAssign + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T>
    for Add
{
    writes_whole_values!(T);
    fn fold(current: &mut T, update: T) {
        *current += update;
    }
    fn difference(before: &T, after: &T) -> Option<T> {
        let (before, after) =
            (serde_json::to_value(before).ok()?, serde_json::to_value(after).ok()?);
        let difference = match (before.as_i64(), after.as_i64(), before.as_u64(), after.as_u64()) {
            (Some(before), Some(after), ..) => Value::from(after.checked_sub(before)?),
            (.., Some(before), Some(after)) => Value::from(after.checked_sub(before)?),
            _ => Value::from(after.as_f64()? - before.as_f64()?),
        };
        serde_json::from_value(difference).ok()
    }
}

/// Keeps the greatest value.
#[derive(Debug)]
pub struct Max;

impl<T: PartialOrd + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T>
    for Max
{
    writes_whole_values!(T);
    fn fold(current: &mut T, update: T) {
        if update > *current {
            *current = update;
        }
    }
    fn difference(_: &T, after: &T) -> Option<T> {
        Some(after.clone())
    }
}

/// Keeps the smallest value.
#[derive(Debug)]
pub struct Min;

impl<T: PartialOrd + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<T>
    for Min
{
    writes_whole_values!(T);
    fn fold(current: &mut T, update: T) {
        if update < *current {
            *current = update;
        }
    }
    fn difference(_: &T, after: &T) -> Option<T> {
        Some(after.clone())
    }
}

/// Merges maps and sets. For equal keys, the later write wins.
#[derive(Debug)]
pub struct Merge;

macro_rules! merge_maps {
    ([$($generics:tt)*] $type:ty, $equal:expr) => {
        impl<$($generics)*> Reducer<$type> for Merge {
            writes_whole_values!($type);
            fn fold(current: &mut $type, update: $type) {
                current.extend(update);
            }
            fn delta(_: &$type, update: &$type) -> Option<Change> {
                match serde_json::to_value(update) {
                    Ok(Value::Object(entries)) => Some(Change::Merge(entries)),
                    _ => None,
                }
            }
            fn difference(before: &$type, after: &$type) -> Option<$type> {
                let kept = before.keys().all(|it| after.contains_key(it));
                let new = after
                    .iter()
                    .filter(|(key, value)| before.get(*key).is_none_or(|it| !$equal(it, *value)));
                kept.then(|| new.map(|(key, value)| (key.clone(), value.clone())).collect())
            }
        }
    };
}

merge_maps!([K: Ord + Clone + Serialize + DeserializeOwned + Send + Sync + 'static, V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static] BTreeMap<K, V>, equal);
merge_maps!([K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + Sync + 'static, V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static, H: BuildHasher + Clone + Default + Send + Sync + 'static] HashMap<K, V, H>, equal);
merge_maps!([] Map<String, Value>, PartialEq::eq);

macro_rules! merge_sets {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> Reducer<$type> for Merge {
            writes_whole_values!($type);
            fn fold(current: &mut $type, update: $type) {
                current.extend(update);
            }
            fn difference(before: &$type, after: &$type) -> Option<$type> {
                before.is_subset(after).then(|| after.difference(before).cloned().collect())
            }
        }
    };
}

merge_sets!([T: Ord + Clone + Serialize + DeserializeOwned + Send + Sync + 'static] BTreeSet<T>);
merge_sets!([T: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + Sync + 'static, H: BuildHasher + Clone + Default + Send + Sync + 'static] HashSet<T, H>);

/// Holds the items that the latest step wrote: the first write of a step replaces the list, further writes of the step
/// extend it, and a step without a write clears it.
///
/// The derive selects it with `#[reduce(topic)]`. `#[reduce(topic(keep))]` keeps the items of all steps; its reducer is
/// [`Append`].
#[derive(Debug)]
pub struct Topic;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<Vec<T>> for Topic {
    writes_whole_values!(Vec<T>);
    const RESETS_EACH_STEP: bool = true;
    fn fold(current: &mut Vec<T>, update: Vec<T>) {
        current.extend(update);
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
    writes_whole_values!(Vec<T>);

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

    fn difference(before: &Vec<T>, after: &Vec<T>) -> Option<Vec<T>> {
        let find = |list: &[T], key: K::Key| list.iter().rposition(|it| K::key(it) == key);
        if before.iter().any(|it| find(after, K::key(it)).is_none()) {
            return None;
        }
        let is_new = |it: &&T| find(before, K::key(it)).is_none_or(|at| !equal(&before[at], *it));
        Some(after.iter().filter(is_new).cloned().collect())
    }
}

/// Returns the items that were appended to a list, or `None` if its earlier items changed.
fn appended<'a, L, T>(before: &'a L, after: &'a L) -> Option<L>
where
    &'a L: IntoIterator<Item = &'a T>,
    L: FromIterator<T>,
    T: Clone + Serialize + 'a,
{
    let mut after = after.into_iter();
    for item in before {
        if !equal(item, after.next()?) {
            return None;
        }
    }
    Some(after.cloned().collect())
}

/// Returns whether two values have the same JSON form. The types of state fields need not implement `PartialEq`.
fn equal<T: Serialize>(a: &T, b: &T) -> bool {
    match (serde_json::to_value(a), serde_json::to_value(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Serialises the items of a list to JSON. Returns `None` if an item cannot be serialised.
fn items<'a, T: serde::Serialize + 'a>(
    items: impl IntoIterator<Item = &'a T>,
) -> Option<Vec<Value>> {
    items.into_iter().map(|it| serde_json::to_value(it).ok()).collect()
}
