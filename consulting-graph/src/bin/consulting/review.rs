//! Review of the moves before the debates.

mod command;
mod editor;
mod prompt;

use std::path::Path;

use app_support::files;
use consulting_graph::{
    pipeline::{ReviewDecision, ReviewRequest},
    run::Run,
};

use crate::error::CliError;

pub(crate) use prompt::{PromptOutcome, run_prompt};

/// Writes the moves to review to a file and returns instructions for the user. `resume` is the command that resumes the
/// run.
pub(crate) fn write_request(
    run: &Run,
    review: &ReviewRequest,
    resume: &str,
) -> Result<String, CliError> {
    let path = run.write_review_request(review)?;
    let path = path.display();
    Ok(format!(
        "The moves in {path} are waiting for your review ({} in total).\nEdit a copy of that file, then run: \
         {resume} --reviewed FILE\nOr review them interactively in a terminal: {resume}",
        review.moves.len()
    ))
}

pub(crate) fn read(path: &Path) -> Result<ReviewDecision, CliError> {
    let text = files::read(path)?;
    let invalid = |problem| CliError::InvalidFile { path: path.to_owned(), problem };
    let decision: ReviewDecision = serde_json::from_str(&text)
        .map_err(|error| invalid(format!("expected reviewed moves: {error}")))?;
    decision.check().map_err(invalid)?;
    Ok(decision)
}
