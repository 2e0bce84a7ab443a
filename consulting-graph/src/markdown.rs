//! Parses Markdown written by models into sections.
//!
//! Sections start at headings. Horizontal rules such as `---` do not separate sections, because models put rules
//! anywhere. For example, a rule before the first section must not cause that section to be lost.

use app_support::terminal::strip_invisible;

/// A heading with the text up to the next heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// Heading level 1 to 6, or [`LABEL_LEVEL`] for a bold label at the start of a line.
    pub(crate) level: usize,
    pub(crate) title: &'a str,
    pub(crate) body: String,
}

/// Level of a bold label such as `**Why now:**`; deeper than any heading.
pub(crate) const LABEL_LEVEL: usize = 7;

/// Splits a text at its headings and at the bold labels that `is_label` accepts. Text before the first of them is
/// dropped.
pub(crate) fn sections<'a>(text: &'a str, is_label: impl Fn(&str) -> bool) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            if let Some((level, title)) = parse_heading(line) {
                sections.push(Section { level, title, body: String::new() });
                continue;
            }
            if let Some((title, rest)) = parse_label(line).filter(|(title, _)| is_label(title)) {
                sections.push(Section { level: LABEL_LEVEL, title, body: format!("{rest}\n") });
                continue;
            }
        }
        if let Some(section) = sections.last_mut() {
            section.body.push_str(line);
            section.body.push('\n');
        }
    }
    sections
}

/// Escapes HTML, links and images in a document that a model wrote, so that a viewer shows them as text. First removes
/// invisible characters, because `<` and `img` with such a character in between become a tag if it is removed later.
pub(crate) fn escape_markup(text: &str) -> String {
    escape_tags(&escape_links(&strip_invisible(text)))
}

/// Escapes HTML tags and comments.
fn escape_tags(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(it) = signs.next() {
        let starts_tag = |next: &char| next.is_ascii_alphabetic() || "/!?".contains(*next);
        // Not `\<`: if the text has a backslash before the tag, that backslash would escape the inserted one, and the
        // tag would remain.
        if it == '<' && signs.peek().is_some_and(starts_tag) {
            escaped.push_str("&lt;");
        } else {
            escaped.push(it);
        }
    }
    escaped
}

/// Escapes links, images and definitions of links. An image would tell its server who reads the text, and a link can
/// run a script.
fn escape_links(text: &str) -> String {
    text.replace("](", "]&#40;").replace("]:", "]&#58;")
}

/// Escapes everything at the start of a line or of a list item that Markdown would interpret as a heading, a quote, a
/// rule, a table, a code block or the label of a turn, so that a text cannot imitate the structure of the document that
/// contains it. First removes invisible characters, which may precede such a start or separate lines.
pub(crate) fn escape_line_starts(text: &str) -> String {
    let escape = |line: &str| {
        let mut start = line.trim_start();
        while !is_structure(start)
            && let Some(item) = strip_bullet(start)
        {
            start = item;
        }
        if !is_structure(start) {
            return line.to_owned();
        }
        let (before, start) = line.split_at(line.len() - start.len());
        format!("{before}\\{start}")
    };
    strip_invisible(text).split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

/// Returns whether a line that starts with this text is part of the structure of a document.
fn is_structure(start: &str) -> bool {
    let consists_of =
        |signs: &str| start.chars().all(|it| signs.contains(it) || it.is_whitespace());
    // Horizontal rules, underlines of headings, and delimiter rows of tables.
    let is_rule = !start.is_empty() && ["-:|", "=", "*", "_"].into_iter().any(consists_of);
    let bold = start.trim_start_matches(['*', '_']);
    let is_label = start.len() >= bold.len() + 2 && bold.starts_with('[');
    is_rule
        || is_label
        || start.starts_with(['#', '>', '|'])
        || ["```", "~~~"].iter().any(|it| start.starts_with(it))
}

/// Returns the level and the title of a heading, or `None` if the line is not a heading.
pub(crate) fn parse_heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let fits = (1..=6).contains(&level) && title.starts_with([' ', '\t']);
    fits.then(|| (level, title.trim().trim_matches('*').trim()))
}

/// Splits a line such as `**Why now:** because` or `- **Why now**: because` into the label and the text.
fn parse_label(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start().trim_start_matches(['-', '*', ' ']);
    let bold_end = line.find("**");
    let (title, rest) = match bold_end {
        Some(end) => (&line[..end], line[end + 2..].trim_start()),
        None => return None,
    };
    let (title, rest) = match title.strip_suffix(':') {
        Some(title) => (title, rest),
        None => (title, rest.strip_prefix(':')?),
    };
    Some((title.trim(), rest.trim()))
}

/// Returns the paragraphs of a text, each on one line.
pub(crate) fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in text.lines().map(str::trim) {
        match paragraphs.last_mut() {
            Some(last) if !line.is_empty() => {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(line);
            }
            _ => paragraphs.push(String::new()),
        }
    }
    paragraphs.retain(|it| !it.is_empty());
    paragraphs
}

/// Returns the items of a list, each on one line. A text that is not a list becomes a single item.
pub(crate) fn list_items(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
        match (strip_bullet(line), items.last_mut()) {
            (Some(point), _) => items.push(point.to_owned()),
            (None, Some(last)) => {
                last.push(' ');
                last.push_str(line);
            }
            (None, None) => items.push(line.to_owned()),
        }
    }
    items.retain(|it| !it.is_empty());
    items
}

/// Returns a list item without its bullet or number, or `None` if the line does not start a list item.
fn strip_bullet(line: &str) -> Option<&str> {
    let after_number = line.trim_start_matches(|it: char| it.is_ascii_digit());
    let is_numbered = after_number.len() < line.len();
    let rest = if is_numbered {
        after_number.strip_prefix(['.', ')'])
    } else {
        line.strip_prefix(['-', '*', '+', '\u{2022}'])
    };
    rest?.strip_prefix([' ', '\t']).map(str::trim_start)
}

/// Converts a text to one line, with single spaces between the words.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
