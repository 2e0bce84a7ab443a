//! Who writes when no provider is configured: a scripted model, whose script comes with the program.
//!
//! It plays back programs that were written beforehand: for the tasks of the worked examples, and for the problems of
//! the [benchmark](crate::bench), attempt by attempt. What it does not know it says.

use llm::{Llm, Rule, Script, ScriptError, Scripted};
use serde_json::json;

use crate::bench::Problem;

const SCRIPT: &str = include_str!("../data/scripted.toml");

/// The scripted model, which knows the problems that come with the program.
pub fn model() -> Result<Llm, ScriptError> {
    model_for(&Problem::builtin())
}

/// A scripted model that knows these problems.
pub fn model_for(problems: &[Problem]) -> Result<Llm, ScriptError> {
    let mut script: Script = toml::from_str(SCRIPT).map_err(|error| ScriptError {
        script: "coder".to_owned(),
        place: "data/scripted.toml".to_owned(),
        problem: error.to_string(),
    })?;
    let known = problems.iter().flat_map(rules).chain(script.rules).collect();
    script.rules = known;
    Ok(Llm::new(Scripted::new(script)?))
}

/// The answers to a problem: one for each attempt, and the last for all that follow.
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
            "reasoning": "It was written beforehand.",
            "confidence": 0.5,
        }))
        .when_schema("GeneratedCode")
        .when_prompt(condition)
    };
    problem.answers.iter().enumerate().map(rule).collect()
}

/// A text as a template that stands for itself.
fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
