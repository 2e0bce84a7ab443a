//! Scans added lines for secrets, machine-specific paths and placeholders.
//!
//! The rules are read from `data/rules.toml`. Each rule has keywords, a pattern, and a minimum entropy for the matched
//! value. All keywords are searched in one pass, and the pattern of a rule is compiled when one of the rule's keywords
//! first occurs.

use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;
use serde::Deserialize;

use crate::{
    escape::{escape_invisible, is_invisible},
    finding::{Finding, Severity},
};

/// Comment that requests an exception for a line. It only turns a rejection into an escalation, because workers can
/// write it too.
const ALLOW_COMMENT: &str = "draft-gate:allow";

/// Maximum number of findings per file.
const MAX_FINDINGS: usize = 20;

/// Maximum length, in bytes, of an ordinary line. Longer lines are escalated, and scanned in chunks of this size.
const CHUNK_BYTES: usize = 16 << 10;

/// Overlap of consecutive chunks, in bytes. No key is longer, so every key is completely within at least one chunk.
const CHUNK_OVERLAP: usize = 1 << 10;

/// Scans the lines of a file and returns the findings, most severe first.
///
/// All lines are scanned. An omitted finding is never more severe than the returned ones, so a severe finding cannot be
/// hidden behind many minor ones.
pub fn scan(lines: &[(u32, String)]) -> Vec<Finding> {
    let mut findings = vec![];
    let mut n_omitted = 0;
    for (number, line) in lines {
        findings.extend(scan_line(line).into_iter().map(|it| it.at_line(*number)));
        if findings.len() > 2 * MAX_FINDINGS {
            n_omitted += keep_most_severe(&mut findings);
        }
    }
    n_omitted += keep_most_severe(&mut findings);
    if n_omitted > 0 {
        let (noun, verb) = if n_omitted == 1 { ("finding", "is") } else { ("findings", "are") };
        let text = format!(
            "{n_omitted} more {noun} {verb} omitted; none is more severe than those listed"
        );
        findings.push(Finding::new("left-out", Severity::Note, text));
    }
    findings
}

/// Returns whether a text contains something that looks like a secret. Used for text that is shown to people or stored
/// in messages.
pub(crate) fn contains_secret(text: &str) -> bool {
    let is_secret =
        |part| RULES.of(part).any(|rule| rule.kind == Kind::Secret && rule.search(part).is_some());
    text.lines().flat_map(parts).any(is_secret)
}

/// Truncates the list to the most severe findings, and returns the number of omitted findings.
fn keep_most_severe(findings: &mut Vec<Finding>) -> usize {
    let n_omitted = findings.len().saturating_sub(MAX_FINDINGS);
    findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
    findings.truncate(MAX_FINDINGS);
    n_omitted
}

fn scan_line(line: &str) -> Vec<Finding> {
    let mut findings = vec![];
    if line.trim_end_matches('\r').chars().any(is_invisible) {
        let text = "the line has control, invisible or bidirectional formatting characters";
        findings.push(Finding::new("hidden-characters", Severity::Escalate, text));
    }
    if line.len() > CHUNK_BYTES {
        let text = "the line is too long to review";
        findings.push(Finding::new("long-line", Severity::Escalate, text));
    }
    let mut hits: Vec<(&Rule, &str)> = vec![];
    for part in parts(line) {
        for rule in RULES.of(part) {
            if hits.iter().all(|it| it.0.id != rule.id) {
                hits.extend(rule.search(part).map(|found| (rule, found)));
            }
        }
    }
    let is_allowed = line.contains(ALLOW_COMMENT);
    // If any rule finds a secret, quote nothing, because the text that one rule quotes may contain another rule's
    // secret.
    let is_secret = hits.iter().any(|it| it.0.kind == Kind::Secret);
    for (rule, found) in hits {
        let severity = rule.severity.unwrap_or(rule.kind.severity());
        let severity = if is_allowed { severity.min(Severity::Escalate) } else { severity };
        let request = if is_allowed { "; the line requests an exception" } else { "" };
        let quote = if is_secret { String::new() } else { quoted(found) };
        let text = format!("{}: {}{quote}{request}", rule.kind.describe(), rule.what);
        findings.push(Finding::new(&rule.id, severity, text));
    }
    findings
}

/// Splits a line into overlapping chunks, so that a match that crosses a chunk boundary is found.
fn parts(line: &str) -> impl Iterator<Item = &str> {
    let starts = (0..line.len()).step_by(CHUNK_BYTES - CHUNK_OVERLAP);
    starts.map(move |start| {
        let end = line.floor_char_boundary(start + CHUNK_BYTES);
        &line[line.floor_char_boundary(start)..end]
    })
}

fn quoted(found: &str) -> String {
    let start: String = found.trim().chars().take(60).collect();
    format!(" (`{}`)", escape_invisible(&start))
}

/// The rules, with an index of their keywords.
#[derive(Debug)]
struct Rules {
    rules: Vec<Rule>,
    words: AhoCorasick,
    /// For each keyword, the index of the rule that it belongs to.
    owners: Vec<usize>,
    /// Substrings, in lower case, that identify a value as a placeholder.
    stands_in: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    id: String,
    kind: Kind,
    /// Severity of the rule, if it differs from that of its kind.
    #[serde(rename = "weight")]
    severity: Option<Severity>,
    /// Description of what was found.
    what: String,
    words: Vec<String>,
    /// Regular expression. The value whose entropy is measured is its last matching group or, if no group matches, the
    /// whole match.
    pattern: String,
    /// Minimum Shannon entropy of the value, in bits per byte.
    #[serde(default)]
    entropy: f64,
    /// Whether placeholder values are ignored.
    #[serde(default)]
    stands_in_allowed: bool,
    #[serde(skip)]
    compiled: OnceLock<Regex>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Secret,
    Path,
    Placeholder,
    Stub,
}

impl Kind {
    fn severity(self) -> Severity {
        match self {
            Self::Secret | Self::Path | Self::Placeholder => Severity::Reject,
            Self::Stub => Severity::Escalate,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Secret => "looks like a secret",
            Self::Path => "hard-coded path",
            Self::Placeholder => "placeholder instead of content",
            Self::Stub => "unfinished",
        }
    }
}

static RULES: LazyLock<Rules> = LazyLock::new(Rules::load);

impl Rules {
    fn load() -> Self {
        #[derive(Deserialize)]
        struct File {
            stands_in: Vec<String>,
            rule: Vec<Rule>,
        }
        let File { stands_in, rule: rules } =
            toml::from_str(include_str!("../data/rules.toml")).expect("a test parses the rules");
        let (mut words, mut owners) = (vec![], vec![]);
        for (at, rule) in rules.iter().enumerate() {
            words.extend(rule.words.iter());
            owners.extend(rule.words.iter().map(|_| at));
        }
        let words = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(words);
        Self { words: words.expect("a test parses the rules"), owners, stands_in, rules }
    }

    /// Returns whether a value is a placeholder for a secret.
    fn is_placeholder_value(&self, found: &str) -> bool {
        let found = found.to_lowercase();
        self.stands_in.iter().any(|it| found.contains(it))
    }

    /// Returns the rules that have at least one keyword in the line, in the order of the rules file.
    fn of(&self, line: &str) -> impl Iterator<Item = &Rule> {
        let mut found: Vec<usize> = self
            .words
            .find_overlapping_iter(line)
            .map(|it| self.owners[it.pattern().as_usize()])
            .collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|it| &self.rules[it])
    }
}

impl Rule {
    /// Returns the value that the rule matches in a line, if any.
    fn search<'a>(&self, line: &'a str) -> Option<&'a str> {
        let pattern = self
            .compiled
            .get_or_init(|| Regex::new(&self.pattern).expect("a test compiles all patterns"));
        pattern.captures_iter(line).find_map(|captures| {
            let group = captures.iter().skip(1).flatten().last().or_else(|| captures.get(0))?;
            let found = group.as_str();
            let is_placeholder_value = self.stands_in_allowed && RULES.is_placeholder_value(found);
            (entropy(found) >= self.entropy && !is_placeholder_value).then_some(found)
        })
    }
}

/// Returns the Shannon entropy of a text in bits per byte, computed from the frequencies of its bytes.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = f64::from(u32::try_from(text.len().max(1)).unwrap_or(u32::MAX));
    let shares = counts.iter().filter(|it| **it > 0).map(|it| f64::from(*it) / length);
    -shares.map(|it| it * it.log2()).sum::<f64>()
}
