//! Tools: functions that a model can call.

mod cache;
mod call;
mod content;
mod definition;
mod errors;
mod limit;
mod output;
mod policy;
mod runtime;
pub mod schema;

pub use cache::ToolCache;
pub(crate) use call::{InputKind, error_message};
pub use call::{ToolAnswer, ToolHandler, ToolRequest, ToolWrapper};
pub(crate) use content::content_of;
pub use definition::Tool;
pub use errors::{ExceptionAnswer, ToolErrors};
#[cfg(feature = "mcp")]
pub(crate) use limit::{Truncation, blocks_as_text, mark_untrusted, truncate};
pub use llm::ProviderTool;
pub use output::{IntoToolOutput, ToolArgument, ToolOutput};
pub use runtime::ToolRuntime;
