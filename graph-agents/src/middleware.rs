//! Middleware: the interface for hooks into an agent's loop, and ready-made implementations.
//!
//! | middleware | purpose |
//! |---|---|
//! | [`ModelCallLimit`], [`ToolCallLimit`] | limit the number of calls per run and per thread |
//! | [`ModelFallback`], [`ModelRetry`], [`ToolRetry`] | retry failed calls, or make them with other models |
//! | [`ToolErrorAnswers`] | returns the errors of tools to the model |
//! | [`HumanInTheLoop`] | asks a person before tools run |
//! | [`Summarization`], [`ContextEditing`] | keep long conversations short |
//! | [`Pii`] | redacts, masks, hashes or blocks personal data |
//! | [`TodoList`] | gives the model a to-do list |
//! | [`FileSearch`], [`Shell`] | give the model tools for files and commands |
//! | [`MoneyBudget`] | limits the cost of model calls |
//! | [`RecordReplay`] | records calls to a file and replays them |
//! | [`ToolSelector`], [`ToolEmulator`] | choose and emulate tools with a model |

mod context_editing;
mod fallback;
mod file_search;
mod hooks;
mod human_in_the_loop;
mod model_call_limit;
mod money_budget;
mod pii;
mod record_replay;
mod retry;
mod shell;
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
pub use file_search::FileSearch;
pub(crate) use hooks::model_wrapper;
pub use hooks::{Hooks, Middleware, ModelWrapper};
pub use human_in_the_loop::{DecisionKind, HumanInTheLoop, ReviewRule};
pub use model_call_limit::ModelCallLimit;
pub use money_budget::MoneyBudget;
pub use pii::{Detector, Pii, PiiStrategy};
pub use record_replay::RecordReplay;
pub use retry::{ModelRetry, ToolRetry};
pub use shell::{AllowedCommands, CommandExecutor, CommandResult, CommandSession, Shell};
pub use summarization::{Size, Summarization};
pub use todo::TodoList;
pub use tool_call_limit::{ToolCallLimit, ToolLimitExit};
pub use tool_emulator::ToolEmulator;
pub use tool_error::ToolErrorAnswers;
pub use tool_selector::{OnParsingFailure, ToolSelector};
