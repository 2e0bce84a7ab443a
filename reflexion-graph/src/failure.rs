//! Failures: their class, which of them are the same, and whether the loop is stuck.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    answer::{Critique, GeneratedCode},
    execution::{Execution, Status},
};

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The program cannot be read.
    Syntax,
    /// It uses a name that does not exist.
    Name,
    /// It uses a value in a way that its type does not allow.
    Type,
    /// A value is not what it should be.
    Value,
    /// A key, an index or an attribute is not there.
    Lookup,
    /// A file is not there or cannot be used.
    File,
    /// An assertion or a test does not hold.
    Assertion,
    /// Its output is not the one that was asked for.
    Output,
    /// It took too long.
    Timeout,
    /// It used too much memory.
    Memory,
    /// It used too much of something else.
    Resources,
    /// A package is not there.
    Dependency,
    /// It wanted the network, or what else the sandbox forbids.
    Forbidden,
    /// The model's answer held no program.
    Format,
    /// The sandbox failed.
    Internal,
    /// Anything else.
    Runtime,
}

impl Class {
    /// The class in words.
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

/// One attempt from its program to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// The program.
    pub generated: GeneratedCode,
    /// Whether it was written afresh because the loop was stuck.
    pub resampled: bool,
    /// What came of it.
    pub execution: Execution,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What the critic said, if it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critique: Option<Critique>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind it is.
    pub class: Class,
    /// The error in one line.
    pub error: String,
}

impl Failure {
    /// Why an execution failed.
    pub fn of(execution: &Execution) -> Self {
        let status = execution.status;
        let said = &*match status {
            Status::Success | Status::Error | Status::Killed | Status::Crashed => {
                exception(&execution.stderr)
            }
            // What is said of the others by the sandbox stands last.
            _ => last_line(&execution.stderr).into(),
        };
        let class = match status {
            Status::Success | Status::Error | Status::Killed | Status::Crashed => of_error(said),
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
            // These say what went wrong; of the others the limit is the reason, whatever was said on the way to it.
            Status::Error
            | Status::WrongOutput
            | Status::TestsCutShort
            | Status::DependencyUnavailable
            | Status::Internal
            | Status::NoProgram
                if !said.is_empty() =>
            {
                said.to_owned()
            }
            _ => format!("the program {}", status.words()),
        };
        Self { class, error }
    }

    /// What it is known by: the same mistake has the same, though a number or an address in its words differs. Where the
    /// numbers are what was asked and what came of it they count: the next assertion that fails, or another wrong result,
    /// is another failure.
    fn identity(&self) -> (Class, String) {
        let error: String = self.error.chars().take(300).collect();
        let words = without_addresses(&error);
        match self.class {
            Class::Assertion | Class::Output => (self.class, words),
            _ => (self.class, without_numbers(&words)),
        }
    }
}

/// A text with one sign for each place in memory, like `0x7f3c51b2e0a0`: they differ from run to run.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_hexdigit());
        // A shorter one is a number that somebody wrote.
        let is_address = part.len() - rest.len() >= 8;
        words += if is_address { "0x#" } else { "0x" };
        words += if is_address { rest } else { part };
    }
    words
}

/// A text with one sign for each number.
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

/// Failures that are the same, as the generator is told of them: the newest program, and all attempts that ended so.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson<'a> {
    /// The attempts.
    pub attempts: Vec<u32>,
    /// The newest of them.
    pub newest: &'a Attempt,
    /// How they failed.
    pub failure: &'a Failure,
}

/// All failures, each once, in the order in which they were seen last.
pub fn lessons(attempts: &[Attempt]) -> Vec<Lesson<'_>> {
    let mut lessons: Vec<Lesson<'_>> = Vec::new();
    for newest in attempts {
        let Some(failure) = &newest.failure else { continue };
        let same = lessons.iter().position(|it| it.failure.identity() == failure.identity());
        let mut seen = same.map(|it| lessons.remove(it).attempts).unwrap_or_default();
        seen.push(newest.number);
        lessons.push(Lesson { attempts: seen, newest, failure });
    }
    lessons
}

/// Whether the last two attempts failed in the same way: to repair once more would be to fail once more.
pub fn is_stuck(attempts: &[Attempt]) -> bool {
    let [.., before, last] = attempts else { return false };
    match (&before.failure, &last.failure) {
        (Some(before), Some(last)) => before.identity() == last.identity(),
        _ => false,
    }
}

/// The line that names what went wrong: that of the last exception, or the last of all.
///
/// An exception's line is the first behind its frames that is not indented. Others may follow: a message can have several
/// lines, and test frameworks sum up. An assertion often says nothing; then its source, which stands above, does.
fn exception(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    let frame = lines.iter().rposition(|it| it.trim_start().starts_with("File \""));
    let named = frame.and_then(|frame| {
        let behind = lines[frame..].iter().position(|it| !it.starts_with([' ', '\t']))?;
        Some(frame + behind)
    });
    let Some(at) = named else { return last_line(text).into() };
    let line = lines[at].trim();
    match lines[..at].iter().rev().map(|it| it.trim()).find(|it| it.starts_with("assert ")) {
        Some(source) if line == "AssertionError" => format!("{line}: {source}").into(),
        _ => line.into(),
    }
}

/// The last line that says anything.
fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default()
}

/// What the kernel says of a limit that it holds by a refusal.
const TOO_MUCH: [&str; 3] = ["Too many open files", "File too large", "No space left on device"];

/// The class of an error by the name of Python's exception, which begins its line, or by the shell's words.
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
        "OSError" if TOO_MUCH.iter().any(|it| line.contains(it)) => Class::Resources,
        "OSError" if line.contains("Network is unreachable") => Class::Forbidden,
        "OSError" if line.contains("Read-only file system") => Class::Forbidden,
        _ if line.contains(": Syntax error: ") => Class::Syntax,
        _ if line.ends_with(": not found") || line.ends_with(": parameter not set") => Class::Name,
        _ => Class::Runtime,
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Class, Failure, is_stuck, lessons};
    use crate::{
        answer::GeneratedCode,
        execution::{Execution, Status},
    };

    fn failed(stderr: &str) -> Failure {
        let execution =
            Execution { exit_code: Some(1), ..Execution::not_run(Status::Error, stderr) };
        Failure::of(&execution)
    }

    fn attempt(number: u32, error: &str) -> Attempt {
        Attempt {
            number,
            generated: GeneratedCode { code: format!("program {number}"), ..Default::default() },
            resampled: false,
            execution: Execution::default(),
            failure: Some(failed(error)),
            critique: None,
        }
    }

    #[test]
    fn failures_have_classes() {
        for (error, class) in [
            ("SyntaxError: invalid syntax", Class::Syntax),
            ("NameError: name 'x' is not defined", Class::Name),
            ("TypeError: unsupported operand", Class::Type),
            ("json.decoder.JSONDecodeError: Expecting value", Class::Value),
            ("KeyError: 'a'", Class::Lookup),
            ("FileNotFoundError: [Errno 2] No such file", Class::File),
            ("AssertionError", Class::Assertion),
            ("ModuleNotFoundError: No module named 'numpy'", Class::Dependency),
            ("urllib.error.URLError: <urlopen error>", Class::Forbidden),
            ("OSError: [Errno 101] Network is unreachable", Class::Forbidden),
            ("main.sh: 1: twice: not found", Class::Name),
            ("main.sh: 3: Syntax error: \"(\" unexpected", Class::Syntax),
            ("boom", Class::Runtime),
        ] {
            assert_eq!(failed(&format!("Traceback\n  line\n{error}\n")).class, class, "{error}");
        }
        for (status, class) in [
            (Status::Timeout, Class::Timeout),
            (Status::OutOfMemory, Class::Memory),
            (Status::TooMuchOutput, Class::Resources),
            (Status::DependencyUnavailable, Class::Dependency),
            (Status::WrongOutput, Class::Output),
        ] {
            assert_eq!(Failure::of(&Execution::not_run(status, "why")).class, class);
        }
        let timed_out = Failure::of(&Execution::not_run(Status::Timeout, "KeyError: 'a'"));
        assert_eq!((timed_out.class, &*timed_out.error), (Class::Timeout, "execution timed out"));
    }

    #[test]
    fn the_error_is_the_exceptions_line_whatever_follows_it() {
        let frame = "Traceback (most recent call last):\n  File \"main.py\", line 3, in f\n    g()\n    ~^^\n";
        for (stderr, error) in [
            // A test framework sums up.
            (
                format!(
                    "F\n====\n{frame}AssertionError: 4 != 8\n\n----\nRan 1 test in 0.0s\n\nFAILED (failures=1)\n"
                ),
                "AssertionError: 4 != 8",
            ),
            // A message of several lines.
            (format!("{frame}ValueError: no\n  - a\nand b\n"), "ValueError: no"),
            // One exception behind another.
            (
                format!(
                    "{frame}KeyError: 1\n\nDuring handling, another occurred:\n\n{frame}TypeError: x\n"
                ),
                "TypeError: x",
            ),
            (
                format!("{frame}    assert a == 1\nAssertionError\n"),
                "AssertionError: assert a == 1",
            ),
            ("warning: x\nlast words\n".to_owned(), "last words"),
        ] {
            assert_eq!(failed(&stderr).error, error, "{stderr}");
        }
        // What the sandbox itself says counts for what it found wrong.
        let handled = format!("{frame}KeyError: 1\nit printed 1");
        let execution = Execution::not_run(Status::WrongOutput, handled);
        assert_eq!(Failure::of(&execution).error, "it printed 1");
    }

    #[test]
    fn the_same_failure_is_told_once_and_twice_in_a_row_is_stuck() {
        let attempts = [
            attempt(1, "ValueError: got 17"),
            attempt(2, "KeyError: 'a'"),
            attempt(3, "ValueError: got 4"),
        ];
        let told = lessons(&attempts);
        let seen: Vec<_> = told.iter().map(|it| (it.attempts.clone(), it.newest.number)).collect();
        assert_eq!(seen, [(vec![2], 2), (vec![1, 3], 3)]);
        assert!(!is_stuck(&attempts));
        assert!(is_stuck(&[attempt(1, "ValueError: got 17"), attempt(2, "ValueError: got 4")]));
        assert!(!is_stuck(&attempts[..1]));
    }

    #[test]
    fn another_assertion_or_another_wrong_result_is_another_failure() {
        let same = |before: Failure, last: Failure| {
            let attempts = [(1, before), (2, last)]
                .map(|(number, it)| Attempt { failure: Some(it), ..attempt(number, "") });
            let stuck = is_stuck(&attempts);
            assert_eq!(lessons(&attempts).len(), if stuck { 1 } else { 2 });
            stuck
        };
        let asserted = |of: &str| {
            failed(&format!("  File \"tests.py\", line 1\n    assert {of}\nAssertionError\n"))
        };
        assert!(!same(asserted("add(1, 2) == 3"), asserted("add(3, 4) == 7")));
        assert!(same(asserted("add(1, 2) == 3"), asserted("add(1, 2) == 3")));
        let printed = |it: &str| Failure::of(&Execution::not_run(Status::WrongOutput, it));
        assert!(!same(printed("it printed \"54\""), printed("it printed \"53\"")));
        assert!(!same(printed("it printed \"0x1f\""), printed("it printed \"0x2f\"")));
        // Where something lies in memory is no difference, with letters or without.
        let objects =
            ["it printed \"<A at 0x7f3c51b2e0a0>\"", "it printed \"<A at 0x7f3c51b2e0bf>\""];
        assert!(same(printed(objects[0]), printed(objects[1])));
        let wrong = |it: &str| failed(&format!("TypeError: <A at {it}> is wrong"));
        assert!(same(wrong("0x7f3c51b2e0a0"), wrong("0x7fffffffffff")));
    }
}
