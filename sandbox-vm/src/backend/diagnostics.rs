//! What a guest says outside its channel.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};

use crate::protocol::escape_controls;

/// How much of it is kept: the end.
const MAX_TAIL: usize = 8 << 10;

/// How long the last words of a guest that has ended are waited for.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Hears what a guest says on its console, or on its standard error.
#[derive(Debug)]
pub(super) struct Diagnostics {
    // A std mutex: held for a moment, never over an await.
    captured: Arc<Mutex<Captured>>,
    reader: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Captured {
    /// The end of all that was said.
    tail: Vec<u8>,
    /// How much of that was asked for already, line by line.
    reported: usize,
}

impl Diagnostics {
    pub(super) fn capture(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let captured = Arc::default();
        let reader = tokio::spawn(read_all(from, Arc::clone(&captured)));
        Self { captured, reader: tokio::sync::Mutex::new(Some(reader)) }
    }

    /// Waits until a guest that ends has said all it had to say.
    pub(super) async fn wait_for_end(&self) {
        let mut reader = self.reader.lock().await;
        if let Some(task) = reader.as_mut()
            && tokio::time::timeout(END_TIMEOUT, task).await.is_ok()
        {
            *reader = None;
        }
    }

    /// The last of it.
    pub(super) fn tail(&self) -> String {
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        // A console ends its lines with both characters.
        escape_controls(&String::from_utf8_lossy(&captured.tail).trim().replace("\r\n", "\n"))
    }

    /// The whole lines that were said since this was last asked.
    pub(super) fn new_lines(&self) -> String {
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let end = captured.tail.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let start = std::mem::replace(&mut captured.reported, end);
        String::from_utf8_lossy(captured.tail.get(start..end).unwrap_or_default()).into_owned()
    }
}

async fn read_all(mut from: impl AsyncRead + Unpin, captured: Arc<Mutex<Captured>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
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
    async fn last_words_do_nothing_to_a_terminal() {
        let diagnostics = Diagnostics::capture(&b"one\r\n\x1b[2Jtwo\xff\r\n"[..]);
        diagnostics.wait_for_end().await;
        assert_eq!(diagnostics.tail(), "one\n\\u{1b}[2Jtwo\u{fffd}");
    }

    #[tokio::test]
    async fn news_are_whole_lines_and_told_once() {
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
        // What was told stays told though the beginning is forgotten, and what was not is told as far as it is kept.
        guest.write_all(&vec![b'x'; MAX_TAIL - 4]).await.unwrap();
        guest.write_all(b"\nend\n").await.unwrap();
        drop(guest);
        diagnostics.wait_for_end().await;
        let lines = diagnostics.new_lines();
        assert!(lines.len() == MAX_TAIL && lines.ends_with("x\nend\n"), "{}", lines.len());
        assert_eq!(diagnostics.new_lines(), "");
    }
}
