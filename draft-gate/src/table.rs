//! Columns of tables whose heading indicates a secret, in Markdown and in files of separated values.

use crate::{continuation::Joined, secret_words::is_name_for_secret};

/// Maximum length of a row that is examined, in bytes.
const MAX_ROW: usize = 4 << 10;

/// The table that a file is in.
#[derive(Debug)]
pub(crate) struct Table {
    /// Characters that separate the cells of a file of separated values.
    separators: &'static [char],
    column: Option<Column>,
}

/// A column of secrets.
#[derive(Debug)]
struct Column {
    separator: char,
    index: usize,
    name: String,
}

impl Table {
    pub(crate) fn of(path: &str) -> Self {
        let path = path.to_lowercase();
        let separators: &[char] = match path.rsplit_once('.') {
            Some((_, "csv")) => &[',', ';', '\t'],
            Some((_, "tsv")) => &['\t'],
            _ => &[],
        };
        Self { separators, column: None }
    }

    /// Ends the table. Called if lines before the next line are missing, because only added lines are scanned.
    pub(crate) fn end(&mut self) {
        self.column = None;
    }

    /// Returns the value of a row in the column of secrets. Finds the column if the row is a heading.
    pub(crate) fn value(&mut self, line: &str) -> Option<Joined> {
        let line = &line[..line.floor_char_boundary(MAX_ROW)];
        let is_row = line.trim_start().starts_with('|') || !self.separators.is_empty();
        if !is_row {
            self.column = None;
            return None;
        }
        let Some(column) = &self.column else {
            self.column = self.find_column(line);
            return None;
        };
        let cell = line.split(column.separator).nth(column.index)?;
        Joined::compared(&column.name, cell_text(cell))
    }

    fn find_column(&self, line: &str) -> Option<Column> {
        let separator = match line.trim_start().starts_with('|') {
            true => '|',
            false => *self.separators.iter().find(|it| line.contains(**it))?,
        };
        let cells = line.split(separator).map(cell_text);
        let is_secret = |it: &str| it.len() <= 40 && is_name_for_secret(it);
        let (index, name) = cells.enumerate().find(|it| is_secret(it.1))?;
        Some(Column { separator, index, name: name.to_owned() })
    }
}

/// Returns the text of a cell without blanks, quotes and emphasis around it.
fn cell_text(cell: &str) -> &str {
    cell.trim_matches([' ', '`', '*', '"', '\'', '\r'])
}

#[cfg(test)]
mod tests {
    use super::Table;

    fn values(path: &str, lines: &[&str]) -> Vec<String> {
        let mut table = Table::of(path);
        lines.iter().filter_map(|it| table.value(it)).map(|it| it.text).collect()
    }

    #[test]
    fn cells_below_a_heading_for_secrets_are_values() {
        let rows = ["| User | Password |", "|---|---|", "| a | `x1` |", "text", "| b | x2 |"];
        assert_eq!(values("a.md", &rows), ["Password == \"---\"", "Password == \"x1\""]);
        let rows = ["user;api_key;mail", "a;x1;b", "c"];
        assert_eq!(values("a.csv", &rows), ["api_key == \"x1\""]);
        assert!(values("a.py", &["user,password", "a,x1"]).is_empty());
        assert!(values("a.md", &["| User | Name |", "| a | x1 |"]).is_empty());
    }
}
