//! The stored form of a change to a field.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The change to one field between two checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Sets the field to this value.
    Set(Value),
    /// Removes the field's value.
    Clear,
    /// Appends items to the list.
    Extend(Vec<Value>),
    /// Replaces items of the list by index. An index equal to the list's length appends the item.
    Put(Vec<(usize, Value)>),
    /// Removes the list items at these indexes, which must be in ascending order.
    Remove(Vec<usize>),
    /// Sets entries of the map.
    Merge(Map<String, Value>),
}

impl Change {
    /// Returns whether the change replaces the whole value, so that earlier changes do not matter.
    pub fn replaces_value(&self) -> bool {
        matches!(self, Self::Set(_) | Self::Clear)
    }

    /// Applies the change to a field's value.
    ///
    /// Returns an error message if the change does not fit the value, which indicates corrupt storage.
    pub fn apply(&self, value: &mut Option<Value>) -> Result<(), String> {
        match self {
            Self::Set(new) => *value = Some(new.clone()),
            Self::Clear => *value = None,
            Self::Extend(items) => list(value)?.extend(items.iter().cloned()),
            Self::Put(items) => {
                let list = list(value)?;
                for (index, item) in items {
                    match index.cmp(&list.len()) {
                        std::cmp::Ordering::Less => list[*index] = item.clone(),
                        std::cmp::Ordering::Equal => list.push(item.clone()),
                        std::cmp::Ordering::Greater => {
                            return Err(out_of_range(*index, list.len()));
                        }
                    }
                }
            }
            Self::Remove(indexes) => {
                let list = list(value)?;
                if let Some(last) = indexes.last().filter(|it| **it >= list.len()) {
                    return Err(out_of_range(*last, list.len()));
                }
                let mut positions = 0..;
                list.retain(|_| {
                    positions.next().is_some_and(|it| indexes.binary_search(&it).is_err())
                });
            }
            Self::Merge(entries) => {
                let map = value.get_or_insert_with(|| Value::Object(Map::new()));
                let map =
                    map.as_object_mut().ok_or("cannot merge into a value that is not a map")?;
                map.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        Ok(())
    }
}

fn list(value: &mut Option<Value>) -> Result<&mut Vec<Value>, String> {
    let list = value.get_or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut()
        .ok_or_else(|| "cannot change items of a value that is not a list".to_owned())
}

fn out_of_range(index: usize, n_items: usize) -> String {
    format!("item {index} is out of range for a list of {n_items} items")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Change;

    #[test]
    fn changes_apply_in_order() {
        let mut value = None;
        for change in [
            Change::Extend(vec![json!(1), json!(2)]),
            Change::Put(vec![(0, json!("one")), (2, json!(3))]),
            Change::Extend(vec![json!(4), json!(5)]),
            Change::Remove(vec![1, 3]),
        ] {
            change.apply(&mut value).unwrap();
        }
        assert_eq!(value, Some(json!(["one", 3, 5])));
        Change::Clear.apply(&mut value).unwrap();
        assert_eq!(value, None);
    }

    #[test]
    fn a_change_of_the_wrong_kind_is_an_error() {
        let mut value = Some(json!("text"));
        assert!(Change::Extend(vec![json!(1)]).apply(&mut value).is_err());
        assert!(Change::Merge(serde_json::Map::new()).apply(&mut value).is_err());
        let mut list = Some(json!([1]));
        assert!(Change::Put(vec![(5, json!(1))]).apply(&mut list).is_err());
        assert!(Change::Remove(vec![0, 1]).apply(&mut list).is_err());
        assert_eq!(list, Some(json!([1])));
    }
}
