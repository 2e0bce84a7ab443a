//! Looks for secrets, paths of one machine and placeholders in lines that are new.
//!
//! The rules are data (`data/rules.toml`): words that have to be there, a pattern, and how random what the pattern
//! found has to look. All words are looked for at once; a pattern is compiled when one of its words is first seen.

use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;
use serde::Deserialize;

use crate::{
    finding::{Finding, Weight},
    path::is_hidden,
};

/// A comment that asks to let a line through. It turns a rejection into a question: a worker could write it too.
const ALLOW: &str = "draft-gate:allow";

/// More findings of a file say nothing new.
const MOST_FINDINGS: usize = 20;

/// Longer lines are searched up to here alone, and a person is told.
const LONGEST_LINE: usize = 16 << 10;

/// What is wrong with lines of a file.
#[must_use]
pub fn scan(lines: &[(u32, String)]) -> Vec<Finding> {
    let mut findings = vec![];
    for (number, line) in lines {
        findings.extend(scan_line(line).into_iter().map(|it| it.at_line(*number)));
        if findings.len() > MOST_FINDINGS {
            findings.truncate(MOST_FINDINGS);
            break;
        }
    }
    findings
}

fn scan_line(line: &str) -> Vec<Finding> {
    let mut findings = vec![];
    if line.trim_end_matches('\r').chars().any(|it| it != '\t' && is_hidden(it) && !is_ellipsis(it))
    {
        let text =
            "the line has control characters, or ones that show as nothing or turn text around";
        findings.push(Finding::new("hidden-characters", Weight::Escalate, text));
    }
    let part = &line[..line.floor_char_boundary(LONGEST_LINE)];
    if part.len() < line.len() {
        findings.push(Finding::new(
            "long-line",
            Weight::Escalate,
            "the line is too long to be searched",
        ));
    }
    let is_allowed = part.contains(ALLOW);
    for rule in RULES.of(part) {
        if let Some(shown) = rule.search(part) {
            let weight = if is_allowed {
                rule.kind.weight().min(Weight::Escalate)
            } else {
                rule.kind.weight()
            };
            let asks = if is_allowed { "; the line asks to be let through" } else { "" };
            let text = format!("{}: {}{shown}{asks}", rule.kind.describe(), rule.what);
            findings.push(Finding::new(&rule.id, weight, text));
        }
    }
    findings
}

fn is_ellipsis(char: char) -> bool {
    matches!(char, '\u{2024}'..='\u{2026}' | '\u{2044}' | '\u{2215}' | '\u{ff0e}' | '\u{ff0f}')
}

/// The rules, and where their words lead.
#[derive(Debug)]
struct Rules {
    rules: Vec<Rule>,
    words: AhoCorasick,
    /// Which rule each word belongs to.
    owners: Vec<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    id: String,
    kind: Kind,
    /// What is found, for people.
    what: String,
    words: Vec<String>,
    /// Its last group is what is looked at for randomness.
    pattern: String,
    /// Bits for each character that are needed.
    #[serde(default)]
    entropy: f64,
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
    fn weight(self) -> Weight {
        match self {
            Self::Secret | Self::Path | Self::Placeholder => Weight::Reject,
            Self::Stub => Weight::Escalate,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Secret => "looks like a secret",
            Self::Path => "hard-coded path",
            Self::Placeholder => "placeholder in place of content",
            Self::Stub => "unfinished",
        }
    }
}

static RULES: LazyLock<Rules> = LazyLock::new(Rules::load);

impl Rules {
    fn load() -> Self {
        #[derive(Deserialize)]
        struct File {
            rule: Vec<Rule>,
        }
        let File { rule: rules } =
            toml::from_str(include_str!("../data/rules.toml")).expect("a test reads the rules");
        let (mut words, mut owners) = (vec![], vec![]);
        for (at, rule) in rules.iter().enumerate() {
            words.extend(rule.words.iter());
            owners.extend(rule.words.iter().map(|_| at));
        }
        let words = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(words);
        Self { words: words.expect("a test reads the rules"), owners, rules }
    }

    /// The rules whose words are in a line, in the order of the file.
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
    /// What the pattern found, as far as it may be shown.
    fn search(&self, line: &str) -> Option<String> {
        let pattern = self
            .compiled
            .get_or_init(|| Regex::new(&self.pattern).expect("a test compiles all patterns"));
        pattern.captures_iter(line).find_map(|captures| {
            let group = captures.iter().skip(1).flatten().last().or_else(|| captures.get(0))?;
            let found = group.as_str();
            (entropy(found) >= self.entropy).then(|| self.shown(found))
        })
    }

    fn shown(&self, found: &str) -> String {
        match self.kind {
            Kind::Secret => String::new(),
            _ => format!(" (`{}`)", found.trim().chars().take(60).collect::<String>()),
        }
    }
}

/// Shannon's entropy of a text, in bits for each byte.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = f64::from(u32::try_from(text.len().max(1)).unwrap_or(u32::MAX));
    let shares = counts.iter().filter(|it| **it > 0).map(|it| f64::from(*it) / length);
    -shares.map(|it| it * it.log2()).sum::<f64>()
}
