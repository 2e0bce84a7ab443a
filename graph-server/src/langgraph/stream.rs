//! Collects and buffers the events of runs, and encodes them for clients.

pub(super) mod buffer;
pub(super) mod checkpoint_event;
pub(super) mod collect;
pub(super) mod encode;
pub(super) mod item;
pub(super) mod json;
pub(super) mod message;
mod progress;
pub(super) mod protocol;
pub(super) mod published;
pub(super) mod sse;
pub(super) mod tool_event;
pub(super) mod tracing_event;
pub(super) mod ui;
