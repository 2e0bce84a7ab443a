//! Classifies the failures of attempts, compares them, and detects when further attempts repeat the same failure.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    answer::{Critique, GeneratedCode},
    execution::{Execution, Status},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Syntax,
    /// The program uses an undefined name.
    Name,
    /// The program uses a value of the wrong type.
    Type,
    Value,
    /// A key, an index or an attribute does not exist.
    Lookup,
    /// A file does not exist or cannot be used.
    File,
    /// An assertion or a test failed.
    Assertion,
    /// The program did not print the expected output.
    Output,
    /// The program exceeded a time limit.
    Timeout,
    /// The program ran out of memory.
    Memory,
    /// The program exceeded a resource limit other than time or memory.
    Resources,
    /// A package is not available.
    Dependency,
    /// The program used the network or another forbidden resource.
    Forbidden,
    /// The model's answer contains no program.
    Format,
    /// The sandbox failed.
    Internal,
    Runtime,
}

impl Class {
    /// Returns the lower-case name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Name => "name",
            Self::Type => "type",
            Self::Value => "value",
            Self::Lookup => "lookup",
            Self::File => "file",
            Self::Assertion => "assertion",
            Self::Output => "output",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Resources => "resources",
            Self::Dependency => "dependency",
            Self::Forbidden => "forbidden",
            Self::Format => "format",
            Self::Internal => "internal",
            Self::Runtime => "runtime",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub number: u32,
    pub generated: GeneratedCode,
    /// Whether the program was written from scratch because the two attempts before it failed in the same way.
    pub resampled: bool,
    pub execution: Execution,
    /// Why the attempt failed; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The critic's answer, if the critic was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critique: Option<Critique>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: Class,
    /// The error in one line.
    pub error: String,
}

impl Failure {
    /// Derives the failure from the result of an execution.
    pub fn of(execution: &Execution) -> Self {
        let status = execution.status;
        let message = &*match status {
            Status::Success | Status::Error | Status::Killed | Status::Crashed => {
                exception(&execution.stderr)
            }
            // For the other statuses, the last line is a message that the executor has appended.
            _ => last_line(&execution.stderr).into(),
        };
        let class = match status {
            Status::Success | Status::Error | Status::Killed | Status::Crashed => of_error(message),
            Status::WrongOutput => Class::Output,
            Status::TestsCutShort => Class::Assertion,
            Status::Timeout | Status::CpuTime => Class::Timeout,
            Status::OutOfMemory => Class::Memory,
            Status::TooManyProcesses
            | Status::TooManyFiles
            | Status::DiskFull
            | Status::TooMuchOutput => Class::Resources,
            Status::DependencyUnavailable => Class::Dependency,
            Status::NoProgram => Class::Format,
            Status::Internal => Class::Internal,
        };
        let error = match status {
            Status::Timeout => "execution timed out".to_owned(),
            // For these statuses, the error output states the cause. For all other statuses, the status itself is the
            // cause, regardless of the output.
            Status::Error
            | Status::WrongOutput
            | Status::TestsCutShort
            | Status::DependencyUnavailable
            | Status::Internal
            | Status::NoProgram
                if !message.is_empty() =>
            {
                message.to_owned()
            }
            _ => format!("the program {}", status.description()),
        };
        Self { class, error }
    }

    /// Returns the key by which failures are compared. The same mistake has the same key, even if numbers or memory
    /// addresses in the messages differ. For assertions and wrong outputs, numbers are part of the key, because another
    /// failing assertion or another wrong result is a different failure.
    fn identity(&self) -> (Class, String) {
        let error: String = self.error.chars().take(300).collect();
        let words = without_addresses(&error);
        match self.class {
            Class::Assertion | Class::Output => (self.class, words),
            _ => (self.class, without_numbers(&words)),
        }
    }
}

/// Replaces memory addresses such as `0x7f3c51b2e0a0`, which differ between executions, with `0x#`.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_hexdigit());
        // A hexadecimal number with fewer than eight digits is not a memory address.
        let is_address = part.len() - rest.len() >= 8;
        words += if is_address { "0x#" } else { "0x" };
        words += if is_address { rest } else { part };
    }
    words
}

/// Replaces each number with `#`.
fn without_numbers(text: &str) -> String {
    let mut words = String::new();
    for it in text.chars() {
        match it {
            '0'..='9' if words.ends_with('#') => {}
            '0'..='9' => words.push('#'),
            _ => words.push(it),
        }
    }
    words
}

/// A group of attempts that failed in the same way. The prompt of the generator describes each group once.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureGroup<'a> {
    pub attempts: Vec<u32>,
    pub newest: &'a Attempt,
    /// The failure of the newest attempt.
    pub failure: &'a Failure,
}

/// Groups the attempts by failure. The groups are sorted by the number of their newest attempt, in ascending order.
pub(crate) fn group_by_failure(attempts: &[Attempt]) -> Vec<FailureGroup<'_>> {
    let mut groups: Vec<FailureGroup<'_>> = Vec::new();
    for newest in attempts {
        let Some(failure) = &newest.failure else { continue };
        let same = groups.iter().position(|it| it.failure.identity() == failure.identity());
        let mut seen = same.map(|it| groups.remove(it).attempts).unwrap_or_default();
        seen.push(newest.number);
        groups.push(FailureGroup { attempts: seen, newest, failure });
    }
    groups
}

/// Returns whether the last two attempts failed in the same way, so that another repair would likely fail too.
pub(crate) fn is_stuck(attempts: &[Attempt]) -> bool {
    let [.., before, last] = attempts else { return false };
    match (&before.failure, &last.failure) {
        (Some(before), Some(last)) => before.identity() == last.identity(),
        _ => false,
    }
}

/// Returns the line that names the last exception, or the last line if there is no exception.
///
/// That line is the first unindented line after the stack frames. It is not necessarily the last line of the text,
/// because a message can have several lines and test frameworks print a summary. For an assertion without a message,
/// the source line of the assertion is appended.
fn exception(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    let frame = lines.iter().rposition(|it| it.trim_start().starts_with("File \""));
    let named = frame.and_then(|frame| {
        let offset = lines[frame..].iter().position(|it| !it.starts_with([' ', '\t']))?;
        Some(frame + offset)
    });
    let Some(at) = named else { return last_line(text).into() };
    let line = lines[at].trim();
    match lines[..at].iter().rev().map(|it| it.trim()).find(|it| it.starts_with("assert ")) {
        Some(source) if line == "AssertionError" => format!("{line}: {source}").into(),
        _ => line.into(),
    }
}

/// Returns the last line that is not blank.
fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default()
}

/// Error messages of system calls that failed because of a resource limit.
const LIMIT_MESSAGES: [&str; 3] =
    ["Too many open files", "File too large", "No space left on device"];

/// Classifies an error by the name of the Python exception at the start of the line, or by the error message of the
/// shell.
fn of_error(line: &str) -> Class {
    let name = line.split([':', ' ', '(']).next().unwrap_or_default();
    let name = name.rsplit('.').next().unwrap_or_default();
    match name {
        "SyntaxError" | "IndentationError" | "TabError" => Class::Syntax,
        "NameError" | "UnboundLocalError" => Class::Name,
        "TypeError" => Class::Type,
        "ValueError" | "ZeroDivisionError" | "OverflowError" | "UnicodeDecodeError"
        | "UnicodeEncodeError" | "JSONDecodeError" => Class::Value,
        "KeyError" | "IndexError" | "AttributeError" | "LookupError" => Class::Lookup,
        "FileNotFoundError" | "IsADirectoryError" | "NotADirectoryError" | "FileExistsError" => {
            Class::File
        }
        "AssertionError" => Class::Assertion,
        "TimeoutError" => Class::Timeout,
        "MemoryError" => Class::Memory,
        "RecursionError" | "BlockingIOError" => Class::Resources,
        "ModuleNotFoundError" | "ImportError" => Class::Dependency,
        "PermissionError"
        | "ConnectionError"
        | "ConnectionRefusedError"
        | "gaierror"
        | "URLError" => Class::Forbidden,
        "OSError" if LIMIT_MESSAGES.iter().any(|it| line.contains(it)) => Class::Resources,
        "OSError" if line.contains("Network is unreachable") => Class::Forbidden,
        "OSError" if line.contains("Read-only file system") => Class::Forbidden,
        _ if line.contains(": Syntax error: ") => Class::Syntax,
        _ if line.ends_with(": not found") || line.ends_with(": parameter not set") => Class::Name,
        _ => Class::Runtime,
    }
}

#[cfg(test)]
mod tests;
