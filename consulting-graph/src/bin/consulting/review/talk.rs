//! The review at a terminal.

use std::{
    env, fs,
    io::{self, Write, stderr, stdin},
    path::Path,
    process,
};

use consulting_graph::{
    data::Ticker,
    moves::MoveId,
    pipeline::{Review, Reviewed},
};

use super::{
    command::{Command, HELP},
    desk::Desk,
};

/// How a review ended.
pub(crate) enum Decision {
    Debate(Reviewed),
    Later,
}

/// Shows the moves and does what is typed, until it is `go` or `quit`. It blocks: nothing else happens meanwhile.
pub(crate) fn talk(
    ticker: Ticker,
    review: Review,
    folder: &Path,
    columns: usize,
) -> io::Result<Decision> {
    let mut desk = Desk::of(ticker, review.moves);
    say(&format!("\n{}\n{HELP}\n", desk.list(columns)))?;
    loop {
        say("review> ")?;
        let mut line = String::new();
        if stdin().read_line(&mut line)? == 0 {
            say("\n")?;
            return Ok(Decision::Later);
        }
        let done = match Command::parse(&line) {
            Err(problem) => Err(problem),
            Ok(Command::Help) => Ok(HELP.to_owned()),
            Ok(Command::List) => Ok(desk.list(columns)),
            Ok(Command::Show(id)) => desk.markdown(id),
            Ok(Command::Drop(ids)) => {
                let dropped: Result<Vec<String>, String> =
                    ids.into_iter().map(|it| desk.drop(it)).collect();
                dropped.map(|it| it.join("\n"))
            }
            Ok(Command::Edit(id)) => edit(&mut desk, id, folder),
            Ok(Command::Add(path)) => match fs::read_to_string(&path) {
                Ok(text) => desk.add(&text),
                Err(error) => Err(format!("{}: {error}", path.display())),
            },
            Ok(Command::Go) if desk.is_empty() => {
                Err("all moves are left out; add one, or `quit`".to_owned())
            }
            Ok(Command::Go) => return Ok(Decision::Debate(Reviewed { moves: desk.into_moves() })),
            Ok(Command::Quit) => return Ok(Decision::Later),
        };
        match done {
            Ok(text) => say(&format!("{}\n", text.trim_end()))?,
            Err(problem) => say(&format!("! {problem}\n"))?,
        }
    }
}

/// Lets the user's editor change a move. What it left behind is kept where it cannot be read as a move.
fn edit(desk: &mut Desk, id: MoveId, folder: &Path) -> Result<String, String> {
    let path = folder.join(format!("{id}-edited.md"));
    let wrong = |error: io::Error| format!("{}: {error}", path.display());
    fs::write(&path, desk.markdown(id)?).map_err(wrong)?;
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|it| env::var(it).ok());
    let editor = editor.filter(|it| !it.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = process::Command::new(program).args(words).arg(&path).status();
    let status = status.map_err(|error| format!("{editor}: {error}; set EDITOR"))?;
    if !status.success() {
        return Err(format!("{editor} failed; {id} is as it was"));
    }
    let text = fs::read_to_string(&path).map_err(wrong)?;
    let edited = desk.edit(id, &text).map_err(|it| format!("{it}; see {}", path.display()))?;
    fs::remove_file(&path).map_err(wrong)?;
    Ok(edited)
}

fn say(text: &str) -> io::Result<()> {
    let mut stderr = stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}
