//! Text for a terminal: lines of styled spans, cut by the width they have there.

use consulting_graph::fence::visible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a span looks.
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
    /// The parameters of the escape that turns it on.
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

/// A line of styled text.
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

    /// The text at a column, or one blank after what is there already.
    pub(super) fn at(self, column: usize, style: Style, text: impl Into<String>) -> Self {
        let width = self.width();
        let blanks = if width == 0 { column } else { column.saturating_sub(width).max(1) };
        self.push(Style::Plain, " ".repeat(blanks)).push(style, text)
    }

    /// The text at the right edge of so many columns, what stands before it cut where it would be in the way. A text
    /// that takes more than half of the line is left out.
    pub(super) fn right(self, columns: usize, style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        if text.width() * 2 > columns {
            return self;
        }
        let line = self.cut(columns - text.width() - 1);
        let blanks = " ".repeat(columns - text.width() - line.width());
        line.push(Style::Plain, blanks).push(style, text)
    }

    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|it| it.1.width()).sum()
    }

    /// The line in so many columns at most.
    pub(super) fn cut(self, columns: usize) -> Self {
        let mut free = columns;
        let mut kept = Vec::new();
        for (style, text) in self.0 {
            let text = cut(&text, free);
            free -= text.width();
            kept.push((style, text));
        }
        Self(kept)
    }

    /// The line without its styles.
    pub(super) fn plain(&self) -> String {
        let text: String = self.0.iter().map(|it| it.1.as_str()).collect();
        text.trim_end().to_owned()
    }

    /// The line with escapes for its styles.
    pub(super) fn ansi(&self) -> String {
        let span = |(style, text): &(Style, String)| match style {
            Style::Plain => text.clone(),
            style => format!("\x1b[{}m{text}\x1b[0m", style.code()),
        };
        self.0.iter().map(span).collect()
    }
}

/// The text in so many columns at most, with `…` where something is left out.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut width = 0;
    for letter in text.chars() {
        width += letter.width().unwrap_or(0);
        if width >= columns {
            break;
        }
        kept.push(letter);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// The first line that says something, without what steers terminals and without markdown's signs at its start.
pub(crate) fn first_line(text: &str) -> String {
    let text = visible(text).replace('\t', " ");
    let signs = |it: char| it.is_whitespace() || "#*_>-".contains(it);
    let emphasis = |it: char| it.is_whitespace() || "*_".contains(it);
    let lines = text.lines().map(|it| it.trim_start_matches(signs).trim_end_matches(emphasis));
    lines.filter(|it| !it.is_empty()).map(str::to_owned).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::{Line, Style, cut, first_line};

    #[test]
    fn text_is_cut_by_columns_and_not_by_letters() {
        for (text, columns, expected) in [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("日本語の本", 10, "日本語の本"),
            ("日本語の本", 6, "日本…"),
            ("any", 0, ""),
            ("any", 1, "…"),
        ] {
            assert_eq!(cut(text, columns), expected);
            assert!(cut(text, columns).width() <= columns);
        }
    }

    #[test]
    fn a_turn_is_shown_by_its_first_words_and_steers_nothing() {
        assert_eq!(first_line("\n\n## **Too dear**\nAnd late."), "Too dear");
        assert_eq!(first_line("\x1b[2J\u{202e}Look\r\nthere"), "[2JLook");
        assert_eq!(first_line("> Shut <script>a</script>"), "Shut <script>a</script>");
        assert_eq!(first_line("  \n"), "");
    }

    #[test]
    fn a_line_never_exceeds_its_columns() {
        let line = || Line::new().push(Style::Bold, "title").at(10, Style::Plain, "日本語");
        assert_eq!(line().cut(13).plain(), "title     日…");
        assert_eq!(line().cut(40).right(20, Style::Dim, "end").plain(), "title     日本語 end");
        assert_eq!(line().right(16, Style::Dim, "end").plain(), "title     …  end");
        assert_eq!(line().right(16, Style::Dim, "long enough").plain(), "title     日本語");
    }
}
