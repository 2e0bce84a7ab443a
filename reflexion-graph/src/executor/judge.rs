//! Derives the result of an execution from how the program ended.

use std::time::Duration;

use sandbox_vm::{
    Error, ExceededLimit, ExecLimits, Output, PartialOutput, Status as ExitStatus, Usage,
};

use super::{error::ExecutorError, options::OUTPUT};
use crate::{
    execution::{Execution, Status, truncate_middle},
    job::Job,
    language::TESTS_CUT_SHORT,
};

/// Maximum number of characters that a message quotes from an output.
const QUOTED_CHARS: usize = 200;

/// Message for a program that ended before its tests completed.
const CUT_SHORT_MESSAGE: &str =
    "the program exited before its tests completed; it must not exit the process";

/// Returns the limits for each execution of a job's program.
pub(super) fn limits(job: &Job) -> ExecLimits {
    ExecLimits {
        wall: job.limits.wall(),
        cpu_time: job.limits.cpu(),
        output: OUTPUT,
        memory: Some(job.limits.memory.saturating_mul(1 << 20)),
        processes: None,
    }
}

/// Converts the output of a program to an execution result.
pub(super) fn of_output(output: &Output, job: &Job) -> Execution {
    let wrong = wrong_output(&output.stdout, job);
    let (status, exit_code) = match output.status {
        ExitStatus::Exited(0) if wrong.is_some() => (Status::WrongOutput, Some(0)),
        ExitStatus::Exited(0) => (Status::Success, Some(0)),
        ExitStatus::Exited(code @ TESTS_CUT_SHORT) if job.tests.is_some() => {
            (Status::TestsCutShort, Some(code))
        }
        ExitStatus::Exited(code) => (Status::Error, Some(code)),
        ExitStatus::Limit(cause) => (of_cause(cause), None),
        _ => (Status::Killed, None),
    };
    let mut stderr = truncate_middle(&output.stderr);
    let cause = match status {
        Status::WrongOutput => wrong,
        Status::TestsCutShort => Some(CUT_SHORT_MESSAGE.to_owned()),
        _ => None,
    };
    if let Some(cause) = cause {
        append_line(&mut stderr, &cause);
    }
    Execution {
        status,
        exit_code,
        stdout: truncate_middle(&output.stdout),
        stderr,
        ..of_usage(&output.usage)
    }
}

/// Returns the result of a program whose sandbox crashed or stopped responding. The result has the output that the
/// program wrote before.
pub(super) fn of_crash(error: &Error, partial: &PartialOutput) -> Execution {
    let mut stderr = truncate_middle(&partial.stderr);
    append_line(&mut stderr, &error.to_string());
    Execution {
        status: error.exceeded_limit().map_or(Status::Crashed, of_cause),
        stdout: truncate_middle(&partial.stdout),
        stderr,
        ..of_usage(&partial.usage)
    }
}

/// Returns a result that has only the used resources.
fn of_usage(usage: &Usage) -> Execution {
    let milliseconds = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    Execution {
        duration_ms: milliseconds(usage.wall),
        cpu_ms: milliseconds(usage.cpu),
        memory_mb: usage.memory.div_ceil(1 << 20),
        ..Execution::default()
    }
}

/// Appends a line to a text, on its own line.
fn append_line(text: &mut String, line: &str) {
    if !(text.is_empty() || text.ends_with('\n')) {
        text.push('\n');
    }
    text.push_str(line);
}

/// Returns the result of a program whose sandbox failed unexpectedly.
pub(super) fn of_error(error: &ExecutorError) -> Execution {
    let why = format!(
        "internal error: the sandbox failed, perhaps for a reason unrelated to the program: {error}"
    );
    Execution::not_run(Status::Internal, why)
}

fn of_cause(cause: ExceededLimit) -> Status {
    match cause {
        ExceededLimit::Memory => Status::OutOfMemory,
        ExceededLimit::CpuTime => Status::CpuTime,
        ExceededLimit::Processes => Status::TooManyProcesses,
        ExceededLimit::Files | ExceededLimit::OpenFiles => Status::TooManyFiles,
        ExceededLimit::Disk => Status::DiskFull,
        ExceededLimit::Output => Status::TooMuchOutput,
        _ => Status::Timeout,
    }
}

/// Returns a message if the output differs from the output that the job requires. Compares the complete output, before
/// it is truncated.
fn wrong_output(stdout: &[u8], job: &Job) -> Option<String> {
    let expected = job.expect.as_ref()?.trim();
    let printed = String::from_utf8_lossy(stdout);
    let printed = printed.trim();
    let shown = |it: &str| match it.char_indices().nth(QUOTED_CHARS) {
        None => format!("{it:?}"),
        Some((end, _)) => format!("{:?}… ({} characters)", &it[..end], it.chars().count()),
    };
    (printed != expected)
        .then(|| format!("it printed {} instead of {}", shown(printed), shown(expected)))
}
