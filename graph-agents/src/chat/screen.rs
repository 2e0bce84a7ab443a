//! The output of a chat. Texts of models and tools are untrusted, so control characters are removed.

use std::{fmt, io};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::{
    message::{Status, ToolCall, ToolMessage},
    notation,
};

/// Maximum number of characters shown of a tool result.
const MAX_RESULT: usize = 400;

/// Writes a chat to a terminal.
pub(super) struct Screen<W> {
    output: W,
    /// Whether the pieces of a message are being printed, so the current line is not complete yet.
    in_message: bool,
}

impl<W: AsyncWrite + Unpin> Screen<W> {
    pub(super) fn new(output: W) -> Self {
        Self { output, in_message: false }
    }

    pub(super) async fn text(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(printable(text).as_bytes()).await?;
        self.output.flush().await
    }

    pub(super) async fn line(&mut self, text: &str) -> io::Result<()> {
        self.text(&format!("{text}\n")).await
    }

    pub(super) async fn error(&mut self, error: &dyn fmt::Display) -> io::Result<()> {
        self.line(&format!("error: {error}")).await
    }

    /// Prints a piece of a message. An empty piece ends the message.
    pub(super) async fn piece(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return self.end_message().await;
        }
        self.in_message = true;
        self.text(text).await
    }

    /// Ends the line of a message.
    pub(super) async fn end_message(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_message) {
            self.line("").await?;
        }
        Ok(())
    }

    /// Prints a tool call.
    pub(super) async fn call(&mut self, call: &ToolCall) -> io::Result<()> {
        self.end_message().await?;
        let args = notation::spaced_json(&serde_json::Value::Object(call.args.clone()));
        self.line(&format!("→ {}({args})", call.name)).await
    }

    /// Prints the result of a tool call, shortened.
    pub(super) async fn result(&mut self, result: &ToolMessage) -> io::Result<()> {
        self.end_message().await?;
        let text = result.content.text();
        let mut shown: String = text.chars().take(MAX_RESULT).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        let failed = if result.status == Status::Error { " failed" } else { "" };
        self.line(&format!("← {}{failed}: {shown}", result.name.as_deref().unwrap_or("tool"))).await
    }
}

/// Removes the characters with which a text could change the terminal or hide a part of itself: control characters
/// except for line breaks and tabs, and characters that change the direction of the text.
fn printable(text: &str) -> String {
    let is_kept = |it: &char| match it {
        '\n' | '\t' => true,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        other => !other.is_control(),
    };
    text.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        let text = "a\u{1b}[2Jb\r\u{7}\u{202e}c\u{9b}\nd\te";
        assert_eq!(printable(text), "a[2Jbc\nd\te");
    }
}
