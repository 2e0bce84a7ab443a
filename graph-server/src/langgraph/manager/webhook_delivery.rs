//! Delivers webhooks at least once.
//!
//! A webhook is stored in the same transaction as the end of its run. It is deleted when the receiver has answered, or
//! after the last attempt. A process delivers it under a lease: if the process is killed, another one delivers the
//! webhook when the lease expires. With SQLite, the next process delivers it as soon as it starts.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::Manager;
use crate::langgraph::{
    document::{Document, to_row},
    error::{ApiResult, NamedError},
    records::Run,
    storage::Claim,
    time::now,
    webhook::PostError,
};

/// Delays before the second and later attempts.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];
/// Duration of a lease on a webhook. It is longer than the time limit of an attempt.
const LEASE: Duration = Duration::from_secs(20);

/// A webhook that the receiver has not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingWebhook {
    run_id: Uuid,
    url: String,
    /// Body of the request, as JSON text.
    body: String,
    /// Number of attempts that have failed.
    failures: usize,
    /// Time after which another process may deliver the webhook.
    lease_until: DateTime<Utc>,
}

impl Document for PendingWebhook {
    const KIND: &'static str = "webhook";

    fn id(&self) -> String {
        self.run_id.to_string()
    }
}

/// Returns the end of a lease that starts after `delay`.
fn lease_after(delay: Duration) -> DateTime<Utc> {
    (SystemTime::now() + delay + LEASE).into()
}

impl PendingWebhook {
    /// Returns the webhook of a run that has ended, if the run has one. The process that stores it holds the lease.
    pub(super) fn new(
        run: &Run,
        values: Option<&Value>,
        error: Option<&NamedError>,
    ) -> Option<Self> {
        let url = run.kwargs.webhook.clone()?;
        let mut body = json!(run);
        body["values"] = json!(values);
        body["error"] = json!(error);
        body["run_started_at"] = json!(run.created_at);
        body["run_ended_at"] = json!(run.updated_at);
        body["webhook_sent_at"] = json!(now());
        let (body, lease_until) = (body.to_string(), lease_after(Duration::ZERO));
        Some(Self { run_id: run.run_id, url, body, failures: 0, lease_until })
    }
}

impl Manager {
    /// Stores a run that has ended, and its webhook, in one transaction. Returns `false` if another process has claimed
    /// the run.
    pub(super) async fn put_ended(
        &self,
        claim: &Claim,
        run: &Run,
        webhook: Option<&PendingWebhook>,
    ) -> ApiResult<bool> {
        let webhook = webhook.map(|it| to_row(it, None)).transpose()?;
        self.queue.put_run(claim, to_row(run, None)?, webhook).await
    }

    /// Delivers the stored webhooks whose leases end at `now` or earlier. Returns the time until the next lease ends.
    pub(in crate::langgraph) async fn resume_webhooks(
        &self,
        now: DateTime<Utc>,
    ) -> ApiResult<Option<Duration>> {
        let stored = self.database.list::<PendingWebhook>(None).await?;
        let (expired, leased): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|it| it.lease_until <= now);
        for read in expired {
            let lease_until = lease_after(Duration::ZERO);
            let webhook = PendingWebhook { lease_until, ..read.clone() };
            // Only the replica that stores the next lease delivers the webhook.
            if self.database.replace(&webhook, &read).await? {
                self.deliver_soon(webhook);
            }
        }
        Ok(leased.iter().filter_map(|it| (it.lease_until - now).to_std().ok()).min())
    }

    /// Delivers the webhooks of an earlier process that has ended, without waiting for its leases to expire. Must be
    /// called before a run can end in this process.
    pub(super) fn take_over_webhooks(&self) {
        let (manager, leases) = (self.clone(), lease_after(Duration::ZERO));
        tokio::spawn(async move {
            if let Err(error) = manager.resume_webhooks(leases).await {
                tracing::error!(%error, "cannot read the pending webhooks; they are sent when their leases expire");
            }
        });
    }

    /// Delivers a webhook in a separate task. This process must hold the lease on it.
    pub(super) fn deliver_soon(&self, webhook: PendingWebhook) {
        let manager = self.clone();
        tokio::spawn(async move { manager.deliver(webhook).await });
    }

    async fn deliver(&self, mut webhook: PendingWebhook) {
        let run = webhook.run_id;
        loop {
            let problem = match self.webhooks.post(&webhook.url, run, webhook.body.clone()).await {
                Ok(()) => break,
                Err(PostError::Permanent(problem)) => {
                    tracing::warn!(%run, %problem, "cannot deliver a webhook; not retrying");
                    break;
                }
                Err(PostError::Temporary(problem)) => problem,
            };
            let Some(delay) = RETRY_DELAYS.get(webhook.failures).copied() else {
                tracing::warn!(%run, %problem, "cannot deliver a webhook; giving up");
                break;
            };
            let read = webhook.clone();
            webhook.failures += 1;
            webhook.lease_until = lease_after(delay);
            match self.database.replace(&webhook, &read).await {
                Ok(true) => {}
                // Another replica delivers it, because the lease has expired.
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%run, %error, "cannot store a failed webhook; it is sent again later");
                    return;
                }
            }
            tokio::select! {
                () = sleep(delay) => {}
                () = self.shutting_down() => return,
            }
        }
        if let Err(error) = self.database.delete::<PendingWebhook>(&webhook.id()).await {
            tracing::error!(%run, %error, "cannot store that a webhook was delivered; it is sent again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::langgraph::{id::new_id, manager::test_records::open_manager};

    /// Returns a manager with a stored webhook, and the receiver of the webhook.
    async fn manager_with_webhook() -> (Arc<Manager>, PendingWebhook, TcpListener) {
        let manager = open_manager(":memory:");
        let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let webhook = PendingWebhook {
            run_id: new_id(),
            url: format!("http://{}/", receiver.local_addr().unwrap()),
            body: "{\"status\":\"success\"}".to_owned(),
            failures: 0,
            lease_until: lease_after(Duration::ZERO),
        };
        manager.database.put(&webhook).await.unwrap();
        (manager, webhook, receiver)
    }

    async fn stored(manager: &Manager) -> Vec<PendingWebhook> {
        manager.database.list(None).await.unwrap()
    }

    /// Reads a request with the webhook.
    async fn receive(receiver: &TcpListener, webhook: &PendingWebhook) -> TcpStream {
        let (mut connection, _) = receiver.accept().await.unwrap();
        let mut request = String::new();
        while !request.ends_with(&webhook.body) {
            let mut chunk = [0; 4096];
            let length = connection.read(&mut chunk).await.unwrap();
            assert!(length > 0, "the request is incomplete: {request}");
            request.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        }
        assert!(request.contains(&format!("webhook-id: {}\r\n", webhook.run_id)), "{request}");
        connection
    }

    async fn answer(mut connection: TcpStream, status: &str) {
        let response =
            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        connection.write_all(response.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn failed_attempts_are_stored_and_a_delivered_webhook_is_deleted() {
        let (manager, webhook, receiver) = manager_with_webhook().await;
        let receiving = async {
            answer(receive(&receiver, &webhook).await, "503 Service Unavailable").await;
            let second = receive(&receiver, &webhook).await;
            assert_eq!(stored(&manager).await[0].failures, 1);
            answer(second, "200 OK").await;
        };
        tokio::join!(manager.deliver(webhook.clone()), receiving);
        assert!(stored(&manager).await.is_empty());
    }

    #[tokio::test]
    async fn the_number_of_attempts_is_limited_across_restarts() {
        let (manager, mut webhook, receiver) = manager_with_webhook().await;
        webhook.failures = RETRY_DELAYS.len();
        manager.database.put(&webhook).await.unwrap();
        let receiving = async {
            answer(receive(&receiver, &webhook).await, "503 Service Unavailable").await;
        };
        tokio::join!(manager.deliver(webhook.clone()), receiving);
        assert!(stored(&manager).await.is_empty());
    }

    #[tokio::test]
    async fn a_webhook_is_resumed_when_its_lease_has_ended() {
        let (manager, webhook, receiver) = manager_with_webhook().await;
        let wait = manager.resume_webhooks(DateTime::UNIX_EPOCH).await.unwrap();
        assert!(wait.is_some());
        assert_eq!(
            stored(&manager).await,
            std::slice::from_ref(&webhook),
            "the lease is unchanged"
        );
        manager.resume_webhooks(webhook.lease_until).await.unwrap();
        answer(receive(&receiver, &webhook).await, "200 OK").await;
        while !stored(&manager).await.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}
