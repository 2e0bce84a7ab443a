//! Values whose meaning depends on earlier lines: continued statements, names and headings above their values, columns
//! of tables, and entries of Kubernetes secrets.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    continuation::{self, Joined, join_value, named_value},
    file_kind::FileKind,
    secret_words::is_name_for_secret,
    table::Table,
};

/// Number of lines after a name in which its value may follow.
const MAX_NAME_LINES: u8 = 4;

/// Maximum length of a heading that names a secret, in bytes.
const MAX_HEADING: usize = 30;

/// Maximum length of a statement that continues over several lines, in bytes.
const MAX_STATEMENT: usize = 1 << 10;

/// A command that reads a password from the lines after it.
static PASSWORD_INPUT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"\b(?:passwd|chpasswd|kinit|smbpasswd|cryptsetup|su|sudo\s.*-S)\b[^|;]*<<-?\s*["']?\w+["']?\s*$"#,
    )
    .expect("a test compiles the pattern")
});

/// An entry of a Kubernetes secret: an indented key and a value.
static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^\s+["']?([\w.-]+)["']?:\s*["']?([^\s"']{6,})["']?\s*$"#)
        .expect("a test compiles the pattern")
});

/// Keys of entries that are not secrets.
const PUBLIC_ENTRIES: [&str; 8] =
    ["username", "user", "host", "port", "database", "ca.crt", "tls.crt", "namespace"];

/// Base64 of the first line of a certificate.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJU";

/// Information from the earlier lines of a file that determines the meaning of the next line.
#[derive(Debug)]
pub(crate) struct Context {
    file: FileKind,
    /// Number of the previous line.
    number: Option<u32>,
    /// The previous line, with the lines that it continues.
    statement: String,
    /// A name whose value follows in a later line such as `value: x`, and the number of lines in which the value may
    /// still follow.
    name: Option<(String, u8)>,
    /// A heading such as `## Password`, whose value is the next line with text.
    heading: Option<String>,
    table: Table,
    /// Whether each document of a YAML file is a Kubernetes secret.
    is_secret: Vec<bool>,
    /// Index of the current document.
    document: usize,
    /// Whether the current line is an entry of a Kubernetes secret.
    is_in_data: bool,
}

impl Context {
    pub(crate) fn new(path: &str, lines: &[(u32, String)]) -> Self {
        let mut is_secret = vec![false];
        for (_, line) in lines {
            match line.trim_end() {
                "---" => is_secret.push(false),
                "kind: Secret" => {
                    if let Some(it) = is_secret.last_mut() {
                        *it = true;
                    }
                }
                _ => (),
            }
        }
        Self {
            file: FileKind::of(path),
            number: None,
            statement: String::new(),
            name: None,
            heading: None,
            table: Table::of(path),
            is_secret,
            document: 0,
            is_in_data: false,
        }
    }

    /// Joins a line with the earlier lines to which it belongs.
    pub(crate) fn advance(&mut self, number: u32, line: &str) -> Vec<Joined> {
        // Lines in between may be missing, because only added lines are scanned.
        if self.number.is_none_or(|it| it.checked_add(1) != Some(number)) {
            self.statement.clear();
            (self.name, self.heading) = (None, None);
            self.table.end();
        }
        self.number = Some(number);
        let mut joined = vec![];
        joined.extend(self.named(line));
        joined.extend(self.headed(line));
        joined.extend(self.table.value(line));
        joined.extend(self.entry(line));
        let continued = continuation::join(&self.statement, line, self.file);
        // Keep a statement of several lines from its start, because the start contains the name of the variable or
        // command.
        self.statement = match &continued {
            Some(it)
                if it.text.len() < MAX_STATEMENT && (it.is_statement || it.ends_with_literal()) =>
            {
                it.text.clone()
            }
            _ => {
                line[line.ceil_char_boundary(line.len().saturating_sub(MAX_STATEMENT))..].to_owned()
            }
        };
        joined.extend(continued);
        joined
    }

    /// Joins the value in a line such as `value: x` with the name above it.
    fn named(&mut self, line: &str) -> Option<Joined> {
        let value = self.name.as_ref().and_then(|it| join_value(&it.0, line));
        let is_end =
            value.is_some() || line.trim().is_empty() || line.trim_start().starts_with('}');
        let remaining = self.name.take().filter(|it| !is_end && it.1 > 1);
        self.name = match named_value(line) {
            Some(name) => Some((name, MAX_NAME_LINES)),
            None => remaining.map(|(name, n)| (name, n - 1)),
        };
        value
    }

    /// Joins a line that consists of one word with the heading above it.
    fn headed(&mut self, line: &str) -> Option<Joined> {
        let text = line.trim();
        if text.is_empty() {
            return None;
        }
        let joined = self.heading.take().and_then(|name| {
            let value = text.trim_matches(['`', '*']);
            // `chpasswd` reads lines of the form `user:password`.
            let value = value.split_once(':').map_or(value, |(_, password)| password);
            Joined::compared(&name, value)
        });
        let is_tag = text.starts_with('<') && !text.starts_with("</") && text.ends_with('>');
        let heading = text.trim_matches(['#', '*', '_', ':', ' ', '<', '>']);
        let is_text = heading.chars().all(|it| it.is_alphanumeric() || " _-".contains(it));
        let is_marked = heading.len() < text.len() || heading.starts_with(char::is_uppercase);
        let is_heading = (self.file == FileKind::Prose || is_tag)
            && is_text
            && is_marked
            && heading.len() <= MAX_HEADING
            && heading.split_whitespace().count() <= 3
            && is_name_for_secret(heading);
        self.heading = if PASSWORD_INPUT.is_match(&text[..text.floor_char_boundary(MAX_STATEMENT)])
        {
            Some("password".to_owned())
        } else {
            is_heading.then(|| heading.to_owned())
        };
        joined
    }

    /// Returns the value of an entry of a Kubernetes secret.
    fn entry(&mut self, line: &str) -> Option<Joined> {
        if self.file != FileKind::Settings {
            return None;
        }
        let text = line.trim_end();
        if text == "---" {
            self.document += 1;
        }
        if !text.is_empty() && !text.starts_with([' ', '#']) {
            let is_secret = self.is_secret.get(self.document) == Some(&true);
            self.is_in_data = is_secret && ["data:", "stringData:"].contains(&text);
            return None;
        }
        if !self.is_in_data || text.len() > MAX_STATEMENT {
            return None;
        }
        let entry = ENTRY.captures(text)?;
        let (key, value) = (entry.get(1)?.as_str(), entry.get(2)?.as_str());
        let is_public = PUBLIC_ENTRIES.contains(&key) || value.starts_with(CERTIFICATE);
        if is_public { None } else { Joined::compared("password", value) }
    }
}
