//! Scans added lines for secrets, machine-specific paths and placeholders.
//!
//! The rules are read from `data/rules.toml`. Each rule has keywords, a pattern, and a minimum entropy for the matched
//! value. All keywords are searched in one pass, and the pattern of a rule is compiled when one of the rule's keywords
//! first occurs. Values that are assigned to names that indicate a secret are found by `assignment` and classified by
//! `secret_value`.
//!
//! The work is counted by `work`. When its limit is reached, the remaining text is not scanned, and a person decides.

use crate::{
    assignment::{Assignment, assignments},
    context::Context,
    continuation::Joined,
    disguise::disguises,
    escape::escape_invisible,
    file_kind::FileKind,
    finding::{Finding, Severity},
    fold::fold,
    rules::{Kind, RULES, Rule},
    secret_value::severity_of,
    secret_words::SecretKind,
    token::{random_literal, unlisted_token},
    work::Work,
};

/// Comment that requests an exception for a line. It only turns a rejection into an escalation, because workers can
/// write it too.
const ALLOW_COMMENT: &str = "draft-gate:allow";

/// Maximum number of findings per file.
const MAX_FINDINGS: usize = 20;

/// Maximum length, in bytes, of an ordinary line. Longer lines are escalated, and scanned in chunks of this size.
const CHUNK_BYTES: usize = 16 << 10;

/// Overlap of consecutive chunks, in bytes. A key of at most this length is completely inside one chunk. A longer key
/// has at least this many leading bytes in one chunk, which is enough to recognize it.
const CHUNK_OVERLAP: usize = 1 << 10;

/// Work charged for each line, in bytes, because some patterns are searched in every line.
const WORK_PER_LINE: usize = 1 << 8;

/// Work charged for each byte of a line with characters outside ASCII, because Unicode tables are searched for each of
/// its characters.
const WORK_PER_UNICODE_BYTE: usize = 16;

/// Work charged for each byte of a line that is joined with earlier lines, because the joined text is searched several
/// times.
const WORK_PER_JOINED_BYTE: usize = 6;

/// Scans lines of the file at this path and returns the findings, most severe first.
///
/// Unless the limit on the work is reached, all lines are scanned. An omitted finding is never more severe than the
/// returned ones, so a severe finding cannot be hidden behind many minor ones.
pub fn scan(path: &str, lines: &[(u32, String)]) -> Vec<Finding> {
    scan_within(path, lines, &mut Work::default())
}

/// Does the same as [`scan`], with a limit on the work that applies to several files together.
pub(crate) fn scan_within(path: &str, lines: &[(u32, String)], work: &mut Work) -> Vec<Finding> {
    let file = FileKind::of(path);
    let mut findings = vec![];
    let mut n_omitted = 0;
    let mut context = Context::new(path, lines);
    for (number, line) in lines {
        if !work.is_exhausted() {
            let found = line_findings(*number, line, file, &mut context, work);
            findings.extend(found.into_iter().map(|it| it.at_line(*number)));
        }
        if findings.len() > 2 * MAX_FINDINGS {
            n_omitted += keep_most_severe(&mut findings);
        }
        if work.is_exhausted() {
            let text = "scanning takes too long; the rest of this line and the following lines were not scanned";
            findings.push(Finding::new("scan-limit", Severity::Escalate, text).at_line(*number));
            break;
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
    let is_secret = |part| {
        let hits = part_hits(part, FileKind::Prose, &mut Work::default());
        hits.iter().any(|it| it.kind == Kind::Secret)
    };
    text.lines().flat_map(parts).any(is_secret)
}

/// Truncates the list to the most severe findings, and returns the number of omitted findings.
fn keep_most_severe(findings: &mut Vec<Finding>) -> usize {
    let n_omitted = findings.len().saturating_sub(MAX_FINDINGS);
    findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
    findings.truncate(MAX_FINDINGS);
    n_omitted
}

/// Returns the findings in a line, alone and together with the earlier lines to which it belongs.
fn line_findings(
    number: u32,
    line: &str,
    file: FileKind,
    context: &mut Context,
    work: &mut Work,
) -> Vec<Finding> {
    work.add(WORK_PER_LINE);
    let mut found = scan_line(line, file, work);
    for joined in context.advance(number, line) {
        let new = scan_joined(&joined, line, file, work);
        // The line by itself may already have the same finding.
        let is_known = |new: &Finding| {
            found.iter().any(|it| it.rule == new.rule && it.severity >= new.severity)
        };
        let new = new.filter(|it| !is_known(it));
        found.extend(new);
    }
    found
}

fn scan_line(line: &str, file: FileKind, work: &mut Work) -> Vec<Finding> {
    let mut findings = vec![];
    if line.len() > CHUNK_BYTES {
        let text = "the line is too long to review";
        findings.push(Finding::new("long-line", Severity::Escalate, text));
    }
    if !line.is_ascii() {
        work.add(WORK_PER_UNICODE_BYTE * line.len());
        if work.is_exhausted() {
            return findings;
        }
    }
    findings.extend(disguises(line, file == FileKind::Prose));
    let mut hits: Vec<Hit<'_>> = vec![];
    for part in parts(line) {
        // A single line may exceed the limit.
        if work.is_exhausted() {
            break;
        }
        for hit in part_hits(part, file, work) {
            match hits.iter_mut().find(|it| it.rule == hit.rule) {
                Some(known) => known.severity = known.severity.max(hit.severity),
                None => hits.push(hit),
            }
        }
    }
    // If any rule finds a secret, quote nothing, because the text that one rule quotes may contain another rule's
    // secret.
    let is_secret = hits.iter().any(|it| it.kind == Kind::Secret);
    for hit in hits {
        let (severity, request) = apply_exception(line, hit.severity);
        let quote = if is_secret { String::new() } else { quoted(hit.found) };
        let text = format!("{}: {}{quote}{request}", hit.kind.describe(), hit.what);
        findings.push(Finding::new(hit.rule, severity, text));
    }
    findings
}

/// Returns a finding if a line contains a secret whose name or first part is in an earlier line.
fn scan_joined(joined: &Joined, line: &str, file: FileKind, work: &mut Work) -> Option<Finding> {
    let Joined { text, start, is_statement } = joined;
    work.add(WORK_PER_JOINED_BYTE * text.len());
    let folded = if *is_statement { fold(text, file) } else { None };
    let mut hits: Vec<Hit<'_>> = vec![];
    if *is_statement {
        let (whole, after) = folded.as_deref().map_or((text.as_str(), *start), |it| (it, 0));
        let rules = RULES.of(whole).filter(|it| it.kind == Kind::Secret);
        hits.extend(rules.filter_map(|it| rule_hit(it, whole, after, work)));
    }
    if let Some(folded) = &folded {
        hits.extend(assignments(folded, file, work).iter().filter_map(|it| assigned_hit(it, file)));
    }
    let is_continued =
        |it: &Assignment<'_>| it.name_at < *start && it.value.as_ptr() >= text[*start..].as_ptr();
    let assigned = assignments(text, file, work).into_iter().filter(is_continued);
    hits.extend(assigned.filter_map(|it| assigned_hit(&it, file)));
    let Hit { rule, what, severity, .. } = hits.into_iter().max_by_key(|it| it.severity)?;
    let (severity, request) = apply_exception(line, severity);
    let description = Kind::Secret.describe();
    let text = format!("{description}: {what}, which starts in an earlier line{request}");
    Some(Finding::new(rule, severity, text))
}

/// Returns the severity of a finding in a line that may request an exception, and the text that says so.
fn apply_exception(line: &str, severity: Severity) -> (Severity, &'static str) {
    match line.contains(ALLOW_COMMENT) {
        true => (severity.min(Severity::Escalate), "; the line requests an exception"),
        false => (severity, ""),
    }
}

/// A match of a rule.
struct Hit<'a> {
    rule: &'static str,
    kind: Kind,
    what: &'static str,
    found: &'a str,
    severity: Severity,
}

impl Hit<'_> {
    /// Returns this match with `found` as the matched text.
    fn found_in(self, found: &str) -> Hit<'_> {
        Hit { rule: self.rule, kind: self.kind, what: self.what, found, severity: self.severity }
    }
}

/// Returns the matches of all rules in a part of a line.
fn part_hits<'a>(part: &'a str, file: FileKind, work: &mut Work) -> Vec<Hit<'a>> {
    let mut hits = text_hits(part, file, work);
    if let Some(folded) = fold(part, file) {
        let folded = text_hits(&folded, file, work).into_iter();
        hits.extend(folded.filter(|it| it.kind == Kind::Secret).map(|it| it.found_in(part)));
    }
    // Comments in programs are scanned like prose.
    if let Some(comment) = comment(part).filter(|_| file == FileKind::Code) {
        let prose = FileKind::Prose;
        hits.extend(
            assignments(comment, prose, work).iter().filter_map(|it| assigned_hit(it, prose)),
        );
    }
    // A match of a general rule is dropped if another rule for secrets matches too.
    for general in ["unlisted-token", "token-literal", "password-literal"] {
        if hits.iter().any(|it| it.kind == Kind::Secret && it.rule != general) {
            hits.retain(|it| it.rule != general);
        }
    }
    hits
}

/// Returns the matches of all rules in a text.
fn text_hits<'a>(text: &'a str, file: FileKind, work: &mut Work) -> Vec<Hit<'a>> {
    work.add(text.len());
    let rules = RULES.of(text);
    let mut hits: Vec<Hit<'a>> = rules.filter_map(|it| rule_hit(it, text, 0, work)).collect();
    hits.extend(assignments(text, file, work).iter().filter_map(|it| assigned_hit(it, file)));
    work.add(text.len());
    let literal = || random_literal(text).filter(|_| file == FileKind::Code);
    if let Some(found) = unlisted_token(text).or_else(literal) {
        let (rule, what) = ("unlisted-token", "possible token of a service");
        let severity = Severity::Escalate;
        hits.push(Hit { rule, kind: Kind::Secret, what, found, severity });
    }
    hits
}

/// Returns the first match of a rule that ends after a position.
fn rule_hit<'a>(
    rule: &'static Rule,
    text: &'a str,
    after: usize,
    work: &mut Work,
) -> Option<Hit<'a>> {
    let (found, severity) = rule.search(text, after, work)?;
    Some(Hit { rule: &rule.id, kind: rule.kind, what: &rule.what, found, severity })
}

/// Returns the text of the comment in a line of code.
fn comment(line: &str) -> Option<&str> {
    let start = line.trim_start();
    let marks = ["//", "#", "/*", "--", "* ", ";", "<!--", "%", "'"];
    if let Some(text) = marks.iter().find_map(|it| start.strip_prefix(it)) {
        return Some(text);
    }
    [" //", " # ", "\t//", " /*", " --"].iter().find_map(|it| Some(line.split_once(it)?.1))
}

/// Returns the match of an assignment, if its value is a secret.
fn assigned_hit<'a>(assignment: &Assignment<'a>, file: FileKind) -> Option<Hit<'a>> {
    let severity = severity_of(assignment, file)?;
    let (rule, what) = match (assignment.kind, severity) {
        (SecretKind::Password, Severity::Reject) => ("assigned-password", "password"),
        (SecretKind::Password, _) => ("plain-password", "possible password"),
        (SecretKind::Generated, _) => {
            ("assigned-secret", "value assigned to a name that indicates a secret")
        }
        (SecretKind::Key | SecretKind::BareKey, _) => ("assigned-key", "possible key of a service"),
    };
    Some(Hit { rule, kind: Kind::Secret, what, found: assignment.value, severity })
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
