//! Formats the events and the result of a session for a terminal.

use std::fmt::Write;

use app_support::{plural::counted, terminal::replace_invisible};
use llm::Money;
use reflexion_graph::{
    event::Progress,
    execution::{Execution, Status},
    run::{Report, Run},
};
use sandbox_vm::report::IsolationLevel;

/// Message that tells the user that the answers do not come from a real model.
pub(crate) const SCRIPTED_NOTICE: &str =
    "No provider is configured: a SCRIPTED model answers with prepared programs.";

pub(crate) const NOT_ISOLATED_WARNING: &str = "NOT ISOLATED: programs run directly on this machine with your \
     permissions and your files; omit --sandbox to isolate them.";

/// Maximum number of lines that are shown of each output.
const MAX_LINES: usize = 20;

/// Formats an event.
pub(crate) fn line(event: &Progress) -> String {
    match event {
        Progress::Started { task, model } => {
            format!("Task: {}\nModel: {model}\n", replace_invisible(task))
        }
        Progress::Generating { attempt, resampled: false } => {
            format!("\n[attempt {attempt}] writing a program\n")
        }
        Progress::Generating { attempt, .. } => {
            format!("\n[attempt {attempt}] same error twice: writing a program from scratch\n")
        }
        Progress::Code { code, dependencies, confidence, .. } => {
            let mut text = indented(code.trim(), "  | ", usize::MAX);
            if !dependencies.is_empty() {
                let _ =
                    writeln!(text, "  requires {}", replace_invisible(&dependencies.join(", ")));
            }
            let _ = writeln!(
                text,
                "  {} lines, confidence {confidence:.2}",
                code.trim().lines().count()
            );
            text
        }
        Progress::Executing { attempt } => {
            format!("[attempt {attempt}] running the program in a sandbox\n")
        }
        Progress::ExecutionResult {
            status,
            exit_code,
            stdout,
            stderr,
            duration_ms,
            isolation,
            memory_bounded,
            ..
        } => {
            let mark = if *status == Status::Success { "ok" } else { "FAILED" };
            let code = exit_code.map(|it| format!(", exit code {it}")).unwrap_or_default();
            let isolation = match (isolation, memory_bounded) {
                (Some(IsolationLevel::Off), _) => ", NOT ISOLATED",
                (_, Some(false)) => ", memory NOT BOUNDED",
                _ => "",
            };
            let mut text =
                format!("  {mark}: {}{code}, {duration_ms} ms{isolation}\n", status.description());
            text += &indented(stdout.trim_end(), "  out: ", MAX_LINES);
            text += &indented(stderr.trim_end(), "  err: ", MAX_LINES);
            text
        }
        Progress::Critiquing { attempt, class, error } => {
            let kind = class.name();
            format!(
                "[attempt {attempt}] calling the critic ({kind} error): {}\n",
                replace_invisible(error)
            )
        }
        Progress::Critique { critique, .. } => {
            let mut text = format!("  critique: {}\n", replace_invisible(&critique.diagnosis));
            if !critique.fix_suggestion.is_empty() {
                let _ = writeln!(text, "  fix: {}", replace_invisible(&critique.fix_suggestion));
            }
            text
        }
        // `Error` is not shown here, because the command prints the error when it ends. The other events are implied by
        // the events that follow them.
        _ => String::new(),
    }
}

/// Formats the result of a session.
pub(crate) fn summary(run: &Run, report: &Report) -> String {
    let outcome = &report.outcome;
    let verdict = if outcome.success { "Solved" } else { "NOT solved" };
    let tokens: u64 = report.calls.iter().map(|it| it.input + it.output).sum();
    let cost: Money = report.calls.iter().filter_map(|it| it.cost).sum();
    let mut text = format!(
        "\n{verdict} in {}: {}.\n{}, {tokens} tokens, {cost}.\n",
        counted(outcome.attempts, "attempt", "attempts"),
        replace_invisible(&outcome.message),
        counted(report.calls.len(), "call", "calls"),
    );
    if run.manifest().choice.is_scripted() {
        text +=
            "A scripted model wrote this program; set a provider's API key to use a real model.\n";
    }
    let has_run =
        |test: fn(&Execution) -> bool| report.history.iter().any(|it| test(&it.execution));
    if has_run(|it| it.isolation == Some(IsolationLevel::Off)) {
        text += "NOT ISOLATED: programs of this session ran on this machine without isolation.\n";
    } else if has_run(|it| it.memory_bounded == Some(false)) {
        text += "Memory was NOT BOUNDED by a kernel while programs of this session ran.\n";
    }
    let _ = writeln!(text, "Session: {}", run.dir().display());
    text
}

/// Prefixes each line with `mark`. If there are more than `most` lines, the middle ones are omitted.
fn indented(text: &str, mark: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = String::new();
    for (idx, line) in lines.iter().enumerate() {
        let left_out = lines.len().saturating_sub(most);
        if left_out > 0 && idx == most / 2 {
            let _ = writeln!(shown, "{mark}[… {left_out} lines omitted …]");
        }
        if left_out == 0 || idx < most / 2 || idx >= lines.len() - most / 2 {
            let _ = writeln!(shown, "{mark}{}", replace_invisible(line));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use reflexion_graph::event::Progress;

    use sandbox_vm::report::IsolationLevel;

    use super::{indented, line};

    fn result(stdout: &str, isolation: IsolationLevel, memory_bounded: bool) -> Progress {
        Progress::ExecutionResult {
            attempt: 1,
            status: reflexion_graph::execution::Status::Success,
            exit_code: Some(0),
            stdout: stdout.to_owned(),
            stderr: String::new(),
            duration_ms: 7,
            isolation: Some(isolation),
            memory_bounded: Some(memory_bounded),
        }
    }

    #[test]
    fn control_characters_are_replaced() {
        let stdout = "a\u{1b}[2Jb\nc\u{202e}d\u{e0041}\n";
        assert_eq!(
            line(&result(stdout, IsolationLevel::Process, true)),
            "  ok: success, exit code 0, 7 ms\n  out: a\u{fffd}[2Jb\n  out: c\u{fffd}d\u{fffd}\n"
        );
    }

    #[test]
    fn missing_isolation_and_unbounded_memory_are_shown() {
        for (isolation, memory_bounded, shown) in [
            (IsolationLevel::Process, true, ""),
            (IsolationLevel::Process, false, ", memory NOT BOUNDED"),
            (IsolationLevel::Off, false, ", NOT ISOLATED"),
        ] {
            let expected = format!("  ok: success, exit code 0, 7 ms{shown}\n");
            assert_eq!(line(&result("", isolation, memory_bounded)), expected);
        }
    }

    #[test]
    fn middle_of_long_output_is_omitted() {
        let text: Vec<String> = (1..=9).map(|it| it.to_string()).collect();
        let shown = indented(&text.join("\n"), "> ", 4);
        assert_eq!(shown, "> 1\n> 2\n> [… 5 lines omitted …]\n> 8\n> 9\n");
    }
}
