//! Markdown as models write it, taken apart by its headings.
//!
//! Headings, and not rules like `---`: a rule may stand anywhere, also before the first part, and then the first part
//! is lost.

/// A heading and the text up to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// From 1 to 6; [`LABEL`] for a bold label at the start of a line.
    pub(crate) level: usize,
    pub(crate) title: &'a str,
    pub(crate) body: String,
}

/// The level of a `**Label:**`, deeper than any heading.
pub(crate) const LABEL: usize = 7;

/// Cuts a text at its headings, and at bold labels that `is_label` knows. What stands before the first is left out.
pub(crate) fn sections<'a>(text: &'a str, is_label: impl Fn(&str) -> bool) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            if let Some((level, title)) = heading(line) {
                sections.push(Section { level, title, body: String::new() });
                continue;
            }
            if let Some((title, rest)) = label(line).filter(|(title, _)| is_label(title)) {
                sections.push(Section { level: LABEL, title, body: format!("{rest}\n") });
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

/// The level and the title of a heading.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let fits = (1..=6).contains(&level) && title.starts_with([' ', '\t']);
    fits.then(|| (level, title.trim().trim_matches('*').trim()))
}

/// `**Why now:** because` and `- **Why now**: because`.
fn label(line: &str) -> Option<(&str, &str)> {
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

/// The paragraphs of a text, each in one line.
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

/// The points of a list, each in one line; a text that is no list is one point.
pub(crate) fn points(text: &str) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
        match (bullet(line), points.last_mut()) {
            (Some(point), _) => points.push(point.to_owned()),
            (None, Some(last)) => {
                last.push(' ');
                last.push_str(line);
            }
            (None, None) => points.push(line.to_owned()),
        }
    }
    points.retain(|it| !it.is_empty());
    points
}

fn bullet(line: &str) -> Option<&str> {
    if let Some(rest) = ["- ", "* ", "+ ", "\u{2022} "].iter().find_map(|it| line.strip_prefix(it))
    {
        return Some(rest.trim());
    }
    let rest = line.trim_start_matches(|it: char| it.is_ascii_digit());
    let numbered = rest.len() < line.len();
    let rest = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))?;
    numbered.then(|| rest.trim())
}

/// A text in one line, with single blanks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
