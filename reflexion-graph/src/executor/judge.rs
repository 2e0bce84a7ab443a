//! Derives the result of an execution from how the program ended.

use std::time::Duration;

use sandbox_vm::{Error, ExceededLimit, ExecLimits, Output, Status as ExitStatus};

use super::{error::ExecutorError, options::OUTPUT};
use crate::{
    execution::{Execution, Status, truncate_middle},
    job::Job,
};

/// Maximum number of characters that a message quotes from an output.
const QUOTED_CHARS: usize = 200;

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
        ExitStatus::Exited(code) => (Status::Error, Some(code)),
        ExitStatus::Limit(cause) => (of_cause(cause), None),
        _ => (Status::Killed, None),
    };
    let milliseconds = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    let mut stderr = truncate_middle(&output.stderr);
    if status == Status::WrongOutput {
        let end = if stderr.is_empty() || stderr.ends_with('\n') { "" } else { "\n" };
        stderr += &format!("{end}{}", wrong.unwrap_or_default());
    }
    Execution {
        status,
        exit_code,
        stdout: truncate_middle(&output.stdout),
        stderr,
        duration_ms: milliseconds(output.usage.wall),
        cpu_ms: milliseconds(output.usage.cpu),
        memory_mb: output.usage.memory.div_ceil(1 << 20),
        ..Execution::default()
    }
}

/// Returns the result of a program whose sandbox crashed or stopped responding.
pub(super) fn of_crash(error: &Error) -> Execution {
    let status = error.exceeded_limit().map_or(Status::Crashed, of_cause);
    Execution::not_run(status, error.to_string())
}

/// Returns the result of a program whose sandbox failed unexpectedly.
pub(super) fn of_error(error: &ExecutorError) -> Execution {
    let why =
        format!("internal error: the sandbox failed, possibly not because of the program: {error}");
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
