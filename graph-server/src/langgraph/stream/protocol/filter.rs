//! The events that a client selects.

use serde::{Deserialize, Serialize};

use super::event::ProtocolEvent;
use crate::langgraph::error::{ApiError, ApiResult};

/// Channels of the protocol. Channels of named custom events, `custom:NAME`, are not listed.
const CHANNELS: [&str; 9] = [
    "values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks",
    "custom",
];

/// Selects events of a thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct Filter {
    channels: Vec<String>,
    /// Only events of these graphs and of the subgraphs below them.
    namespaces: Option<Vec<Vec<String>>>,
    /// Maximum number of levels below the selected graphs.
    depth: Option<usize>,
    /// Only events with a greater number.
    since: Option<u64>,
}

impl Filter {
    /// Checks the names of the channels.
    pub(in crate::langgraph) fn check(&self) -> ApiResult<()> {
        let known = |it: &&String| {
            CHANNELS.contains(&it.as_str())
                || it.strip_prefix("custom:").is_some_and(|name| !name.is_empty())
        };
        match self.channels.iter().find(|it| !known(it)) {
            Some(channel) => Err(ApiError::invalid(format!(
                "unknown channel `{channel}`; the channels are {} and `custom:NAME`",
                CHANNELS.join(", ")
            ))),
            None if self.channels.is_empty() => {
                Err(ApiError::invalid("`channels` is empty; select at least one channel"))
            }
            None => Ok(()),
        }
    }

    /// Selects only events after the event with this number, unless the filter already starts later.
    pub(in crate::langgraph) fn after(mut self, number: Option<u64>) -> Self {
        self.since = self.since.max(number);
        self
    }

    pub(in crate::langgraph) fn matches(&self, event: &ProtocolEvent) -> bool {
        let content = &event.content;
        self.since.is_none_or(|since| event.number > since)
            && self.has_channel(content.channel(), content.data["name"].as_str())
            && self.has_namespace(&content.namespace)
    }

    fn has_channel(&self, channel: &str, name: Option<&str>) -> bool {
        self.channels.iter().any(|it| {
            it == channel
                || channel == "custom" && name.is_some() && it.strip_prefix("custom:") == name
        })
    }

    fn has_namespace(&self, namespace: &[String]) -> bool {
        let Some(prefixes) = self.namespaces.as_ref().filter(|it| !it.is_empty()) else {
            return true;
        };
        prefixes.iter().any(|prefix| {
            let below = namespace.len().checked_sub(prefix.len());
            below.is_some_and(|below| self.depth.is_none_or(|depth| below <= depth))
                && prefix.iter().zip(namespace).all(|(prefix, it)| segment_matches(prefix, it))
        })
    }
}

/// Returns whether a segment is selected. A selector without a task id selects all tasks of the node.
fn segment_matches(selector: &str, segment: &str) -> bool {
    selector == segment || segment.split_once(':').is_some_and(|(node, _)| node == selector)
}
