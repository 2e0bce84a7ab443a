//! From how a program ended to what that means for its job.

use std::time::Duration;

use sandbox_vm::{Cause, Error, ExecLimits, Output, Status as Ended};

use super::OUTPUT;
use crate::{
    execution::{Execution, Status, clip},
    job::Job,
};

/// What a job's program may use.
pub(super) fn limits(job: &Job) -> ExecLimits {
    ExecLimits {
        wall: job.limits.wall(),
        cpu_time: job.limits.cpu(),
        output: OUTPUT,
        memory: Some(job.limits.memory << 20),
        processes: None,
    }
}

/// What came of a program.
pub(super) fn of_output(output: &Output) -> Execution {
    let (status, exit_code) = match output.status {
        Ended::Exited(0) => (Status::Success, Some(0)),
        Ended::Exited(code) => (Status::Error, Some(code)),
        Ended::Limit(cause) => (of_cause(cause), None),
        _ => (Status::Killed, None),
    };
    let milliseconds = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    Execution {
        status,
        exit_code,
        stdout: clip(&output.stdout),
        stderr: clip(&output.stderr),
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

/// Compares what was printed with what was to be printed.
pub(super) fn judge(mut execution: Execution, job: &Job) -> Execution {
    if let Some(expected) = &job.expect
        && execution.success()
        && execution.stdout.trim() != expected.trim()
    {
        execution.status = Status::WrongOutput;
        execution.stderr += &format!("\nit was to print {:?}", expected.trim());
    }
    execution
}
