//! Chains: how a field's value is kept as changes, so that a step costs what it changed.
//!
//! A field's value at a checkpoint is a chain of links, each with what changed since the one before it. Every
//! [`SPAN`]th link of a chain takes in the links before it and hooks on to the one before those; every
//! `SPAN`th of these takes in those, and so on. So a value of `n` changes is read from at most
//! `SPAN * (1 + log n)` links, where the logarithm is to the base `SPAN`, and each change is stored
//! `1 + log n` times at most: twice up to 40,000 changes, three times up to eight million. A snapshot of the
//! whole value every `SPAN` steps would be read as fast, but would grow with the square of the thread's length.

use std::collections::BTreeMap;

use graph_core::checkpoint::Change;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many links one link of the next level takes in.
pub(crate) const SPAN: u32 = 200;

/// Where a field's value stands at a checkpoint: its newest link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Without the names, which would stand in every checkpoint once for each field.
#[serde(from = "(i64, u32)", into = "(i64, u32)")]
pub(crate) struct Tip {
    pub(crate) link: i64,
    /// How many changes lie between this link and the chain's first.
    pub(crate) depth: u32,
}

impl From<(i64, u32)> for Tip {
    fn from((link, depth): (i64, u32)) -> Self {
        Self { link, depth }
    }
}

impl From<Tip> for (i64, u32) {
    fn from(tip: Tip) -> Self {
        (tip.link, tip.depth)
    }
}

/// The newest link of each field that has a value.
pub(crate) type Tips = BTreeMap<String, Tip>;

/// A link as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The link it hooks on to; `None` for a chain's first.
    pub(crate) prev: Option<i64>,
    pub(crate) depth: u32,
    /// What changed since that link, in order.
    pub(crate) changes: Vec<Change>,
}

/// Where a new link goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// It begins a chain.
    First,
    /// It follows the newest link.
    Next {
        /// The newest link.
        tip: i64,
        depth: u32,
    },
    /// It takes in the links from the newest one on back to one at this depth, and hooks on to that.
    Over {
        /// The newest link.
        tip: i64,
        depth: u32,
        /// The depth of the link to hook on to.
        back_to: u32,
    },
}

impl Hook {
    /// Where a change of a field goes whose newest link is `tip`.
    pub(crate) fn of(change: &Change, tip: Option<Tip>) -> Self {
        match tip {
            Some(tip) if !change.is_whole() => {
                let depth = tip.depth.saturating_add(1);
                let mut back_to = depth - 1;
                let mut reach = SPAN;
                while depth.is_multiple_of(reach) {
                    back_to = depth - reach;
                    reach = reach.saturating_mul(SPAN);
                }
                match back_to + 1 == depth {
                    true => Self::Next { tip: tip.link, depth },
                    false => Self::Over { tip: tip.link, depth, back_to },
                }
            }
            _ => Self::First,
        }
    }
}

/// A new link that takes in `before`, newest first, and `change` after them. `prev` is what the oldest hooks on to.
pub(crate) fn take_in(before: Vec<Link>, change: Change, depth: u32) -> Link {
    let prev = before.last().and_then(|it| it.prev);
    let mut changes = Vec::new();
    let older = before.into_iter().rev().flat_map(|it| it.changes);
    for change in older.chain([change]) {
        push(&mut changes, change);
    }
    Link { prev, depth, changes }
}

/// Adds a change, merged with the last one where that gives the same.
fn push(changes: &mut Vec<Change>, change: Change) {
    match (changes.last_mut(), change) {
        (Some(Change::Extend(items)), Change::Extend(more)) => items.extend(more),
        (Some(Change::Merge(entries)), Change::Merge(more)) => entries.extend(more),
        (Some(Change::Put(items)), Change::Put(more)) => put(items, more),
        (_, Change::Put(more)) => {
            let mut items = Vec::with_capacity(more.len());
            put(&mut items, more);
            changes.push(Change::Put(items));
        }
        (_, change) => changes.push(change),
    }
}

/// Adds replaced items, sorted by their place: what is appended comes in the order of its places anyway.
fn put(items: &mut Vec<(usize, Value)>, more: Vec<(usize, Value)>) {
    for (index, item) in more {
        match items.binary_search_by_key(&index, |it| it.0) {
            Ok(at) => items[at].1 = item,
            Err(at) => items.insert(at, (index, item)),
        }
    }
}

/// The value that a chain gives, from its links, newest first.
pub(crate) fn value<'a>(
    newest_first: impl DoubleEndedIterator<Item = &'a Link>,
) -> Result<Option<Value>, String> {
    let mut value = None;
    for link in newest_first.rev() {
        for change in &link.changes {
            change.apply(&mut value)?;
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use graph_core::checkpoint::Change;
    use proptest::{prelude::*, sample::Index};
    use serde_json::{Map, Value, json};

    use super::{Hook, Link, SPAN, Tip, take_in, value};

    /// Links in a map, as a database keeps them in a table.
    #[derive(Default)]
    struct Links(BTreeMap<i64, Link>);

    impl Links {
        fn chain(&self, tip: i64) -> Vec<&Link> {
            let next = |link: &&Link| link.prev.map(|it| &self.0[&it]);
            std::iter::successors(Some(&self.0[&tip]), next).collect()
        }

        fn add(&mut self, change: Change, tip: Option<Tip>) -> Tip {
            let id = i64::try_from(self.0.len()).unwrap() + 1;
            let (link, depth) = match Hook::of(&change, tip) {
                Hook::First => (Link { prev: None, depth: 0, changes: vec![change] }, 0),
                Hook::Next { tip, depth } => {
                    (Link { prev: Some(tip), depth, changes: vec![change] }, depth)
                }
                Hook::Over { tip, depth, back_to } => {
                    let chain = self.chain(tip).into_iter();
                    let before = chain.take_while(|it| it.depth > back_to).cloned().collect();
                    (take_in(before, change, depth), depth)
                }
            };
            self.0.insert(id, link);
            Tip { link: id, depth }
        }
    }

    #[test]
    fn a_long_list_is_read_from_few_links_and_stored_twice() {
        let mut links = Links::default();
        let mut tip = None;
        let mut most = 0;
        for step in 0..39_999 {
            tip = Some(links.add(Change::Extend(vec![json!(step)]), tip));
            if step % 97 == 0 {
                most = most.max(links.chain(tip.unwrap().link).len());
            }
        }
        let chain = links.chain(tip.unwrap().link);
        assert!(most <= 2 * SPAN as usize, "{most} links");
        let stored: usize = links.0.values().map(|it| items(&it.changes)).sum();
        assert!(stored <= 2 * 39_999, "{stored} items");
        let list = value(chain.into_iter()).unwrap().unwrap();
        assert_eq!(list.as_array().unwrap().len(), 39_999);
        assert!(list.as_array().unwrap().iter().enumerate().all(|(index, it)| *it == json!(index)));
    }

    fn items(changes: &[Change]) -> usize {
        let count = |it: &Change| match it {
            Change::Extend(items) => items.len(),
            other => panic!("{other:?}"),
        };
        changes.iter().map(count).sum()
    }

    proptest! {
        /// Whatever was changed, and wherever it forked, a chain gives what the changes give one by one.
        #[test]
        fn a_chain_gives_what_its_changes_give(
            steps in prop::collection::vec((0..5u8, any::<Index>(), 0..9i64), 1..900),
            forks in prop::collection::vec((any::<Index>(), any::<Index>()), 0..4),
        ) {
            let mut links = Links::default();
            let mut states: Vec<(Option<Tip>, Option<Value>)> = vec![(None, None)];
            let forks: BTreeMap<usize, Index> =
                forks.iter().map(|(at, to)| (at.index(steps.len()), *to)).collect();
            for (step, (kind, index, number)) in steps.iter().enumerate() {
                let from = forks.get(&step).map_or(states.len() - 1, |it| it.index(states.len()));
                let (tip, mut state) = states[from].clone();
                let change = change(*kind, *index, *number, state.as_ref());
                change.apply(&mut state).unwrap();
                let tip = links.add(change, tip);
                states.push((Some(tip), state));
            }
            for (tip, state) in states.iter().filter_map(|(tip, state)| Some((tip.as_ref()?, state))) {
                prop_assert_eq!(&value(links.chain(tip.link).into_iter()).unwrap(), state);
            }
        }
    }

    fn change(kind: u8, index: Index, number: i64, state: Option<&Value>) -> Change {
        match state {
            Some(Value::Object(_)) => {
                Change::Merge(Map::from_iter([(format!("k{}", index.index(7)), json!(number))]))
            }
            list => {
                let length = list.and_then(Value::as_array).map_or(0, Vec::len);
                match kind {
                    0 | 1 => Change::Extend(vec![json!(number)]),
                    2 | 3 => Change::Put(vec![(index.index(length + 1), json!(number))]),
                    _ if number == 0 => Change::Set(json!({})),
                    _ if number == 1 => Change::Set(json!([1, 2])),
                    _ => Change::Extend(vec![json!(number), json!(number)]),
                }
            }
        }
    }
}
