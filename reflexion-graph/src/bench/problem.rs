//! Problems of a benchmark.

use serde::{Deserialize, Serialize};

/// A task with the checks for its solution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    pub id: String,
    pub task: String,
    /// Assertions that are executed after the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<String>,
    /// Output that the program must print.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// Programs that the scripted model returns, one per attempt. The last program is also returned for all later
    /// attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
}

/// Contents of a TOML file that lists problems.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Problems {
    problem: Vec<Problem>,
}

impl Problem {
    pub fn builtin() -> Vec<Self> {
        Self::parse(include_str!("../../data/problems.toml"))
            .expect("the built-in problems are valid")
    }

    pub fn parse(text: &str) -> Result<Vec<Self>, toml::de::Error> {
        Ok(toml::from_str::<Problems>(text)?.problem)
    }

    /// Parses problems in the format of HumanEval: one JSON object per line.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        let lines = text.lines().filter(|it| !it.trim().is_empty());
        lines.map(|it| Ok(serde_json::from_str::<HumanEvalProblem>(it)?.into())).collect()
    }
}

/// A HumanEval problem: the signature and docstring of a function, and a test for the function.
#[derive(Debug, Deserialize)]
struct HumanEvalProblem {
    task_id: String,
    prompt: String,
    entry_point: String,
    test: String,
    canonical_solution: Option<String>,
}

impl From<HumanEvalProblem> for Problem {
    fn from(it: HumanEvalProblem) -> Self {
        let prompt = it.prompt.trim_end();
        Self {
            id: it.task_id,
            task: format!("Write this function completely, with all imports it needs:\n\n{prompt}"),
            tests: Some(format!("{}\n\ncheck({})\n", it.test, it.entry_point)),
            expect: None,
            answers: it
                .canonical_solution
                .iter()
                .map(|end| format!("{}{end}", it.prompt))
                .collect(),
        }
    }
}
