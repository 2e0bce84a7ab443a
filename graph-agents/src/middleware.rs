//! Middleware: the interface for hooks into an agent's loop, and ready-made implementations.
//!
//! | middleware | purpose |
//! |---|---|
//! | [`ModelCallLimit`], [`ToolCallLimit`] | limit the number of calls per run and per thread |
//! | [`ModelFallback`], [`ModelRetry`], [`ToolRetry`], [`ToolErrorAnswers`], [`ReturnMalformedCalls`] | deal with failures |
//! | [`HumanInTheLoop`] | asks a person before tools run |
//! | [`Summarization`], [`ContextEditing`] | keep long conversations short |
//! | [`Pii`] | redacts, masks, hashes or blocks personal data |
//! | [`TodoList`] | gives the model a to-do list |
//! | [`ToolSelector`], [`ToolEmulator`] | choose and emulate tools with a model |

mod context_editing;
mod fallback;
mod hooks;
mod human_in_the_loop;
mod malformed_calls;
mod model_call_limit;
mod pii;
mod retry;
mod summarization;
mod todo;
mod tool_call_limit;
mod tool_emulator;
mod tool_error;
mod tool_filter;
mod tool_selector;

pub use crate::retry::{OnFailure, RetryOptions};
pub use context_editing::{ClearToolUses, ContextEditing};
pub use fallback::ModelFallback;
pub use hooks::{Hooks, Middleware};
pub use human_in_the_loop::{DecisionKind, HumanInTheLoop, ReviewRule};
pub use malformed_calls::ReturnMalformedCalls;
pub use model_call_limit::ModelCallLimit;
pub use pii::{Detector, Pii, PiiStrategy};
pub use retry::{ModelRetry, ToolRetry};
pub use summarization::{Size, Summarization};
pub use todo::TodoList;
pub use tool_call_limit::{ToolCallLimit, ToolLimitExit};
pub use tool_emulator::ToolEmulator;
pub use tool_error::ToolErrorAnswers;
pub use tool_selector::{OnParsingFailure, ToolSelector};
