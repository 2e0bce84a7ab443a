//! Streams for user interfaces: AG-UI and the AI SDK's UI message stream. Both are derived from the event protocol,
//! which already splits messages into blocks and reports the lifecycle of a run.

mod ag_ui;
mod ag_ui_messages;
mod ai_sdk;
mod events;
mod tool_calls;

pub(in crate::langgraph) use self::{
    ag_ui::AgUi,
    ag_ui_messages::{from_ag_ui, text_of},
    ai_sdk::AiSdk,
    events::UiEvents,
};
