//! The declared, not yet validated parts of a graph.

use std::{sync::Arc, time::Duration};

use crate::{
    cache::Cache,
    checkpoint::saver::Checkpointer,
    graph::{erased::Router, into_node::NodeParts, stops::Stops},
    label::Label,
    policy::RetryPolicy,
    state::{erased::ErasedState, migrate::Migrations},
    store::interface::Store,
};

/// The parts of a graph as they were declared with [`StateGraph`](crate::StateGraph).
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) initial: Box<dyn ErasedState>,
    pub(super) nodes: Vec<NodeParts>,
    pub(super) edges: Vec<(Label, Label)>,
    pub(super) joins: Vec<(Vec<Label>, Label)>,
    pub(super) branches: Vec<(Label, Router)>,
    pub(super) stop_before: Stops,
    pub(super) stop_after: Stops,
    pub(super) checkpointer: Option<Arc<dyn Checkpointer>>,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) cache: Option<Arc<dyn Cache>>,
    pub(super) step_timeout: Option<Duration>,
    pub(super) max_stored_bytes: usize,
    pub(super) default_retry: Option<RetryPolicy>,
    pub(super) default_timeout: Option<Duration>,
    pub(super) migrations: Migrations,
    pub(super) eager: bool,
}
