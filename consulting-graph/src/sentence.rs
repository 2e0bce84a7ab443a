//! Sentences, with the citations that belong to them.

/// Cuts a text into sentences. A citation in brackets behind the full stop still belongs to the sentence.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut signs = text.char_indices().peekable();
    while let Some((at, it)) = signs.next() {
        let end = at + it.len_utf8();
        let ends = match it {
            '\n' => true,
            // A point within `4.2` ends nothing.
            '.' | '!' | '?' => signs.peek().is_none_or(|(_, next)| next.is_whitespace()),
            _ => false,
        };
        if !ends || end <= start {
            continue;
        }
        let end = end + citations_behind(&text[end..]);
        while signs.next_if(|(at, _)| *at < end).is_some() {}
        sentences.push(text[start..end].trim());
        start = end;
    }
    sentences.push(text[start..].trim());
    sentences.retain(|it| !it.is_empty());
    sentences
}

/// How many bytes of the text are citations in brackets that nothing but blanks stand before.
fn citations_behind(text: &str) -> usize {
    let mut taken = 0;
    loop {
        let rest = &text[taken..];
        let bracket = rest.trim_start_matches(' ');
        let Some(inner) = bracket.strip_prefix('[') else { return taken };
        let Some(length) = inner.find(']') else { return taken };
        if crate::finding::cited(&inner[..length]).is_empty() {
            return taken;
        }
        taken += rest.len() - bracket.len() + length + 2;
    }
}
