//! What a guest says outside its channel.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
};

use crate::protocol::harmless;

/// How much of it is kept: the end.
const MAX_WORDS: usize = 8 << 10;

/// How long the last words of a guest that has ended are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hears what a guest says on its console, or on its standard error.
#[derive(Debug)]
pub(super) struct Words {
    // A std mutex: held for a moment, never over an await.
    heard: Arc<Mutex<Heard>>,
    listener: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Heard {
    /// The end of all that was said.
    last: Vec<u8>,
    /// How much of that was asked for already, line by line.
    asked: usize,
}

impl Words {
    pub(super) fn of(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let heard = Arc::default();
        let listener = tokio::spawn(listen(from, Arc::clone(&heard)));
        Self { heard, listener: tokio::sync::Mutex::new(Some(listener)) }
    }

    /// Waits until a guest that ends has said all it had to say.
    pub(super) async fn wait(&self) {
        let mut listener = self.listener.lock().await;
        if let Some(listening) = listener.as_mut()
            && tokio::time::timeout(PATIENCE, listening).await.is_ok()
        {
            *listener = None;
        }
    }

    /// The last of it.
    pub(super) fn last(&self) -> String {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        // A console ends its lines with both characters.
        harmless(&String::from_utf8_lossy(&heard.last).trim().replace("\r\n", "\n"))
    }

    /// The whole lines that were said since this was last asked.
    pub(super) fn news(&self) -> String {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let end = heard.last.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let start = std::mem::replace(&mut heard.asked, end);
        String::from_utf8_lossy(heard.last.get(start..end).unwrap_or_default()).into_owned()
    }
}

async fn listen(mut from: impl AsyncRead + Unpin, heard: Arc<Mutex<Heard>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.last.extend_from_slice(&buffer[..count]);
        let surplus = heard.last.len().saturating_sub(MAX_WORDS);
        heard.last.drain(..surplus);
        heard.asked = heard.asked.saturating_sub(surplus);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::{MAX_WORDS, Words};

    #[tokio::test]
    async fn last_words_do_nothing_to_a_terminal() {
        let words = Words::of(&b"one\r\n\x1b[2Jtwo\xff\r\n"[..]);
        words.wait().await;
        assert_eq!(words.last(), "one\n\\u{1b}[2Jtwo\u{fffd}");
    }

    #[tokio::test]
    async fn news_are_whole_lines_and_told_once() {
        let (mut guest, host) = tokio::io::duplex(1 << 16);
        let words = Words::of(host);
        guest.write_all(b"one\ntw").await.unwrap();
        let heard = async |what: &str| {
            while !words.last().ends_with(what) {
                tokio::task::yield_now().await;
            }
        };
        heard("tw").await;
        assert_eq!([words.news(), words.news()], ["one\n", ""]);
        guest.write_all(b"o\n").await.unwrap();
        heard("two").await;
        assert_eq!([words.news(), words.news()], ["two\n", ""]);
        // What was told stays told though the beginning is forgotten, and what was not is told as far as it is kept.
        guest.write_all(&vec![b'x'; MAX_WORDS - 4]).await.unwrap();
        guest.write_all(b"\nend\n").await.unwrap();
        drop(guest);
        words.wait().await;
        let news = words.news();
        assert!(news.len() == MAX_WORDS && news.ends_with("x\nend\n"), "{}", news.len());
        assert_eq!(words.news(), "");
    }
}
