//! Nodes: plain async functions, type-erased when they are added to a graph.

pub(crate) mod erased;
pub(crate) mod function;
pub(crate) mod named;
pub mod options;
pub(crate) mod output;
pub(crate) mod parameter;
pub(crate) mod state_parameter;

pub use self::{
    erased::{NodeBody, Private, TaskInputError},
    function::{Node, PayloadType},
    named::Named,
    output::{IntoNodeOutput, NodeOutput},
    parameter::{FirstParameter, NodeFuture, SecondParameter},
};
pub use crate::command::target::{AcceptsPayload, RunsOnState};
