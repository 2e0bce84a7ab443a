//! How a change set looks in a terminal. What workers wrote cannot move the cursor or change colours.

use std::{env, fmt::Write, io};

use draft_gate::{Finding, Judgement, Weight, visible};

use crate::{Problem, out::say};

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Paint {
    Colours,
    Plain,
}

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const BOLD: &str = "1";

impl Paint {
    pub(crate) fn of_stdout() -> Self {
        let is_forced = env::var_os("CLICOLOR_FORCE").is_some_and(|it| it != "0");
        let is_wanted = env::var_os("NO_COLOR").is_none() && rustix::termios::isatty(io::stdout());
        if is_forced || is_wanted { Self::Colours } else { Self::Plain }
    }

    fn paint(self, colour: &str, text: &str) -> String {
        match self {
            Self::Colours => format!("\x1b[{colour}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

pub(crate) fn print_judgement(judgement: &Judgement, paint: Paint) -> Result<(), Problem> {
    say(shown(judgement, paint))
}

/// A change set for people: the gravest risk first, then the difference, then what a verdict has to name.
fn shown(judgement: &Judgement, paint: Paint) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", paint.paint(BOLD, &format!("change set {}", judgement.set)));
    for (rank, finding) in judgement.findings.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", rank + 1, risk(finding, paint));
    }
    text.push('\n');
    for line in judgement.diff.lines() {
        let line = visible(line);
        let colour = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Some(BOLD),
            Some(b'+') => Some(GREEN),
            Some(b'-') => Some(RED),
            Some(b'@') => Some(CYAN),
            _ => None,
        };
        let _ =
            writeln!(text, "{}", colour.map_or_else(|| line.clone(), |it| paint.paint(it, &line)));
    }
    let _ = writeln!(text, "\nsight {}", judgement.sight);
    text
}

fn risk(finding: &Finding, paint: Paint) -> String {
    let (colour, word) = match finding.weight {
        Weight::Reject => (RED, "grave"),
        Weight::Escalate => (YELLOW, "look"),
        Weight::Note => (CYAN, "note"),
    };
    format!("{} {}", paint.paint(colour, word), visible(&finding.to_string()))
}
