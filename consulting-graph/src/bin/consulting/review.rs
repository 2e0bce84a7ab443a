//! A person looks at the moves before they are debated.

mod command;
mod desk;
mod talk;

use std::{fs, path::Path};

use consulting_graph::{
    pipeline::{Review, Reviewed},
    run::Run,
};

use crate::problem::{Problem, with};

pub(crate) use talk::{Decision, talk};

/// The file in a run's folder that a review starts from.
const REVIEW: &str = "review.json";

/// Puts the moves into a file, and says how to go on.
pub(crate) fn leave(run: &Run, review: &Review) -> Result<String, Problem> {
    let path = run.folder().join(REVIEW);
    let text = serde_json::to_string_pretty(review).unwrap_or_default() + "\n";
    fs::write(&path, text).map_err(with(&path))?;
    let (path, folder) = (path.display(), run.folder().display());
    Ok(format!(
        "{} moves wait for your review in {path}.\nEdit a copy of it, and go on with: consulting resume {folder} \
         --reviewed FILE\nAt a terminal, `consulting resume {folder}` asks you there.",
        review.moves.len()
    ))
}

/// Whether a run waits for a person.
pub(crate) fn is_wanted(run: &Run) -> bool {
    run.folder().join(REVIEW).exists() && !run.is_reviewed()
}

/// What a person made of the moves, from a file.
pub(crate) fn read(path: &Path) -> Result<Reviewed, Problem> {
    let text = fs::read_to_string(path).map_err(with(path))?;
    let wrong = |problem| Problem::Content { path: path.to_owned(), problem };
    let reviewed: Reviewed = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("no reviewed moves: {error}")))?;
    desk::check(&reviewed.moves).map_err(wrong)?;
    Ok(reviewed)
}
