//! Deletes threads, or their old checkpoints, when their time to live ends.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use graph_core::checkpoint::Keep;

use super::Manager;
use crate::langgraph::{
    database::Select,
    error::ApiResult,
    records::{ThreadTtl, TtlStrategy},
};

impl Manager {
    /// Deletes the threads whose time to live has ended at `now`. A thread with active runs is deleted after these
    /// runs. Returns the time until the next thread expires.
    pub(in crate::langgraph) async fn remove_expired(
        self: &Arc<Self>,
        now: DateTime<Utc>,
    ) -> ApiResult<Option<Duration>> {
        let mut next = None;
        for ttl in self.database.list::<ThreadTtl>(Select::default())? {
            match (ttl.expires_at - now).to_std() {
                Ok(left) if !left.is_zero() => {
                    next = Some(next.map_or(left, |it: Duration| it.min(left)));
                }
                _ if self.is_busy(ttl.thread_id) => {}
                _ => self.expire(&ttl).await?,
            }
        }
        Ok(next)
    }

    async fn expire(self: &Arc<Self>, ttl: &ThreadTtl) -> ApiResult<()> {
        let id = ttl.thread_id.to_string();
        match ttl.strategy {
            TtlStrategy::Delete => self.delete_thread(ttl.thread_id).await,
            TtlStrategy::KeepLatest => {
                self.graphs
                    .checkpointer()
                    .prune(std::slice::from_ref(&id), Keep::Newest(1))
                    .await?;
                self.database.delete::<ThreadTtl>(&id)?;
                Ok(())
            }
        }
    }
}
