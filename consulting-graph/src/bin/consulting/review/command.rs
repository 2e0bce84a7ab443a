//! What can be typed in a review.

use std::path::PathBuf;

use consulting_graph::moves::MoveId;

/// What can be typed.
pub(super) const HELP: &str = "You can type:
  show m2    the whole move          drop m3    leave it out of the debates, or several: drop m3 m4
  edit m5    in your editor          add FILE   moves from a file, markdown or JSON
  list       all moves again         go         debate them
  quit       later: the run waits";

/// Something to do in a review.
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
    /// Reads what was typed.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let (verb, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        let which =
            |word: &str| MoveId::parse(word).map_err(|_| format!("which move? type `{verb} m3`"));
        let id = || which(rest);
        match (verb, rest) {
            ("show", _) => id().map(Self::Show),
            ("drop", "") => id().map(|it| Self::Drop(vec![it])),
            ("drop", ids) => {
                ids.split_whitespace().map(which).collect::<Result<_, _>>().map(Self::Drop)
            }
            ("edit", _) => id().map(Self::Edit),
            ("add", "") => Err("which file? type `add moves.md`".to_owned()),
            ("add", file) => Ok(Self::Add(PathBuf::from(file))),
            ("list", "") => Ok(Self::List),
            ("go", "") => Ok(Self::Go),
            ("quit" | "exit", "") => Ok(Self::Quit),
            ("help" | "?" | "", "") => Ok(Self::Help),
            _ => Err(format!("`{}` is nothing that can be done here", line.trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, MoveId};

    #[test]
    fn commands_are_read_as_they_are_typed() {
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
        for wrong in ["drop", "drop 3", "drop m3 4", "edit all", "add", "go now", "remove m1"] {
            assert!(Command::parse(wrong).is_err(), "{wrong}");
        }
    }
}
