//! Tools that the provider executes.

use serde_json::Value;

/// A tool that the provider executes, such as a web search.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderTool {
    /// Name of the tool.
    pub name: String,
    /// The tool's definition in the provider's format.
    pub definition: Value,
}
