//! Styled text for a terminal, measured in columns.

use app_support::terminal::strip_invisible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Busy,
    Bad,
}

impl Style {
    /// Returns the parameters of the ANSI escape sequence for the style.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Busy => "36",
            Self::Bad => "1;31",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn push(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// Appends text at a column, or after one space if the line already extends beyond the column.
    pub(super) fn at(self, column: usize, style: Style, text: impl Into<String>) -> Self {
        let width = self.width();
        let blanks = if width == 0 { column } else { column.saturating_sub(width).max(1) };
        self.push(Style::Plain, " ".repeat(blanks)).push(style, text)
    }

    /// Places text at the right edge. Truncates the line if it would overlap the text. If the text needs more than half
    /// of the width, it is omitted.
    pub(super) fn right(self, columns: usize, style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        if text.width() * 2 > columns {
            return self;
        }
        let line = self.truncate(columns - text.width() - 1);
        let blanks = " ".repeat(columns - text.width() - line.width());
        line.push(Style::Plain, blanks).push(style, text)
    }

    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|it| it.1.width()).sum()
    }

    pub(super) fn truncate(self, columns: usize) -> Self {
        let mut free = columns;
        let mut result = Vec::new();
        for (style, text) in self.0 {
            let text = truncate(&text, free);
            free -= text.width();
            result.push((style, text));
        }
        Self(result)
    }

    /// Returns the line without styles.
    pub(super) fn plain(&self) -> String {
        let text: String = self.0.iter().map(|it| it.1.as_str()).collect();
        text.trim_end().to_owned()
    }

    /// Returns the line with ANSI escape sequences.
    pub(super) fn ansi(&self) -> String {
        let span = |(style, text): &(Style, String)| match style {
            Style::Plain => text.clone(),
            style => format!("\x1b[{}m{text}\x1b[0m", style.code()),
        };
        self.0.iter().map(span).collect()
    }
}

/// Truncates text to a number of columns, with `…` at the end.
pub(crate) fn truncate(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut result = String::new();
    let mut width = 0;
    for character in text.chars() {
        width += character.width().unwrap_or(0);
        if width >= columns {
            break;
        }
        result.push(character);
    }
    if columns > 0 {
        result.push('…');
    }
    result
}

/// Splits text at spaces into lines of at most this many columns. A longer word gets a separate line.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the first line that is not empty, without control characters and leading Markdown markup.
pub(crate) fn first_line(text: &str) -> String {
    let text = strip_invisible(text).replace('\t', " ");
    let is_markup = |it: char| it.is_whitespace() || "#*_>-".contains(it);
    let is_trailing_markup = |it: char| it.is_whitespace() || "*_".contains(it);
    let lines = text
        .lines()
        .map(|it| it.trim_start_matches(is_markup).trim_end_matches(is_trailing_markup));
    lines.filter(|it| !it.is_empty()).map(str::to_owned).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::{Line, Style, first_line, truncate, wrap};

    #[test]
    fn text_is_truncated_by_columns_not_characters() {
        for (text, columns, expected) in [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("日本語の本", 10, "日本語の本"),
            ("日本語の本", 6, "日本…"),
            ("any", 0, ""),
            ("any", 1, "…"),
        ] {
            assert_eq!(truncate(text, columns), expected);
            assert!(truncate(text, columns).width() <= columns);
        }
    }

    #[test]
    fn lines_are_wrapped_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one incomprehensible word", 7), ["one", "incomprehensible", "word"]);
    }

    #[test]
    fn first_lines_contain_no_markup_or_control_characters() {
        assert_eq!(first_line("\n\n## **Too dear**\nAnd late."), "Too dear");
        assert_eq!(first_line("\x1b[2J\u{202e}Look\r\nthere"), "[2JLook");
        assert_eq!(first_line("> Shut <script>a</script>"), "Shut <script>a</script>");
        assert_eq!(first_line("  \n"), "");
    }

    #[test]
    fn lines_never_exceed_their_columns() {
        let line = || Line::new().push(Style::Bold, "title").at(10, Style::Plain, "日本語");
        assert_eq!(line().truncate(13).plain(), "title     日…");
        assert_eq!(
            line().truncate(40).right(20, Style::Dim, "end").plain(),
            "title     日本語 end"
        );
        assert_eq!(line().right(16, Style::Dim, "end").plain(), "title     …  end");
        assert_eq!(line().right(16, Style::Dim, "long enough").plain(), "title     日本語");
    }
}
