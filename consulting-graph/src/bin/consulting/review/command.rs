//! Commands of the interactive review.

use std::path::PathBuf;

use consulting_graph::moves::MoveId;

pub(super) const HELP: &str = "Commands:
  show m2    show the whole move           drop m3    drop a move, or several: drop m3 m4
  edit m5    edit a move in your editor    add FILE   add moves from a Markdown or JSON file
  list       list all moves                go         start the debates
  quit       decide later; the run waits";

/// A command of the interactive review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    List,
    Show(MoveId),
    Drop(Vec<MoveId>),
    Edit(MoveId),
    Add(PathBuf),
    Go,
    Quit,
    Help,
}

impl Command {
    /// Parses a line typed by the user.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let (verb, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        let parse_id = |word: &str| {
            MoveId::parse(word)
                .map_err(|_| format!("missing or invalid move id; type, for example, `{verb} m3`"))
        };
        let id = || parse_id(rest);
        match (verb, rest) {
            ("show", _) => id().map(Self::Show),
            ("drop", "") => id().map(|it| Self::Drop(vec![it])),
            ("drop", ids) => {
                ids.split_whitespace().map(parse_id).collect::<Result<_, _>>().map(Self::Drop)
            }
            ("edit", _) => id().map(Self::Edit),
            ("add", "") => Err("missing file name; type, for example, `add moves.md`".to_owned()),
            ("add", file) => Ok(Self::Add(PathBuf::from(file))),
            ("list", "") => Ok(Self::List),
            ("go", "") => Ok(Self::Go),
            ("quit" | "exit", "") => Ok(Self::Quit),
            ("help" | "?" | "", "") => Ok(Self::Help),
            _ => Err(format!("unknown command `{}`; type `help` for a list", line.trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, MoveId};

    #[test]
    fn commands_are_parsed() {
        for (line, expected) in [
            ("drop m3", Command::Drop(vec![MoveId(3)])),
            ("drop m3  m4", Command::Drop(vec![MoveId(3), MoveId(4)])),
            ("  edit   m15 ", Command::Edit(MoveId(15))),
            ("show m1", Command::Show(MoveId(1))),
            ("add my moves.md", Command::Add("my moves.md".into())),
            ("list", Command::List),
            ("go", Command::Go),
            ("quit", Command::Quit),
            ("", Command::Help),
        ] {
            assert_eq!(Command::parse(line), Ok(expected), "{line}");
        }
        for invalid in ["drop", "drop 3", "drop m3 4", "edit all", "add", "go now", "remove m1"] {
            assert!(Command::parse(invalid).is_err(), "{invalid}");
        }
    }
}
