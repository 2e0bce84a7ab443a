//! Merging an update into a list of messages by id.

use std::collections::{HashMap, HashSet};

use super::types::{Message, REMOVE_ALL};
use crate::AgentError;

/// Merges an update into a list of messages, like LangGraph's `add_messages`.
///
/// Messages without an id get one, both in the list and in the update. A message of the update replaces the message of
/// the list that has the same id. A message with a new id is appended. A removal drops all messages with its id, and is
/// an error if no message has that id. If the update contains a marker that removes all messages, the messages after
/// the marker are the new list.
///
/// ```
/// use graph_agents::{Message, add_messages};
///
/// let old = vec![Message::human("hello").with_id("1"), Message::ai("hi").with_id("2")];
/// let new = add_messages(old, vec![Message::ai("good morning").with_id("2")])?;
/// assert_eq!(new[1].text(), "good morning");
/// # Ok::<(), graph_agents::AgentError>(())
/// ```
pub fn add_messages(
    mut current: Vec<Message>,
    mut update: Vec<Message>,
) -> Result<Vec<Message>, AgentError> {
    current.iter_mut().chain(&mut update).for_each(Message::ensure_id);
    let plan = plan(&current, &update)?;
    apply(&plan, &mut current, update);
    Ok(current)
}

/// The effect of an update on a list.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// The list becomes the items of the update from this index on.
    Replace(usize),
    /// Puts items of the update at these positions, and then removes items.
    Merge {
        /// Pairs of a position in the list and an index in the update, in ascending order of indexes. A position at the
        /// end appends.
        puts: Vec<(usize, usize)>,
        /// Positions of removed items, in ascending order.
        removed: Vec<usize>,
    },
}

/// Determines the effect of an update whose messages all have ids.
pub(super) fn plan(current: &[Message], update: &[Message]) -> Result<Plan, AgentError> {
    let is_remove_all = |it: &Message| matches!(it, Message::Remove { id } if id == REMOVE_ALL);
    if let Some(last) = update.iter().rposition(is_remove_all) {
        return Ok(replacement(current, update, last + 1));
    }
    if let Some(puts) = appends(current, update) {
        return Ok(Plan::Merge { puts, removed: Vec::new() });
    }
    let mut positions = HashMap::new();
    let known = current.iter().enumerate();
    positions.extend(known.filter_map(|(position, it)| Some((it.id()?, position))));
    let (mut puts, mut removed_ids) = (Vec::new(), HashSet::new());
    let mut merged: Vec<&Message> = current.iter().collect();
    for (index, item) in update.iter().enumerate() {
        let Some(id) = item.id() else { continue };
        match (positions.get(id), is_removal(item)) {
            (Some(_), true) => drop(removed_ids.insert(id)),
            (None, true) => return Err(unknown_id(id)),
            (Some(position), false) => {
                removed_ids.remove(id);
                // A caller that passes a whole conversation changes few of its messages, so unchanged ones are not
                // stored again.
                if merged[*position] != item {
                    merged[*position] = item;
                    puts.push((*position, index));
                }
            }
            (None, false) => {
                positions.insert(id, merged.len());
                puts.push((merged.len(), index));
                merged.push(item);
            }
        }
    }
    let is_removed = |it: &Message| it.id().is_some_and(|id| removed_ids.contains(id));
    let removed = merged.iter().enumerate().filter(|(_, it)| is_removed(it));
    let removed = removed.map(|(position, _)| position).collect();
    Ok(Plan::Merge { puts, removed })
}

/// Returns the effect of an update whose items from index `from` on are the new list. If the new list begins with the
/// unchanged current list, the rest is appended, so that the current list is not stored again.
fn replacement(current: &[Message], update: &[Message], from: usize) -> Plan {
    if !update[from..].starts_with(current) {
        return Plan::Replace(from);
    }
    let added = from + current.len()..update.len();
    Plan::Merge { puts: (current.len()..).zip(added).collect(), removed: Vec::new() }
}

/// Maximum number of messages in an update for which searching the list is cheaper than indexing the ids of all
/// messages.
const MAX_SEARCHED: usize = 8;

/// Returns the effect of a small update that only appends items with new ids, which is the common case.
fn appends(current: &[Message], update: &[Message]) -> Option<Vec<(usize, usize)>> {
    let is_new = |(index, item): (usize, &Message)| {
        let mut known = update[..index].iter().chain(current);
        item.id().is_some() && !is_removal(item) && known.all(|it| it.id() != item.id())
    };
    let appends = update.len() <= MAX_SEARCHED && update.iter().enumerate().all(is_new);
    appends.then(|| (current.len()..).zip(0..update.len()).collect())
}

fn is_removal(message: &Message) -> bool {
    matches!(message, Message::Remove { .. })
}

/// Applies the effect of an update to the list.
pub(super) fn apply<T>(plan: &Plan, current: &mut Vec<T>, update: Vec<T>) {
    match plan {
        Plan::Replace(from) => {
            *current = update;
            current.drain(..*from);
        }
        Plan::Merge { puts, removed } => {
            let mut items = update.into_iter().enumerate();
            for (position, index) in puts {
                let item = items.find(|it| it.0 == *index).expect("indexes ascend").1;
                if *position == current.len() {
                    current.push(item)
                } else {
                    current[*position] = item
                }
            }
            for position in removed.iter().rev() {
                current.remove(*position);
            }
        }
    }
}

fn unknown_id(id: &str) -> AgentError {
    AgentError::value(format!(
        "Attempting to delete a message with an ID that doesn't exist ('{id}')"
    ))
}
