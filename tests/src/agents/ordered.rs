//! JSON objects whose entries keep the order that they have in the case file.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// A JSON object whose entries keep the order that they have in the case file.
#[derive(Clone, Debug, Default)]
pub struct Ordered(pub Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Json::deserialize(deserializer)? {
            Json::Object(entries) => {
                Ok(Self(entries.into_iter().map(|(key, it)| (key, it.into_value())).collect()))
            }
            Json::Array(_) | Json::Scalar(_) => Err(serde::de::Error::custom("expected an object")),
        }
    }
}

/// Deserializes programs. Converts the object of each `update` to a list of pairs to preserve the order of its writes,
/// which affects the answers.
pub(super) fn ordered_updates<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Value>, D::Error> {
    Ok(Vec::<Json>::deserialize(deserializer)?.into_iter().map(Json::into_value).collect())
}

/// JSON with ordered objects.
enum Json {
    Scalar(Value),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
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

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;

        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Scalar(Value::Null))
            }

            fn visit_bool<E>(self, it: bool) -> Result<Json, E> {
                Ok(Json::Scalar(Value::from(it)))
            }

            fn visit_i64<E>(self, it: i64) -> Result<Json, E> {
                Ok(Json::Scalar(Value::from(it)))
            }

            fn visit_u64<E>(self, it: u64) -> Result<Json, E> {
                Ok(Json::Scalar(Value::from(it)))
            }

            fn visit_f64<E>(self, it: f64) -> Result<Json, E> {
                Ok(Json::Scalar(Value::from(it)))
            }

            fn visit_str<E>(self, it: &str) -> Result<Json, E> {
                Ok(Json::Scalar(Value::from(it)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Json::Array(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Json::Object(entries))
            }
        }

        deserializer.deserialize_any(JsonVisitor)
    }
}
