//! Subscriptions of WebSockets.
//!
//! The id of a subscription contains its filter. A client that has lost its connection can therefore restore its
//! subscriptions on a new one, even after a restart of the server or on another replica.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;

use super::command::{CommandError, CommandResult};
use crate::langgraph::{error::ApiError, id::new_id, stream::protocol::Filter};

/// Parameters of the command `subscription.reconnect`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reconnect {
    pub(super) run_id: String,
    last_event_id: Option<String>,
    /// Ids of the subscriptions to restore.
    #[serde(default)]
    pub(super) subscriptions: Vec<String>,
}

impl Reconnect {
    /// Returns the number of the last event that the client has received.
    pub(super) fn seen(&self) -> CommandResult<Option<u64>> {
        let parse = |id: &String| {
            id.parse::<u64>().map_err(|_| {
                CommandError::invalid(format!(
                    "invalid `last_event_id` `{id}`: use the `event_id` of an event of this thread"
                ))
            })
        };
        self.last_event_id.as_ref().map(parse).transpose()
    }
}

/// Returns the id of a new subscription.
pub(super) fn subscription_id(filter: &Filter) -> Result<String, ApiError> {
    let filter = serde_json::to_vec(filter).map_err(|error| ApiError::internal(&error))?;
    Ok(format!("{}.{}", new_id(), BASE64_URL_SAFE_NO_PAD.encode(filter)))
}

/// Returns the filter of a subscription.
pub(super) fn filter_of(id: &str) -> CommandResult<Filter> {
    let decode = || {
        let (_, filter) = id.split_once('.')?;
        let filter = BASE64_URL_SAFE_NO_PAD.decode(filter).ok()?;
        serde_json::from_slice(&filter).ok().filter(|it: &Filter| it.check().is_ok())
    };
    decode().ok_or_else(|| {
        let problem = format!(
            "`{id}` is not the id of a subscription; use an id that `subscription.subscribe` has returned"
        );
        CommandError("no_such_subscription", problem)
    })
}
