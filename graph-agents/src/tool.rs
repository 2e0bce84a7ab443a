//! Tools: functions that a model can call.

mod call;
mod content;
mod definition;
mod output;
mod runtime;
pub mod schema;

pub(crate) use call::InputKind;
pub use call::{ToolAnswer, ToolHandler, ToolRequest, ToolWrapper};
pub(crate) use content::content_of;
pub use definition::{ExceptionAnswer, ProviderTool, Tool};
pub use output::{IntoToolOutput, ToolOutput};
pub use runtime::ToolRuntime;
