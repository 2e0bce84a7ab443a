//! Chains: each field's value is stored as a sequence of changes, so that the cost of a step is proportional to
//! what the step changed.
//!
//! The value of a field at a checkpoint is the result of a chain of links, each of which holds the changes since its
//! predecessor. Every [`COMPACTION_SPAN`]th link is a level-1 link: besides its own changes, it contains a copy of the
//! changes of all links since the previous level-1 link, and it points to the link before those. Every
//! `COMPACTION_SPAN`th level-1 link is a level-2 link, which compacts the level-1 links before it in the same way, and
//! so on. A value with `n` changes is therefore read from at most `COMPACTION_SPAN * (1 + log n)` links, where the
//! logarithm is to the base `COMPACTION_SPAN`, and each change is stored at most `1 + log n` times: twice up to 40,000
//! changes, three times up to eight million. Storing a snapshot of the whole value every `COMPACTION_SPAN` steps would
//! make reads equally fast, but the storage would grow with the square of the thread's length.

use std::collections::BTreeMap;

use graph_core::checkpoint::Change;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of links that one link on the next level replaces.
pub(crate) const COMPACTION_SPAN: u32 = 200;

/// The newest link of a field's chain at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Serialised as a tuple, because field names would be repeated for each field of each checkpoint.
#[serde(from = "(i64, u32)", into = "(i64, u32)")]
pub(crate) struct ChainTip {
    pub(crate) link: i64,
    /// Number of changes from the first link of the chain to this link.
    pub(crate) depth: u32,
}

impl From<(i64, u32)> for ChainTip {
    fn from((link, depth): (i64, u32)) -> Self {
        Self { link, depth }
    }
}

impl From<ChainTip> for (i64, u32) {
    fn from(tip: ChainTip) -> Self {
        (tip.link, tip.depth)
    }
}

/// The chain tip of each field that has a value.
pub(crate) type ChainTips = BTreeMap<String, ChainTip>;

/// A link of a chain, as stored in the database.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The preceding link; `None` for the first link of a chain.
    pub(crate) prev: Option<i64>,
    pub(crate) depth: u32,
    /// The changes since the preceding link, in order.
    pub(crate) changes: Vec<Change>,
}

/// The position at which a new link is attached to a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkPlacement {
    /// Starts a new chain.
    First,
    /// Appends the link after the newest link.
    Append {
        /// Id of the newest link.
        tip: i64,
        depth: u32,
    },
    /// Replaces the newest links down to, but not including, the link at depth `back_to`, and points to that link.
    Compact {
        /// Id of the newest link.
        tip: i64,
        depth: u32,
        /// Depth of the link to point to.
        back_to: u32,
    },
}

impl LinkPlacement {
    /// Returns the position at which to attach `change`, given the current chain tip of the field.
    pub(crate) fn of(change: &Change, tip: Option<ChainTip>) -> Self {
        match tip {
            Some(tip) if !change.replaces_value() => {
                let depth = tip.depth.saturating_add(1);
                let mut back_to = depth - 1;
                let mut span = COMPACTION_SPAN;
                while depth.is_multiple_of(span) {
                    back_to = depth - span;
                    span = span.saturating_mul(COMPACTION_SPAN);
                }
                match back_to + 1 == depth {
                    true => Self::Append { tip: tip.link, depth },
                    false => Self::Compact { tip: tip.link, depth, back_to },
                }
            }
            _ => Self::First,
        }
    }
}

/// Merges the changes of `before` (newest first), followed by `change`, into one link that points to the
/// predecessor of the oldest link in `before`.
pub(crate) fn compact(before: Vec<Link>, change: Change, depth: u32) -> Link {
    let prev = before.last().and_then(|it| it.prev);
    let mut changes = Vec::new();
    let older = before.into_iter().rev().flat_map(|it| it.changes);
    for change in older.chain([change]) {
        push_merged(&mut changes, change);
    }
    Link { prev, depth, changes }
}

/// Appends a change, or merges it into the last change if the merged change has the same effect.
fn push_merged(changes: &mut Vec<Change>, change: Change) {
    match (changes.last_mut(), change) {
        (Some(Change::Extend(items)), Change::Extend(more)) => items.extend(more),
        (Some(Change::Merge(entries)), Change::Merge(more)) => entries.extend(more),
        (Some(Change::Put(items)), Change::Put(more)) => merge_puts(items, more),
        (_, Change::Put(more)) => {
            let mut items = Vec::with_capacity(more.len());
            merge_puts(&mut items, more);
            changes.push(Change::Put(items));
        }
        (_, change) => changes.push(change),
    }
}

/// Merges `more` into `items`, which stays sorted by index. An item in `more` replaces an item with the same index.
fn merge_puts(items: &mut Vec<(usize, Value)>, more: Vec<(usize, Value)>) {
    for (index, item) in more {
        match items.binary_search_by_key(&index, |it| it.0) {
            Ok(at) => items[at].1 = item,
            Err(at) => items.insert(at, (index, item)),
        }
    }
}

/// Computes the value of a chain from its links, newest first.
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

    use super::{COMPACTION_SPAN, ChainTip, Link, LinkPlacement, compact, value};

    /// An in-memory link table.
    #[derive(Default)]
    struct Links(BTreeMap<i64, Link>);

    impl Links {
        fn chain(&self, tip: i64) -> Vec<&Link> {
            let next = |link: &&Link| link.prev.map(|it| &self.0[&it]);
            std::iter::successors(Some(&self.0[&tip]), next).collect()
        }

        fn add(&mut self, change: Change, tip: Option<ChainTip>) -> ChainTip {
            let id = i64::try_from(self.0.len()).unwrap() + 1;
            let (link, depth) = match LinkPlacement::of(&change, tip) {
                LinkPlacement::First => (Link { prev: None, depth: 0, changes: vec![change] }, 0),
                LinkPlacement::Append { tip, depth } => {
                    (Link { prev: Some(tip), depth, changes: vec![change] }, depth)
                }
                LinkPlacement::Compact { tip, depth, back_to } => {
                    let chain = self.chain(tip).into_iter();
                    let before = chain.take_while(|it| it.depth > back_to).cloned().collect();
                    (compact(before, change, depth), depth)
                }
            };
            self.0.insert(id, link);
            ChainTip { link: id, depth }
        }
    }

    #[test]
    fn a_long_list_is_read_from_few_links_and_stored_at_most_twice() {
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
        assert!(most <= 2 * COMPACTION_SPAN as usize, "{most} links");
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
        /// A chain yields the same value as applying its changes one by one, for any sequence of changes and any
        /// forks.
        #[test]
        fn a_chain_has_the_value_of_its_changes(
            steps in prop::collection::vec((0..6u8, any::<Index>(), 0..9i64), 1..900),
            forks in prop::collection::vec((any::<Index>(), any::<Index>()), 0..4),
        ) {
            let mut links = Links::default();
            let mut states: Vec<(Option<ChainTip>, Option<Value>)> = vec![(None, None)];
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
                    4 if length > 0 => {
                        let step = usize::try_from(number).unwrap() + 1;
                        Change::Remove((index.index(length)..length).step_by(step).collect())
                    }
                    _ if number == 0 => Change::Set(json!({})),
                    _ if number == 1 => Change::Set(json!([1, 2])),
                    _ => Change::Extend(vec![json!(number), json!(number)]),
                }
            }
        }
    }
}
