//! Leases on the runs that this replica executes.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Instant,
};

use tokio::{sync::broadcast::error::RecvError, time::timeout};

use super::{LiveRun, Manager};
use crate::langgraph::{
    error::ApiError,
    storage::{Notice, SharedEvents},
};

/// Extends the leases on the runs that this process executes, and cancels runs whose cancellation was requested. A
/// run whose lease cannot be extended in time is abandoned, because another replica may claim it.
pub(super) async fn renew(manager: Weak<Manager>, shared: Arc<dyn SharedEvents>) {
    let (interval, mut notices) = (shared.lease() / 3, shared.notices());
    loop {
        let Some(current) = manager.upgrade() else { return };
        current.renew_leases(&*shared).await;
        drop(current);
        let cancelled = async {
            loop {
                match notices.recv().await {
                    Ok(Notice::Cancelled | Notice::Lost) | Err(RecvError::Lagged(_)) => return,
                    Ok(_) => {}
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        let _ = timeout(interval, cancelled).await;
    }
}

impl Manager {
    async fn renew_leases(&self, shared: &dyn SharedEvents) {
        let now = Instant::now();
        let held: HashMap<_, _> = {
            let live_runs = self.lock();
            let held = live_runs.live.values().filter(|it| it.is_executing() && !it.has_ended());
            held.map(|it| (it.facts.run, it.clone())).collect()
        };
        if held.is_empty() {
            return;
        }
        let claims: Vec<_> =
            held.iter().filter_map(|(run, live)| Some((*run, live.claim()?))).collect();
        let renewing = timeout(shared.lease() / 3, shared.renew(&claims)).await;
        let late = |_| Err(ApiError::internal("the database did not answer in time"));
        match renewing.unwrap_or_else(late) {
            Ok(kept) => {
                let kept: HashMap<_, _> = kept.into_iter().collect();
                for (run, live) in &held {
                    match kept.get(run) {
                        Some(cancellation) => {
                            live.set_renewed(now);
                            cancellation.iter().for_each(|it| live.request_cancel(it.clone()));
                        }
                        // The run may have ended in the meantime.
                        None if live.has_ended() || live.is_finishing() => {}
                        None => live.set_lost(),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot extend the leases on runs");
                let is_expired = |it: &&Arc<LiveRun>| it.renewed_at().elapsed() > shared.lease();
                held.values().filter(is_expired).for_each(|it| it.set_lost());
            }
        }
    }
}
