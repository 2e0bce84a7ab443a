//! Reducers: how several writes become one value.
//!
//! `#[reduce(append)]` names one of these by its lower-case name; `#[reduce(MyReducer)]` names a type of
//! yours that implements [`Reducer`].

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    hash::{BuildHasher, Hash},
    ops::AddAssign,
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::fold::items;
use crate::checkpoint::Change;

/// Folds updates into the current value of a field of type `T`.
///
/// A reducer of your own must not depend on how writes are grouped into steps:
/// folding `a` and then `b` has to give what folding them in one step gives.
///
/// ```
/// use graph_core::{State, reduce::Reducer};
///
/// /// Keeps the longest text.
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
    message = "`{Self}` cannot reduce a field of type `{T}`",
    label = "this reducer does not fit the field",
    note = "`append` wants a list or a text, `add` a number, `merge` a map, `topic` and `upsert` a `Vec`",
    note = "write `#[reduce(with = some_function)]` to use a function `fn(&mut T, T)`"
)]
pub trait Reducer<T> {
    /// What one write brings; a field of the input needs it to be made `From` the field's own type.
    type Update: Clone + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Whether several tasks of one step may write the field.
    const MANY_WRITERS: bool = true;

    /// Whether the first write of a step replaces what the step before left.
    const STARTS_ANEW: bool = false;

    /// Folds one write in.
    fn fold(current: &mut T, update: Self::Update);

    /// Puts the written value in the place of the current one.
    fn replace(current: &mut T, update: Self::Update);

    /// What a checkpoint needs to store of this fold, where that is less than the whole field.
    ///
    /// Asked before the fold, and only where there is a checkpointer.
    fn delta(_current: &T, _update: &Self::Update) -> Option<Change> {
        None
    }
}

/// Keeps the last value; two writers in one step are a conflict. What a field without attribute does.
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

/// Takes the last write in task order, however many there are.
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

/// Appends to a list or a text.
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

/// Adds with `+=`.
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

/// Keeps the least value.
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

/// Merges maps and sets, later keys winning.
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

/// Gathers the writes of one step into a list, which lives until the next step.
#[derive(Debug)]
pub struct Topic;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Reducer<Vec<T>> for Topic {
    type Update = Vec<T>;
    const STARTS_ANEW: bool = true;
    fn fold(current: &mut Vec<T>, update: Vec<T>) {
        current.extend(update);
    }
    fn replace(current: &mut Vec<T>, update: Vec<T>) {
        *current = update;
    }
}

/// Replaces list items that have the same key and appends the others, so that writing twice changes nothing.
///
/// `#[reduce(upsert(id))]` takes the key from the items' field `id`.
#[derive(Debug)]
pub struct Upsert<K>(std::marker::PhantomData<K>);

/// Says which key an item of an upserted list has.
pub trait Keyed<T> {
    /// The key's type.
    type Key: PartialEq;
    /// The key of an item.
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
            // New items mostly come after old ones, so the search starts at the end.
            match current.iter_mut().rfind(|it| K::key(it) == key) {
                Some(place) => *place = item,
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
            let place = current.iter().rposition(|it| K::key(it) == key).or_else(|| {
                keys.iter().position(|it| *it == key).map(|index| current.len() + index)
            });
            let place = place.unwrap_or_else(|| {
                keys.push(key);
                current.len() + keys.len() - 1
            });
            puts.push((place, serde_json::to_value(item).ok()?));
        }
        Some(Change::Put(puts))
    }
}
