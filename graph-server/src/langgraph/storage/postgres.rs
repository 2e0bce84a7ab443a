//! Storage in PostgreSQL, for several replicas.
//!
//! A replica executes a run under a lease, which it renews. If the replica is killed, another one claims the run when
//! the lease expires. Each claim has a number, the fence: writes of a replica that has lost a run are rejected.

mod connection;
mod documents;
mod events;
mod filter;
mod notices;
mod queue;
mod search;

use std::sync::Arc;

use self::connection::PostgresStorage;
use super::parts::Storage;

/// Connects to the database at `url`.
pub(in crate::langgraph) async fn connect(
    url: &str,
) -> Result<Storage, Box<dyn std::error::Error + Send + Sync>> {
    let storage = Arc::new(PostgresStorage::connect(url).await?);
    Ok(Storage {
        documents: storage.clone(),
        queue: storage.clone(),
        event_log: storage.clone(),
        shared_events: Some(storage),
    })
}
