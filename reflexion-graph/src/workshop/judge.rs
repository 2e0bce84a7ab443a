//! From how a program ended to what that means for its job.

use std::time::Duration;

use sandbox_vm::{Cause, Error, ExecLimits, Output, Status as Ended};

use super::{OUTPUT, WorkshopError};
use crate::{
    execution::{Execution, Status, clip},
    job::Job,
};

/// How many characters of a wrong output are named.
const SHOWN: usize = 200;

/// What a job's program may use.
pub(super) fn limits(job: &Job) -> ExecLimits {
    ExecLimits {
        wall: job.limits.wall(),
        cpu_time: job.limits.cpu(),
        output: OUTPUT,
        memory: Some(job.limits.memory.saturating_mul(1 << 20)),
        processes: None,
    }
}

/// What came of a program.
pub(super) fn of_output(output: &Output, job: &Job) -> Execution {
    let wrong = wrong_output(&output.stdout, job);
    let (status, exit_code) = match output.status {
        Ended::Exited(0) if wrong.is_some() => (Status::WrongOutput, Some(0)),
        Ended::Exited(0) => (Status::Success, Some(0)),
        Ended::Exited(code) => (Status::Error, Some(code)),
        Ended::Limit(cause) => (of_cause(cause), None),
        _ => (Status::Killed, None),
    };
    let milliseconds = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    let mut stderr = clip(&output.stderr);
    if status == Status::WrongOutput {
        let end = if stderr.is_empty() || stderr.ends_with('\n') { "" } else { "\n" };
        stderr += &format!("{end}{}", wrong.unwrap_or_default());
    }
    Execution {
        status,
        exit_code,
        stdout: clip(&output.stdout),
        stderr,
        duration_ms: milliseconds(output.usage.wall),
        cpu_ms: milliseconds(output.usage.cpu),
        memory_mb: output.usage.memory.div_ceil(1 << 20),
        ..Execution::default()
    }
}

/// What is known of a program that took its sandbox with it.
pub(super) fn of_fall(error: &Error) -> Execution {
    let status = error.cause().map_or(Status::Crashed, of_cause);
    Execution::not_run(status, error.to_string())
}

/// What is known of a program whose sandbox failed in a way that nobody expects.
pub(super) fn of_error(error: &WorkshopError) -> Execution {
    let why = format!("internal error: the sandbox failed, and perhaps not the program: {error}");
    Execution::not_run(Status::Internal, why)
}

fn of_cause(cause: Cause) -> Status {
    match cause {
        Cause::Memory => Status::OutOfMemory,
        Cause::CpuTime => Status::CpuTime,
        Cause::Processes => Status::TooManyProcesses,
        Cause::Files => Status::TooManyFiles,
        Cause::Disk => Status::DiskFull,
        Cause::Output => Status::TooMuchOutput,
        _ => Status::Timeout,
    }
}

/// Says what was printed, where it is not what was to be printed. All of it counts, not only what is kept of it.
fn wrong_output(stdout: &[u8], job: &Job) -> Option<String> {
    let expected = job.expect.as_ref()?.trim();
    let printed = String::from_utf8_lossy(stdout);
    let printed = printed.trim();
    let shown = |it: &str| match it.char_indices().nth(SHOWN) {
        None => format!("{it:?}"),
        Some((end, _)) => format!("{:?}… ({} characters)", &it[..end], it.chars().count()),
    };
    (printed != expected)
        .then(|| format!("it printed {}, and was to print {}", shown(printed), shown(expected)))
}
