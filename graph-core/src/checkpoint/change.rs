//! What a step changed of a field, as a checkpoint stores it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The change of one field from one checkpoint to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// The field has this value now.
    Set(Value),
    /// The field has no value now.
    Clear,
    /// These items were appended to the list.
    Extend(Vec<Value>),
    /// These items of the list were replaced, or appended where the index is its length.
    Put(Vec<(usize, Value)>),
    /// These entries of the map were set.
    Merge(Map<String, Value>),
}

impl Change {
    /// Whether the value after the change does not depend on the value before it.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Set(_) | Self::Clear)
    }

    /// Applies the change to a field's value.
    ///
    /// Fails, in words, where the change does not fit the value: a sign of damaged storage.
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
                            return Err(format!("item {index} of a list of {}", list.len()));
                        }
                    }
                }
            }
            Self::Merge(entries) => {
                let map = value.get_or_insert_with(|| Value::Object(Map::new()));
                let map = map.as_object_mut().ok_or("entries for what is no map")?;
                map.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        Ok(())
    }
}

fn list(value: &mut Option<Value>) -> Result<&mut Vec<Value>, String> {
    let list = value.get_or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut().ok_or_else(|| "items for what is no list".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Change;

    #[test]
    fn changes_build_on_each_other() {
        let mut value = None;
        for change in [
            Change::Extend(vec![json!(1), json!(2)]),
            Change::Put(vec![(0, json!("one")), (2, json!(3))]),
        ] {
            change.apply(&mut value).unwrap();
        }
        assert_eq!(value, Some(json!(["one", 2, 3])));
        Change::Clear.apply(&mut value).unwrap();
        assert_eq!(value, None);
    }

    #[test]
    fn a_change_that_does_not_fit_is_an_error() {
        let mut value = Some(json!("text"));
        assert!(Change::Extend(vec![json!(1)]).apply(&mut value).is_err());
        assert!(Change::Merge(serde_json::Map::new()).apply(&mut value).is_err());
        let mut list = Some(json!([1]));
        assert!(Change::Put(vec![(5, json!(1))]).apply(&mut list).is_err());
    }
}
