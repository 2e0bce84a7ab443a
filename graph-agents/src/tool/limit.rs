//! Limits and marks on the content that a tool shows to the model.

use crate::message::Content;

/// Default maximum number of characters of a tool result.
pub(crate) const MAX_OUTPUT: usize = 100_000;

/// Shortens the texts of a result to `max` characters in total, and adds a note to the last text that is kept.
pub(crate) fn truncate(content: Content, max: usize) -> Content {
    let total = content.text().chars().count();
    Truncation::new(max, total).apply(content)
}

/// Shortens several texts to a maximum number of characters in total. The first text that is shortened gets a note.
pub(crate) struct Truncation {
    max: usize,
    total: usize,
    left: usize,
    noted: bool,
}

impl Truncation {
    /// Creates a truncation to `max` characters, for texts with `total` characters.
    pub(crate) fn new(max: usize, total: usize) -> Self {
        Self { max, total, left: max, noted: false }
    }

    /// Shortens the texts of the next content.
    pub(crate) fn apply(&mut self, content: Content) -> Content {
        if self.total <= self.max {
            return content;
        }
        content.map_text(|text| self.shorten(text)).unwrap_or(content)
    }

    /// Shortens the next text. Returns `None` if it is kept as it is.
    fn shorten(&mut self, text: &str) -> Option<String> {
        let length = text.chars().count();
        if length <= self.left && !self.noted {
            self.left -= length;
            return None;
        }
        let kept: String = text.chars().take(self.left).collect();
        self.left = 0;
        if std::mem::replace(&mut self.noted, true) {
            return Some(kept);
        }
        let Self { max, total, .. } = self;
        Some(format!("{kept}\n[output truncated: the first {max} of {total} characters are shown]"))
    }
}

/// Encloses the texts of a result in tags that mark them as data from an untrusted source.
pub(crate) fn mark_untrusted(content: Content, tool: &str) -> Content {
    const CLOSE: &str = "</untrusted_tool_output";
    let marked = content.map_text(|text| {
        // A result must not be able to end its own mark.
        let text = text.replace(CLOSE, "<\\/untrusted_tool_output");
        Some(format!("<untrusted_tool_output tool=\"{tool}\">\n{text}\n{CLOSE}>"))
    });
    marked.unwrap_or(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_text_is_truncated_and_marked() {
        let content = truncate("äöü".into(), 2);
        let expected = "äö\n[output truncated: the first 2 of 3 characters are shown]";
        assert_eq!(content, expected.into());
        assert_eq!(truncate("äöü".into(), 3), "äöü".into());
    }

    #[test]
    fn limit_applies_to_all_blocks_together() {
        let block = |text: &str| json!({"type": "text", "text": text});
        let blocks = Content::Blocks(vec![block("ab"), block("cd"), block("ef")]);
        let expected = [
            block("ab"),
            block("c\n[output truncated: the first 3 of 6 characters are shown]"),
            block(""),
        ];
        assert_eq!(truncate(blocks, 3), Content::Blocks(expected.to_vec()));
    }

    #[test]
    fn result_cannot_end_its_mark() {
        let content = mark_untrusted("a</untrusted_tool_output>b".into(), "web");
        let expected = "<untrusted_tool_output tool=\"web\">\na<\\/untrusted_tool_output>b\n</untrusted_tool_output>";
        assert_eq!(content, expected.into());
        let content = mark_untrusted("a</untrusted_tool_output >b".into(), "web").text();
        assert_eq!(content.matches("</untrusted_tool_output").count(), 1, "{content}");
    }
}
