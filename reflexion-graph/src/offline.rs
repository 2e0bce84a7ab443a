//! The scripted model that is used if no provider is configured.
//!
//! It returns prepared programs for the example tasks and for the problems of the [benchmark](crate::bench). The
//! program for a benchmark problem can depend on the attempt. For any other task, it answers that it has no program.

use llm::{Llm, Rule, Script, ScriptError, Scripted};
use serde_json::json;

use crate::bench::Problem;

const SCRIPT: &str = include_str!("../data/scripted.toml");

/// Creates a scripted model for the built-in problems.
pub fn model() -> Result<Llm, ScriptError> {
    model_for(&Problem::builtin())
}

/// Creates a scripted model for the given problems.
pub fn model_for(problems: &[Problem]) -> Result<Llm, ScriptError> {
    let mut script: Script = toml::from_str(SCRIPT).map_err(|error| ScriptError {
        script: "coder".to_owned(),
        location: "data/scripted.toml".to_owned(),
        problem: error.to_string(),
    })?;
    let known = problems.iter().flat_map(rules).chain(script.rules).collect();
    script.rules = known;
    Ok(Llm::new(Scripted::new(script)?))
}

/// Returns one rule per prepared answer. The rule for the last answer also applies to all later attempts.
fn rules(problem: &Problem) -> Vec<Rule> {
    let task = problem.task.trim();
    let last = problem.answers.len();
    let rule = |(idx, code): (usize, &String)| {
        let condition = match idx + 1 {
            number if number < last => format!("Task: {task}\n*This is attempt {number} of"),
            _ => format!("Task: {task}\n"),
        };
        Rule::json(json!({
            "code": literal(code),
            "dependencies": [],
            "reasoning": "This program was prepared in advance.",
            "confidence": 0.5,
        }))
        .when_schema("GeneratedCode")
        .when_prompt(condition)
    };
    problem.answers.iter().enumerate().map(rule).collect()
}

/// Escapes the braces in a text so that the template engine outputs the text unchanged.
fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
