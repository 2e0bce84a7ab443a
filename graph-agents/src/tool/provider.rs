//! Tools that the provider executes.

/// A tool that the provider executes, such as a web search, with a name for middleware. Created from an
/// [`llm::ProviderTool`].
///
/// ```
/// use graph_agents::ProviderTool;
/// use serde_json::json;
///
/// assert_eq!(ProviderTool::from(llm::ProviderTool::CodeExecution).name, "code_execution");
/// let maps = llm::ProviderTool::Custom(json!({"type": "maps_20260101", "name": "maps"}));
/// assert_eq!(ProviderTool::from(maps).name, "maps");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderTool {
    /// Name of the tool.
    pub name: String,
    /// The tool and its options.
    pub tool: llm::ProviderTool,
}

/// Name of a tool whose definition contains no name.
const UNNAMED: &str = "provider_tool";

impl From<llm::ProviderTool> for ProviderTool {
    /// Names the tool: `web_search`, `code_execution`, or the `name` or `type` of a custom definition.
    fn from(tool: llm::ProviderTool) -> Self {
        let name = match &tool {
            llm::ProviderTool::WebSearch(_) => "web_search",
            llm::ProviderTool::CodeExecution => "code_execution",
            llm::ProviderTool::Custom(definition) => {
                let text = |key: &str| definition[key].as_str();
                text("name").or_else(|| text("type")).unwrap_or(UNNAMED)
            }
            // The enum is non-exhaustive: `llm` may add tools.
            _ => UNNAMED,
        };
        Self { name: name.to_owned(), tool }
    }
}
