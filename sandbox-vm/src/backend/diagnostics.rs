//! Captures the output that a guest writes outside its channel.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};

use crate::{protocol::escape_controls, sync::lock};

/// Maximum number of bytes that are kept from the end of the output.
const MAX_TAIL: usize = 8 << 10;

/// How long to wait for the last output of a guest that has ended.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the console or the standard error of a guest in the background.
#[derive(Debug)]
pub(super) struct Diagnostics {
    /// Last part of the output, at most [`MAX_TAIL`] bytes. A std mutex suffices, because it is held only briefly and
    /// never across an await.
    tail: Arc<Mutex<Vec<u8>>>,
    reader: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Diagnostics {
    pub(super) fn capture(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let tail = Arc::default();
        let reader = tokio::spawn(read_all(from, Arc::clone(&tail)));
        Self { tail, reader: tokio::sync::Mutex::new(Some(reader)) }
    }

    /// Waits until the guest has closed its output, but no longer than [`END_TIMEOUT`].
    pub(super) async fn wait_for_end(&self) {
        let mut reader = self.reader.lock().await;
        if let Some(task) = reader.as_mut()
            && tokio::time::timeout(END_TIMEOUT, task).await.is_ok()
        {
            *reader = None;
        }
    }

    /// Returns the last part of the output, with control characters escaped.
    pub(super) fn tail(&self) -> String {
        let tail = lock(&self.tail);
        // A console ends its lines with CR LF.
        escape_controls(&String::from_utf8_lossy(&tail).trim().replace("\r\n", "\n"))
    }
}

async fn read_all(mut from: impl AsyncRead + Unpin, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut tail = lock(&tail);
        tail.extend_from_slice(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_TAIL);
        tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::{Diagnostics, MAX_TAIL};

    #[tokio::test]
    async fn control_characters_are_escaped() {
        let diagnostics = Diagnostics::capture(&b"one\r\n\x1b[2Jtwo\xff\r\n"[..]);
        diagnostics.wait_for_end().await;
        assert_eq!(diagnostics.tail(), "one\n\\u{1b}[2Jtwo\u{fffd}");
    }

    #[tokio::test]
    async fn only_the_end_of_long_output_is_kept() {
        let output = [vec![b'x'; MAX_TAIL], b"end\n".to_vec()].concat();
        let diagnostics = Diagnostics::capture(std::io::Cursor::new(output));
        diagnostics.wait_for_end().await;
        let tail = diagnostics.tail();
        assert!(tail.len() == MAX_TAIL - 1 && tail.ends_with("xend"), "{}", tail.len());
    }
}
