//! The rules of `data/rules.toml`: keywords, a pattern, and conditions on the value that the pattern matches.

use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;
use serde::Deserialize;

use crate::{
    finding::Severity,
    password::{
        is_likely_password, is_mixed_literal, is_strong_literal, password_argument, password_cell,
    },
    random_text::{entropy, is_generated, is_random},
    reference::is_literal,
    secret_value::password_severity,
    secret_words::is_published_example,
    work::Work,
};

/// The rules, with an index of their keywords.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    words: AhoCorasick,
    /// For each keyword, the index of the rule that it belongs to.
    owners: Vec<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// Severity of the rule, if it differs from that of its kind.
    severity: Option<Severity>,
    /// Description of what was found.
    pub(crate) what: String,
    words: Vec<String>,
    /// Regular expression. The value whose entropy is measured is its last matching group or, if no group matches, the
    /// whole match.
    pattern: String,
    /// Minimum Shannon entropy of the value, in bits per byte.
    #[serde(default)]
    entropy: f64,
    /// Further condition on the value.
    check: Option<ValueCheck>,
    #[serde(skip)]
    compiled: OnceLock<Regex>,
}

/// Condition on a value that a pattern has matched.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ValueCheck {
    /// The value is not a placeholder or a reference to another value.
    Literal,
    /// The value is a password. Passwords that are ordinary words are escalated.
    Password,
    /// The value has letters together with digits or symbols.
    Mixed,
    /// The value has letters of both cases, digits and symbols.
    Strong,
    /// The value is a literal with letters and digits that alternate.
    Generated,
    /// The value has letters of both cases and digits that alternate as often as in random text.
    Random,
    /// The value looks like a password that a person would choose.
    Likely,
    /// The value is a list of arguments, and one after the first literal looks like a password.
    Arguments,
    /// The value is a table row, and one of its cells has letters of both cases, digits and symbols.
    Cell,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Secret,
    Path,
    Placeholder,
    Stub,
    /// Code that may fake the result of the check that executes it.
    Verdict,
}

impl Kind {
    fn severity(self) -> Severity {
        match self {
            Self::Secret | Self::Path | Self::Placeholder => Severity::Reject,
            Self::Stub | Self::Verdict => Severity::Escalate,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Secret => "looks like a secret",
            Self::Path => "hard-coded path",
            Self::Placeholder => "placeholder instead of content",
            Self::Stub => "unfinished",
            Self::Verdict => "may fake the result of a check",
        }
    }
}

pub(crate) static RULES: LazyLock<Rules> = LazyLock::new(Rules::load);

impl Rules {
    fn load() -> Self {
        #[derive(Deserialize)]
        struct File {
            rule: Vec<Rule>,
        }
        let File { rule: rules } =
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
        Self { words: words.expect("a test parses the rules"), owners, rules }
    }

    /// Returns the rules that have at least one keyword in the line, in the order of the rules file.
    pub(crate) fn of<'a>(&'a self, line: &str) -> impl Iterator<Item = &'a Rule> + use<'a> {
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
    /// Returns the regular expression, in which `WORDS` is replaced with the keywords.
    fn full_pattern(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|it| regex::escape(it)).collect();
        self.pattern.replace("WORDS", &words.join("|"))
    }

    /// Returns the first value that the rule matches in a line and that ends after a position, and its severity. Stops
    /// when the limit on the work is reached.
    pub(crate) fn search<'a>(
        &self,
        line: &'a str,
        after: usize,
        work: &mut Work,
    ) -> Option<(&'a str, Severity)> {
        let pattern = self.compiled.get_or_init(|| {
            Regex::new(&self.full_pattern()).expect("a test compiles all patterns")
        });
        let mut matches = pattern.captures_iter(line);
        let mut start = 0;
        while !work.is_exhausted() {
            // The search continues after each match, so every match is counted as another search.
            work.add(line.len() - start);
            let captures = matches.next()?;
            let whole = captures.get(0)?;
            start = whole.start();
            let found = captures.iter().skip(1).flatten().last().unwrap_or(whole);
            if found.end() > after
                && let Some(value) = self.check_value(found.as_str())
            {
                return Some(value);
            }
        }
        None
    }

    /// Returns the part of a matched value that meets the conditions of the rule, and its severity.
    fn check_value<'a>(&self, found: &'a str) -> Option<(&'a str, Severity)> {
        let own = self.severity.unwrap_or(self.kind.severity());
        if entropy(found) < self.entropy || is_published_example(found) {
            return None;
        }
        match self.check {
            None => Some((found, own)),
            Some(ValueCheck::Literal) => is_literal(found).then_some((found, own)),
            Some(ValueCheck::Password) => Some((found, own.min(password_severity(found)?))),
            Some(ValueCheck::Mixed) => is_mixed_literal(found).then_some((found, own)),
            Some(ValueCheck::Strong) => is_strong_literal(found).then_some((found, own)),
            Some(ValueCheck::Generated) => {
                let has_digit = found.bytes().any(|it| it.is_ascii_digit());
                (has_digit && is_generated(found) && is_literal(found)).then_some((found, own))
            }
            Some(ValueCheck::Random) => is_random(found).then_some((found, own)),
            Some(ValueCheck::Likely) => is_likely_password(found).then_some((found, own)),
            Some(ValueCheck::Arguments) => Some((password_argument(found)?, own)),
            Some(ValueCheck::Cell) => Some((password_cell(found)?, own)),
        }
    }
}
