//! Programs whose updates keep the order that they have in the case file.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Deserializes programs. Converts the object of each `update` to a list of pairs to preserve the order of its writes,
/// which affects the answers.
pub(super) fn ordered_updates<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Value>, D::Error> {
    Ok(Vec::<Json>::deserialize(deserializer)?.into_iter().map(Json::into_value).collect())
}

/// JSON with ordered objects.
#[derive(Deserialize)]
#[serde(untagged)]
enum Json {
    Array(Vec<Self>),
    Object(IndexMap<String, Self>),
    Scalar(Value),
}

impl Json {
    fn into_value(self) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::Array(items) => items.into_iter().map(Self::into_value).collect(),
            Self::Object(entries) => entries.into_iter().map(Self::into_entry).collect(),
        }
    }

    fn into_entry((key, value): (String, Self)) -> (String, Value) {
        match value {
            Self::Object(entries) if key == "update" => {
                let pair = |(key, it): (String, Self)| {
                    Value::from(vec![Value::from(key), it.into_value()])
                };
                (key, entries.into_iter().map(pair).collect())
            }
            value => (key, value.into_value()),
        }
    }
}
