//! Stream modes.

use serde::{Deserialize, Deserializer, Serialize};

/// A kind of events that a client receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::langgraph) enum Mode {
    #[serde(rename = "values")]
    Values,
    #[serde(rename = "updates")]
    Updates,
    #[serde(rename = "messages")]
    Messages,
    #[serde(rename = "messages-tuple")]
    MessagesTuple,
    #[serde(rename = "custom")]
    Custom,
    #[serde(rename = "tasks")]
    Tasks,
    #[serde(rename = "checkpoints")]
    Checkpoints,
    #[serde(rename = "debug")]
    Debug,
    #[serde(rename = "events")]
    Events,
    #[serde(rename = "tools")]
    Tools,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a stream mode must be one of `values`, `updates`, `messages`, `messages-tuple`, `custom`, \
                               `tasks`, `checkpoints`, `debug`, `events` and `tools`, or a list of them"
)]
enum OneOrMany {
    One(Mode),
    Many(Vec<Mode>),
}

/// Deserialises one mode or a list of modes. An empty list and null mean `values`.
pub(in crate::langgraph) fn modes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Mode>, D::Error> {
    Ok(match Option::deserialize(deserializer)? {
        Some(OneOrMany::One(mode)) => vec![mode],
        Some(OneOrMany::Many(modes)) if !modes.is_empty() => without_repetitions(modes),
        _ => default_modes(),
    })
}

pub(in crate::langgraph) fn default_modes() -> Vec<Mode> {
    vec![Mode::Values]
}

/// Removes repeated modes, so that no event is sent twice.
pub(in crate::langgraph) fn without_repetitions(modes: Vec<Mode>) -> Vec<Mode> {
    let mut unique = Vec::new();
    for mode in modes {
        if !unique.contains(&mode) {
            unique.push(mode);
        }
    }
    unique
}
