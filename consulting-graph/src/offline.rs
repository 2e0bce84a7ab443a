//! Who speaks when no provider is configured: a scripted model, whose script comes with the program.
//!
//! It takes numbers and sentences from the prompts and joins them with phrases, so that a run without a key goes through
//! everything that a real one does: documents, findings, moves, debates, scores, and now and then an answer that is
//! malformed or cites what does not exist. What it says is no judgement, and everything it says carries its name.

use llm::{Llm, Script, ScriptError, Scripted};

/// The script, as data.
pub const SCRIPT: &str = include_str!("../config/scripted.toml");

/// What the model is called, behind its provider `scripted`.
pub const NAME: &str = "board";

/// Makes the scripted model. The same seed, company and configuration give the same words.
///
/// ```
/// use llm::Model;
///
/// let model = consulting_graph::offline::model(7)?;
/// assert_eq!(model.id().to_string(), "scripted/board");
/// # Ok::<(), llm::ScriptError>(())
/// ```
pub fn model(seed: u64) -> Result<Llm, ScriptError> {
    paced(seed, 0)
}

/// Makes the scripted model, so slow that it can be watched: it takes so many milliseconds over every answer.
pub(crate) fn paced(seed: u64, answer_ms: u64) -> Result<Llm, ScriptError> {
    let mut script: Script = toml::from_str(SCRIPT).map_err(|error| ScriptError {
        script: NAME.to_owned(),
        place: "config/scripted.toml".to_owned(),
        problem: error.to_string(),
    })?;
    for rule in &mut script.rules {
        rule.delay_ms = answer_ms;
    }
    Ok(Llm::new(Scripted::new(script.seed(seed))?))
}
