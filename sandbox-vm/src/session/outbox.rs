//! Queues messages to the guest. The queue is bounded in number and bytes, because the guest may not read.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    runtime::Handle,
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{self, error::TrySendError},
    },
};

use crate::protocol::{Kind, frame};

/// Maximum number of messages in the outbox. Senders wait while it is full.
const MAX_MESSAGES: usize = 64;

/// Maximum number of payload bytes in the outbox. Senders wait while it is full. This is twice the maximum size of a
/// message.
const MAX_BYTES: usize = 128 << 20;

/// Queue of messages to the guest. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Outgoing>,
    bytes: Arc<Semaphore>,
    bytes_written: Arc<AtomicU64>,
}

/// A queued message. It holds the permit for its bytes until it is written.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    _bytes_permit: Option<OwnedSemaphorePermit>,
}

impl Outbox {
    /// Creates an outbox, and a future that writes its messages to the guest until writing fails or the outbox is
    /// dropped.
    pub(super) fn new(writer: impl AsyncWrite + Unpin) -> (Self, impl Future<Output = ()>) {
        let (queue, messages) = mpsc::channel(MAX_MESSAGES);
        let bytes_written = Arc::<AtomicU64>::default();
        let writing = write_all(writer, messages, bytes_written.clone());
        (Self { queue, bytes: Arc::new(Semaphore::new(MAX_BYTES)), bytes_written }, writing)
    }

    /// Returns the number of bytes written to the guest so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Queues a message, waiting until there is space. If the writer has stopped, does nothing: the session is over,
    /// and the reader reports why.
    pub(super) async fn put(&self, kind: Kind, id: u64, payload: Vec<u8>) {
        let bytes = u32::try_from(payload.len().min(MAX_BYTES)).unwrap_or(u32::MAX);
        let Ok(bytes_permit) = self.bytes.clone().acquire_many_owned(bytes).await else { return };
        let Ok(slot) = self.queue.reserve().await else { return };
        // Encode the payload only now, because encoding copies it.
        let bytes = frame::encode(kind, id, &payload);
        slot.send(Outgoing { bytes, _bytes_permit: Some(bytes_permit) });
    }

    /// Waits for a free slot, then calls `message` and queues the short message that it returns, if any.
    pub(super) async fn put_if_wanted(&self, message: impl FnOnce() -> Option<Vec<u8>>) {
        let Ok(slot) = self.queue.reserve().await else { return };
        if let Some(bytes) = message() {
            slot.send(Outgoing { bytes, _bytes_permit: None });
        }
    }

    /// Queues a short message without waiting. If there is no slot, a separate task queues it later.
    pub(super) fn put_without_waiting(&self, bytes: Vec<u8>) {
        if let Err(TrySendError::Full(message)) =
            self.queue.try_send(Outgoing { bytes, _bytes_permit: None })
            && let Ok(runtime) = Handle::try_current()
        {
            let queue = self.queue.clone();
            runtime.spawn(async move { queue.send(message).await });
        }
    }
}

async fn write_all(
    mut writer: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Outgoing>,
    bytes_written: Arc<AtomicU64>,
) {
    while let Some(message) = messages.recv().await {
        let mut rest = message.bytes.as_slice();
        while !rest.is_empty() {
            let Ok(count @ 1..) = writer.write(rest).await else { return };
            rest = &rest[count..];
            bytes_written.fetch_add(count as u64, Ordering::Relaxed);
        }
        if writer.flush().await.is_err() {
            return;
        }
    }
}
