//! The scripted model that is used when no provider is configured.
//!
//! The scripted model combines numbers and sentences from the prompts with canned phrases. A run without an API key
//! therefore exercises everything that a run with a provider does: documents, findings, moves, debates and scores,
//! including occasional answers that are malformed or cite unknown findings. The output is not a judgement and is
//! always labelled as scripted.

use llm::{Llm, Script, ScriptError, Scripted};

/// The script of the model, in TOML.
pub const SCRIPT: &str = include_str!("../config/scripted.toml");

/// Name of the model. Its provider is named `scripted`.
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

/// Creates the scripted model with a delay of `answer_ms` milliseconds per answer, so that a user can follow the
/// progress of a run.
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
