//! What a guest says outside its channel.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};

/// How much of it is kept: the end.
const MAX_WORDS: usize = 8 << 10;

/// How long the last words of a guest that has ended are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hears what a guest says on its console, or on its standard error.
#[derive(Debug)]
pub(super) struct Words {
    // A std mutex: held for a moment, never over an await.
    heard: Arc<Mutex<Vec<u8>>>,
    listener: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Words {
    pub(super) fn of(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let heard = Arc::default();
        let listener = tokio::spawn(listen(from, Arc::clone(&heard)));
        Self { heard, listener: tokio::sync::Mutex::new(Some(listener)) }
    }

    /// Waits until a guest that ends has said all it had to say.
    pub(super) async fn wait(&self) {
        if let Some(listener) = self.listener.lock().await.take() {
            let _ = tokio::time::timeout(PATIENCE, listener).await;
        }
    }

    /// The last of it.
    pub(super) fn last(&self) -> String {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&heard).trim().to_owned()
    }
}

async fn listen(mut from: impl AsyncRead + Unpin, heard: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.extend_from_slice(&buffer[..count]);
        let surplus = heard.len().saturating_sub(MAX_WORDS);
        heard.drain(..surplus);
    }
}
