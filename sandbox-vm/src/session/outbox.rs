//! What waits to be written to the guest: bounded in messages and in bytes, for a guest may read nothing.

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

/// How many messages may wait before whoever writes waits.
const MAX_MESSAGES: usize = 64;

/// How many bytes may wait before whoever writes waits: two messages of the largest size.
const MAX_BYTES: usize = 128 << 20;

/// Where messages to the guest wait. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Outgoing>,
    bytes: Arc<Semaphore>,
    /// How many bytes the guest has bytes_written.
    bytes_written: Arc<AtomicU64>,
}

/// A message that waits, and the room that it takes until it is written.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    _bytes_permit: Option<OwnedSemaphorePermit>,
}

impl Outbox {
    /// An outbox, and who writes what is in it to the guest until that is gone, or nobody is left who could put
    /// something in.
    pub(super) fn new(writer: impl AsyncWrite + Unpin) -> (Self, impl Future<Output = ()>) {
        let (queue, messages) = mpsc::channel(MAX_MESSAGES);
        let bytes_written = Arc::<AtomicU64>::default();
        let writing = write_all(writer, messages, bytes_written.clone());
        (Self { queue, bytes: Arc::new(Semaphore::new(MAX_BYTES)), bytes_written }, writing)
    }

    /// How many bytes the guest has bytes_written so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Puts a message in, as soon as there is room. A writer that is gone means that the session is over, which the
    /// reader reports.
    pub(super) async fn put(&self, kind: Kind, id: u64, payload: Vec<u8>) {
        let bytes = u32::try_from(payload.len().min(MAX_BYTES)).unwrap_or(u32::MAX);
        let Ok(bytes_permit) = self.bytes.clone().acquire_many_owned(bytes).await else { return };
        let Ok(slot) = self.queue.reserve().await else { return };
        // Only now there is a second copy of it.
        let bytes = frame::encode(kind, id, &payload);
        slot.send(Outgoing { bytes, _bytes_permit: Some(bytes_permit) });
    }

    /// Puts a short message in as soon as there is a slot, if it is still wanted then.
    pub(super) async fn put_if_wanted(&self, message: impl FnOnce() -> Option<Vec<u8>>) {
        let Ok(slot) = self.queue.reserve().await else { return };
        if let Some(bytes) = message() {
            slot.send(Outgoing { bytes, _bytes_permit: None });
        }
    }

    /// Puts a short message in without waiting: where there is no slot, a task of its own does it later.
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
