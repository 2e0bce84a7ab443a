//! The scripted model that is used if no provider is configured.
//!
//! It returns prepared programs for the example tasks and for the problems of the [benchmark](crate::bench). The
//! program for a benchmark problem can depend on the attempt. For any other task, it answers that it has no program.

use llm::{Llm, Request, Scripted};
use serde_json::{Value, json};

use crate::{
    answer::{Critique, GeneratedCode},
    bench::Problem,
};

/// Largest number for which the program of the Fibonacci example is fast enough.
const MAX_FIBONACCI: u8 = 29;

/// Error message of the program that is returned for an unknown task.
const NO_PROGRAM: &str = "The scripted model has no program for this task.";

const READ_USERS_FILE: &str = r#"import json

with open("users.json") as file:
    data = json.load(file)
for user in data:
    print(user["username"])
"#;

const PRINT_SAMPLE_USERS: &str = r#"import json

# The sandbox contains no files, so the data is defined here.
sample_data = json.loads('[{"username": "alice", "id": 1}, {"username": "bob", "id": 2}, {"username": "charlie", "id": 3}]')

for user in sample_data:
    print(user["username"])
"#;

/// Creates a scripted model for the built-in problems.
pub fn model() -> Llm {
    model_for(&Problem::builtin())
}

/// Creates a scripted model for the given problems.
pub fn model_for(problems: &[Problem]) -> Llm {
    let problems = problems.to_vec();
    Llm::new(Scripted::new("coder", move |request: &Request| answer(request, &problems)))
}

fn answer(request: &Request, problems: &[Problem]) -> Value {
    let prompt = request.prompt();
    if request.schema.as_ref().is_some_and(|it| it.name == "Critique") {
        return json!(critique(&prompt));
    }
    let problem = problems.iter().find_map(|it| prepared_answer(it, &prompt));
    json!(problem.or_else(|| fibonacci(&prompt)).or_else(|| users(&prompt)).unwrap_or_else(unknown))
}

/// Returns the prepared program for the attempt that the prompt asks for. If there are more attempts than programs,
/// returns the last program.
fn prepared_answer(problem: &Problem, prompt: &str) -> Option<GeneratedCode> {
    if !prompt.contains(&format!("Task: {}\n", problem.task.trim())) {
        return None;
    }
    let is_attempt = |number: usize| prompt.contains(&format!("This is attempt {number} of"));
    let (last, earlier) = problem.answers.split_last()?;
    let code = (1..).zip(earlier).find(|(number, _)| is_attempt(*number)).map_or(last, |it| it.1);
    Some(program(code, "This program was prepared in advance.", 0.5))
}

fn fibonacci(prompt: &str) -> Option<GeneratedCode> {
    let task = prompt.lines().next()?.to_lowercase();
    let number = match task.strip_prefix("task: calculate fibonacci(") {
        Some(rest) => rest.split_once(')')?.0.parse().ok().filter(|it| *it <= MAX_FIBONACCI)?,
        None if task.starts_with("task: calculate the 10th fibonacci number") => 10_u8,
        None => return None,
    };
    let code = format!(
        "def fibonacci(n):\n    if n <= 1:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n\
         print(fibonacci({number}))\n"
    );
    let reasoning = "The textbook recursion is fast enough for such a small number.";
    Some(program(&code, reasoning, 0.95))
}

/// Returns a program for the example task that reads `users.json`. The program of the first attempt fails, because it
/// expects that file; the program of the next attempt contains sample data instead.
fn users(prompt: &str) -> Option<GeneratedCode> {
    if !prompt.starts_with("Task: Read data from users.json and print usernames") {
        return None;
    }
    Some(if prompt.contains("FileNotFoundError") {
        let reasoning =
            "users.json does not exist in the sandbox, so the program uses inline sample data.";
        program(PRINT_SAMPLE_USERS, reasoning, 0.9)
    } else {
        program(READ_USERS_FILE, "Read the file and print each user's name.", 0.85)
    })
}

fn unknown() -> GeneratedCode {
    let code = format!("import sys\n\nsys.exit({NO_PROGRAM:?})\n");
    program(&code, "The script contains no program for this task.", 0.0)
}

fn program(code: &str, reasoning: &str, confidence: f64) -> GeneratedCode {
    let (code, reasoning) = (code.to_owned(), reasoning.to_owned());
    GeneratedCode { code, dependencies: Vec::new(), reasoning, confidence }
}

fn critique(prompt: &str) -> Critique {
    let critique = |diagnosis: &str, fix_suggestion: &str, should_retry, confidence| Critique {
        diagnosis: diagnosis.to_owned(),
        fix_suggestion: fix_suggestion.to_owned(),
        should_retry,
        confidence,
    };
    if prompt.contains("users.json") && prompt.contains("FileNotFoundError") {
        critique(
            "The program opens users.json, which does not exist: the sandbox contains no files.",
            "Use inline sample data, or handle the FileNotFoundError.",
            true,
            0.9,
        )
    } else if prompt.contains(NO_PROGRAM) {
        critique(
            "The scripted model only plays back built-in programs and has none for this task.",
            "Set a provider's API key, for example ANTHROPIC_API_KEY or GROQ_API_KEY, in the environment or in .env \
             and run again.",
            false,
            1.0,
        )
    } else {
        critique(
            "The program does not solve the task; see its error.",
            "Work through the examples step by step and fix the first step with a different result.",
            true,
            0.5,
        )
    }
}
