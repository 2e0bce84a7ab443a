//! Bodies and query parameters of requests. Unknown fields are rejected.

pub(super) mod body;
pub(super) mod checkpoint;
pub(super) mod command;
pub(super) mod config;
pub(super) mod history;
pub(super) mod mode;
pub(super) mod page;
pub(super) mod query;
pub(super) mod run;
pub(super) mod state_fields;
pub(super) mod ttl;
