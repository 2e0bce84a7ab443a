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

/// Puts the moves into a file, and says how to go on.
pub(crate) fn leave(run: &Run, review: &Review) -> Result<String, Problem> {
    let path = run.leave_review(review)?;
    let (path, folder) = (path.display(), run.folder().display());
    Ok(format!(
        "{} moves wait for your review in {path}.\nEdit a copy of it, and go on with: consulting resume {folder} \
         --reviewed FILE\nAt a terminal, `consulting resume {folder}` asks you there.",
        review.moves.len()
    ))
}

/// What a person made of the moves, from a file.
pub(crate) fn read(path: &Path) -> Result<Reviewed, Problem> {
    let text = fs::read_to_string(path).map_err(with(path))?;
    let wrong = |problem| Problem::Content { path: path.to_owned(), problem };
    let reviewed: Reviewed = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("no reviewed moves: {error}")))?;
    reviewed.check().map_err(wrong)?;
    Ok(reviewed)
}
