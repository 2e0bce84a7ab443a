//! Renders change sets for a terminal. Control characters in workers' text are escaped.

use std::{env, fmt::Write, io};

use draft_gate::{Finding, Judgement, PendingSet, Severity, escape_invisible};

use crate::output::{BoxError, print};

/// Whether the output is colored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ColorMode {
    Colored,
    Plain,
}

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const BOLD: &str = "1";

impl ColorMode {
    pub(crate) fn for_stdout() -> Self {
        let is_forced = env::var_os("CLICOLOR_FORCE").is_some_and(|it| it != "0");
        let is_wanted = env::var_os("NO_COLOR").is_none() && rustix::termios::isatty(io::stdout());
        if is_forced || is_wanted { Self::Colored } else { Self::Plain }
    }

    fn color(self, colour: &str, text: &str) -> String {
        match self {
            Self::Colored => format!("\x1b[{colour}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

/// Prints who proposes a change set, for which task, and the worker's summary of it.
pub(crate) fn print_origin(set: &PendingSet) -> Result<(), BoxError> {
    let PendingSet { worker, task, summary, .. } = set;
    let text = format!("worker {worker}\ntask {task}\nsummary {}\n", escape_invisible(summary));
    print(text)
}

pub(crate) fn print_judgement(judgement: &Judgement, mode: ColorMode) -> Result<(), BoxError> {
    print(render_judgement(judgement, mode))
}

/// Renders a change set: its findings by severity, its diff, and the fingerprint that a verdict must contain.
fn render_judgement(judgement: &Judgement, mode: ColorMode) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", mode.color(BOLD, &format!("change set {}", judgement.set)));
    for (rank, finding) in judgement.findings.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", rank + 1, render_finding(finding, mode));
    }
    text.push('\n');
    for line in judgement.diff.lines() {
        let line = escape_invisible(line);
        let colour = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Some(BOLD),
            Some(b'+') => Some(GREEN),
            Some(b'-') => Some(RED),
            Some(b'@') => Some(CYAN),
            _ => None,
        };
        let _ =
            writeln!(text, "{}", colour.map_or_else(|| line.clone(), |it| mode.color(it, &line)));
    }
    let _ = writeln!(text, "\nfingerprint {}", judgement.fingerprint);
    text
}

fn render_finding(finding: &Finding, mode: ColorMode) -> String {
    let (colour, word) = match finding.severity {
        Severity::Reject => (RED, "reject"),
        Severity::Escalate => (YELLOW, "review"),
        Severity::Note => (CYAN, "note"),
    };
    format!("{} {}", mode.color(colour, word), escape_invisible(&finding.to_string()))
}
