//! The scripted model that is used when no provider is configured.
//!
//! It combines numbers and sentences from the prompts with canned phrases, so that a run without an API key exercises
//! everything that a real one does: documents, findings, moves, debates and scores, including occasional answers that
//! are malformed or cite unknown findings. Its output is not a judgement and is always labelled as scripted.

use llm::{Llm, Script, ScriptError, Scripted};

/// The script, in TOML.
pub const SCRIPT: &str = include_str!("../config/scripted.toml");

/// Name of the model; its provider is `scripted`.
pub const MODEL_NAME: &str = "board";

/// Creates the scripted model. The same seed, company and configuration produce the same answers.
///
/// ```
/// use llm::Model;
///
/// let model = consulting_graph::offline::model(7)?;
/// assert_eq!(model.id().to_string(), "scripted/board");
/// # Ok::<(), llm::ScriptError>(())
/// ```
pub fn model(seed: u64) -> Result<Llm, ScriptError> {
    model_with_delay(seed, 0)
}

/// Creates the scripted model with a delay of `answer_ms` milliseconds per answer, so that a run can be watched.
pub(crate) fn model_with_delay(seed: u64, answer_ms: u64) -> Result<Llm, ScriptError> {
    let mut script: Script = toml::from_str(SCRIPT).map_err(|error| ScriptError {
        script: MODEL_NAME.to_owned(),
        location: "config/scripted.toml".to_owned(),
        problem: error.to_string(),
    })?;
    for rule in &mut script.rules {
        rule.delay_ms = answer_ms;
    }
    Ok(Llm::new(Scripted::new(script.seed(seed))?))
}
