//! Assistants and their versions.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::langgraph::{authorize::Resource, document::Document, request::config::Metadata};

/// An assistant: a graph with a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::langgraph) struct Assistant {
    pub(in crate::langgraph) assistant_id: Uuid,
    pub(in crate::langgraph) graph_id: String,
    pub(in crate::langgraph) config: Value,
    pub(in crate::langgraph) context: Value,
    pub(in crate::langgraph) metadata: Metadata,
    pub(in crate::langgraph) name: String,
    pub(in crate::langgraph) description: Option<String>,
    pub(in crate::langgraph) created_at: String,
    pub(in crate::langgraph) updated_at: String,
    pub(in crate::langgraph) version: u32,
}

/// Fields by which assistants can be sorted.
pub(in crate::langgraph) const ASSISTANT_SORT_FIELDS: [&str; 5] =
    ["assistant_id", "graph_id", "name", "created_at", "updated_at"];

/// Fields of assistants that a search can select.
pub(in crate::langgraph) const ASSISTANT_FIELDS: [&str; 10] = [
    "assistant_id", "graph_id", "config", "context", "metadata", "name", "description",
    "created_at", "updated_at", "version",
];

impl Document for Assistant {
    const KIND: &'static str = "assistant";
    const RESOURCES: &'static [Resource] = &[Resource::Assistants];
    const HAS_METADATA: bool = true;
    const SHARED: bool = true;

    fn id(&self) -> String {
        self.assistant_id.to_string()
    }
}

/// One version of an assistant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::langgraph) struct AssistantVersion(pub(in crate::langgraph) Assistant);

impl Document for AssistantVersion {
    const KIND: &'static str = "assistant_version";
    const RESOURCES: &'static [Resource] = &[Resource::Assistants];
    const HAS_METADATA: bool = true;
    const SHARED: bool = true;

    fn id(&self) -> String {
        format!("{}:{}", self.0.assistant_id, self.0.version)
    }

    fn parent(&self) -> Option<String> {
        Some(self.0.assistant_id.to_string())
    }
}
