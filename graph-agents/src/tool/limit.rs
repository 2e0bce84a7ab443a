//! Limits and marks on the content that a tool shows to the model.

use crate::message::Content;

/// Default maximum number of characters of a tool result.
pub(super) const MAX_OUTPUT: usize = 100_000;

/// Shortens the texts of a result to `max` characters in total, and adds a note to the last text that is kept.
pub(super) fn truncate(content: Content, max: usize) -> Content {
    let total = content.text().chars().count();
    if total <= max {
        return content;
    }
    let mut left = max;
    let mut marked = false;
    let shortened = content.map_text(|text| {
        let length = text.chars().count();
        if length <= left && !marked {
            left -= length;
            return None;
        }
        let kept: String = text.chars().take(left).collect();
        left = 0;
        if std::mem::replace(&mut marked, true) {
            return Some(kept);
        }
        Some(format!("{kept}\n[output truncated: the first {max} of {total} characters are shown]"))
    });
    shortened.unwrap_or(content)
}

/// Encloses the texts of a result in tags that mark them as data from an untrusted source.
pub(super) fn mark_untrusted(content: Content, tool: &str) -> Content {
    const CLOSE: &str = "</untrusted_tool_output>";
    let marked = content.map_text(|text| {
        // A result must not be able to end its own mark.
        let text = text.replace(CLOSE, "<\\/untrusted_tool_output>");
        Some(format!("<untrusted_tool_output tool=\"{tool}\">\n{text}\n{CLOSE}"))
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
    }
}
