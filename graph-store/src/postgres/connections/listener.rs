//! Receives notifications from the server.

use std::{future::poll_fn, time::Duration};

use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Config, Error};

use super::tls::Tls;

/// Delay before a lost connection is opened again.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// An event that a [`Listener`] receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification<'a> {
    /// The payload of a `NOTIFY` statement.
    Payload(&'a str),
    /// The connection was opened, for the first time or again. Notifications that were sent before may have been lost.
    Connected,
}

/// A connection that receives the notifications of a channel. Dropping it closes the connection.
///
/// A notification may be lost with its connection, so use notifications only as hints to read the tables again.
#[derive(Debug)]
pub struct Listener(JoinHandle<()>);

impl Listener {
    pub(super) fn start(
        config: Config,
        tls: Tls,
        channel: &'static str,
        receive: impl Fn(Notification<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self(tokio::spawn(async move {
            loop {
                if let Err(error) = forward(&config, &tls, channel, &receive).await {
                    tracing::warn!(%error, channel, "lost the connection for notifications; reconnecting");
                }
                tokio::time::sleep(RECONNECT_DELAY).await;
            }
        }))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Forwards notifications until the connection ends.
async fn forward(
    config: &Config,
    tls: &Tls,
    channel: &str,
    receive: &(impl Fn(Notification<'_>) + Sync),
) -> Result<(), Error> {
    let (client, mut connection) = config.connect(tls.clone()).await?;
    let listen = async {
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        receive(Notification::Connected);
        std::future::pending().await
    };
    let forward = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(it) = message? {
                receive(Notification::Payload(it.payload()));
            }
        }
        Ok(())
    };
    tokio::select! {
        result = listen => result,
        result = forward => result,
    }
}
