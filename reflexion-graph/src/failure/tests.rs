//! Tests of the classification and comparison of failures.

use super::{Attempt, Class, Failure, group_by_failure, is_stuck};
use crate::{
    answer::GeneratedCode,
    execution::{Execution, Status},
};

fn failed(stderr: &str) -> Failure {
    let execution = Execution { exit_code: Some(1), ..Execution::not_run(Status::Error, stderr) };
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
fn failures_are_classified() {
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
fn error_is_the_line_of_the_last_exception() {
    let frame =
        "Traceback (most recent call last):\n  File \"main.py\", line 3, in f\n    g()\n    ~^^\n";
    for (stderr, error) in [
        // The summary that a test framework prints is ignored.
        (
            format!(
                "F\n====\n{frame}AssertionError: 4 != 8\n\n----\nRan 1 test in 0.0s\n\nFAILED (failures=1)\n"
            ),
            "AssertionError: 4 != 8",
        ),
        // Only the first line of a message is used.
        (format!("{frame}ValueError: no\n  - a\nand b\n"), "ValueError: no"),
        // The last exception in a chain is used.
        (
            format!(
                "{frame}KeyError: 1\n\nDuring handling, another occurred:\n\n{frame}TypeError: x\n"
            ),
            "TypeError: x",
        ),
        (format!("{frame}    assert a == 1\nAssertionError\n"), "AssertionError: assert a == 1"),
        ("warning: x\nlast words\n".to_owned(), "last words"),
    ] {
        assert_eq!(failed(&stderr).error, error, "{stderr}");
    }
    // For a wrong output, the message that the executor has appended takes precedence.
    let handled = format!("{frame}KeyError: 1\nit printed 1");
    let execution = Execution::not_run(Status::WrongOutput, handled);
    assert_eq!(Failure::of(&execution).error, "it printed 1");
}

#[test]
fn equal_failures_are_grouped_and_two_consecutive_ones_count_as_stuck() {
    let attempts = [
        attempt(1, "ValueError: got 17"),
        attempt(2, "KeyError: 'a'"),
        attempt(3, "ValueError: got 4"),
    ];
    let groups = group_by_failure(&attempts);
    let seen: Vec<_> = groups.iter().map(|it| (it.attempts.clone(), it.newest.number)).collect();
    assert_eq!(seen, [(vec![2], 2), (vec![1, 3], 3)]);
    assert!(!is_stuck(&attempts));
    assert!(is_stuck(&[attempt(1, "ValueError: got 17"), attempt(2, "ValueError: got 4")]));
    assert!(!is_stuck(&attempts[..1]));
}

#[test]
fn different_assertions_and_outputs_are_different_failures() {
    let same = |before: Failure, last: Failure| {
        let attempts = [(1, before), (2, last)]
            .map(|(number, it)| Attempt { failure: Some(it), ..attempt(number, "") });
        let stuck = is_stuck(&attempts);
        assert_eq!(group_by_failure(&attempts).len(), if stuck { 1 } else { 2 });
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
    // Memory addresses are ignored, whether or not they contain letters.
    let objects = ["it printed \"<A at 0x7f3c51b2e0a0>\"", "it printed \"<A at 0x7f3c51b2e0bf>\""];
    assert!(same(printed(objects[0]), printed(objects[1])));
    let wrong = |it: &str| failed(&format!("TypeError: <A at {it}> is wrong"));
    assert!(same(wrong("0x7f3c51b2e0a0"), wrong("0x7fffffffffff")));
}
