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
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the console or the standard error of a guest in the background.
#[derive(Debug)]
pub(super) struct Diagnostics {
    // A std mutex suffices, because it is held only briefly and never across an await.
    captured: Arc<Mutex<Captured>>,
    reader: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Captured {
    /// Last part of the output, at most [`MAX_TAIL`] bytes.
    tail: Vec<u8>,
    /// Number of bytes at the start of `tail` that [`Diagnostics::new_lines`] has already returned.
    reported: usize,
}

impl Diagnostics {
    pub(super) fn capture(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let captured = Arc::default();
        let reader = tokio::spawn(read_all(from, Arc::clone(&captured)));
        Self { captured, reader: tokio::sync::Mutex::new(Some(reader)) }
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
        let captured = lock(&self.captured);
        // A console ends its lines with CR LF.
        escape_controls(&String::from_utf8_lossy(&captured.tail).trim().replace("\r\n", "\n"))
    }

    /// Returns the complete lines that were written since the last call.
    pub(super) fn new_lines(&self) -> String {
        let mut captured = lock(&self.captured);
        let end = captured.tail.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let start = std::mem::replace(&mut captured.reported, end);
        String::from_utf8_lossy(captured.tail.get(start..end).unwrap_or_default()).into_owned()
    }
}

async fn read_all(mut from: impl AsyncRead + Unpin, captured: Arc<Mutex<Captured>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut captured = lock(&captured);
        captured.tail.extend_from_slice(&buffer[..count]);
        let surplus = captured.tail.len().saturating_sub(MAX_TAIL);
        captured.tail.drain(..surplus);
        captured.reported = captured.reported.saturating_sub(surplus);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::{Diagnostics, MAX_TAIL};

    #[tokio::test]
    async fn control_characters_are_escaped() {
        let diagnostics = Diagnostics::capture(&b"one\r\n\x1b[2Jtwo\xff\r\n"[..]);
        diagnostics.wait_for_end().await;
        assert_eq!(diagnostics.tail(), "one\n\\u{1b}[2Jtwo\u{fffd}");
    }

    #[tokio::test]
    async fn new_lines_are_complete_and_returned_once() {
        let (mut guest, host) = tokio::io::duplex(1 << 16);
        let diagnostics = Diagnostics::capture(host);
        guest.write_all(b"one\ntw").await.unwrap();
        let captured = async |what: &str| {
            while !diagnostics.tail().ends_with(what) {
                tokio::task::yield_now().await;
            }
        };
        captured("tw").await;
        assert_eq!([diagnostics.new_lines(), diagnostics.new_lines()], ["one\n", ""]);
        guest.write_all(b"o\n").await.unwrap();
        captured("two").await;
        assert_eq!([diagnostics.new_lines(), diagnostics.new_lines()], ["two\n", ""]);
        // Lines that were already returned are not returned again after the beginning of the output is dropped. New
        // lines are returned only if they are still kept.
        guest.write_all(&vec![b'x'; MAX_TAIL - 4]).await.unwrap();
        guest.write_all(b"\nend\n").await.unwrap();
        drop(guest);
        diagnostics.wait_for_end().await;
        let lines = diagnostics.new_lines();
        assert!(lines.len() == MAX_TAIL && lines.ends_with("x\nend\n"), "{}", lines.len());
        assert_eq!(diagnostics.new_lines(), "");
    }
}
