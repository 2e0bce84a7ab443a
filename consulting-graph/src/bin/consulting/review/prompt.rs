//! Interactive review on the terminal.

use std::{
    env, fs,
    io::{self, stdin},
    path::Path,
    process,
};

use consulting_graph::{
    data::Ticker,
    moves::MoveId,
    pipeline::{ReviewDecision, ReviewRequest},
};

use super::{
    command::{Command, HELP},
    editor::MoveEditor,
};
use crate::output::write_stderr;

/// Outcome of the interactive review.
pub(crate) enum PromptOutcome {
    Debate(ReviewDecision),
    Later,
}

/// Shows the moves and executes commands until `go` or `quit`. Blocks the calling OS thread.
pub(crate) fn run_prompt(
    ticker: Ticker,
    review: ReviewRequest,
    dir: &Path,
    columns: usize,
) -> io::Result<PromptOutcome> {
    let mut editor = MoveEditor::new(ticker, review.moves);
    write_stderr(&format!("\n{}\n{HELP}\n", editor.list(columns)))?;
    loop {
        write_stderr("review> ")?;
        let mut line = String::new();
        if stdin().read_line(&mut line)? == 0 {
            write_stderr("\n")?;
            return Ok(PromptOutcome::Later);
        }
        let result = match Command::parse(&line) {
            Err(problem) => Err(problem),
            Ok(Command::Help) => Ok(HELP.to_owned()),
            Ok(Command::List) => Ok(editor.list(columns)),
            Ok(Command::Show(id)) => editor.markdown(id),
            Ok(Command::Drop(ids)) => {
                let dropped: Result<Vec<String>, String> =
                    ids.into_iter().map(|it| editor.drop(it)).collect();
                dropped.map(|it| it.join("\n"))
            }
            Ok(Command::Edit(id)) => edit(&mut editor, id, dir),
            Ok(Command::Add(path)) => match fs::read_to_string(&path) {
                Ok(text) => editor.add(&text),
                Err(error) => Err(format!("cannot read {}: {error}", path.display())),
            },
            Ok(Command::Go) if editor.is_empty() => {
                Err("all moves were dropped; add one, or type `quit`".to_owned())
            }
            Ok(Command::Go) => {
                return Ok(PromptOutcome::Debate(ReviewDecision { moves: editor.into_moves() }));
            }
            Ok(Command::Quit) => return Ok(PromptOutcome::Later),
        };
        match result {
            Ok(text) => write_stderr(&format!("{}\n", text.trim_end()))?,
            Err(problem) => write_stderr(&format!("! {problem}\n"))?,
        }
    }
}

/// Opens a move in the user's editor. If the result cannot be parsed, the edited file is kept.
fn edit(moves: &mut MoveEditor, id: MoveId, dir: &Path) -> Result<String, String> {
    let path = dir.join(format!("{id}-edited.md"));
    let io_error = |error: io::Error| format!("cannot access {}: {error}", path.display());
    fs::write(&path, moves.markdown(id)?).map_err(io_error)?;
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|it| env::var(it).ok());
    let editor = editor.filter(|it| !it.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let mut arguments = editor.split_whitespace();
    let program = arguments.next().unwrap_or("vi");
    let status = process::Command::new(program).args(arguments).arg(&path).status();
    let status = status.map_err(|error| {
        format!("cannot start the editor `{editor}`: {error}; set EDITOR to another one")
    })?;
    if !status.success() {
        return Err(format!("the editor `{editor}` failed; {id} is unchanged"));
    }
    let text = fs::read_to_string(&path).map_err(io_error)?;
    let edited =
        moves.edit(id, &text).map_err(|it| format!("{it}; your text is in {}", path.display()))?;
    fs::remove_file(&path).map_err(io_error)?;
    Ok(edited)
}
