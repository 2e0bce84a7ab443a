//! Splits text into sentences.

/// Splits a text into sentences. A bracketed citation after the full stop belongs to the sentence.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut signs = text.char_indices().peekable();
    while let Some((at, it)) = signs.next() {
        let end = at + it.len_utf8();
        let ends = match it {
            '\n' => true,
            // The point in `4.2` does not end a sentence.
            '.' | '!' | '?' => signs.peek().is_none_or(|(_, next)| next.is_whitespace()),
            _ => false,
        };
        if !ends || end <= start {
            continue;
        }
        let end = end + trailing_citations_len(&text[end..]);
        while signs.next_if(|(at, _)| *at < end).is_some() {}
        sentences.push(text[start..end].trim());
        start = end;
    }
    sentences.push(text[start..].trim());
    sentences.retain(|it| !it.is_empty());
    sentences
}

/// Returns the length in bytes of the bracketed citations at the start of the text, including spaces between them.
fn trailing_citations_len(text: &str) -> usize {
    let mut taken = 0;
    loop {
        let rest = &text[taken..];
        let bracket = rest.trim_start_matches(' ');
        let Some(inner) = bracket.strip_prefix('[') else { return taken };
        let Some(length) = inner.find(']') else { return taken };
        if crate::finding::find_citations(&inner[..length]).is_empty() {
            return taken;
        }
        taken += rest.len() - bracket.len() + length + 2;
    }
}
