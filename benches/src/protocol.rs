//! The line protocol between the harness and the programs that execute the workloads, from the side of the program.
//!
//! The program prints its version on the first line. Then each line `WORKLOAD SIZE RUNS` on standard input is answered
//! by one line of JSON: `{"answer": …, "seconds": …, "cpu": …, "memory": …}`, or `{"cannot": …}` with a reason. The
//! times are totals of all runs and exclude the construction of the graph, which is repeated only if another workload
//! or size is requested. The memory is the growth of the resident memory during the runs, at its peak, in bytes.
//!
//! The programs of the Rust peers, in another workspace, include this file.

use std::{
    fs,
    future::Future,
    io::{self, BufRead, Write},
    panic,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    runtime::{Handle, Runtime},
    task::{JoinError, JoinSet},
};

/// Executes a workload once and returns its answer.
pub type Job = Box<dyn FnMut() -> String>;

/// Answers requests until standard input ends. `prepare` builds the graph of a workload at a size, or returns the
/// reason why it cannot.
pub fn serve(
    version: &str,
    prepare: impl Fn(&str, usize) -> Result<Job, String>,
) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", json!({"version": version}))?;
    let mut prepared = None;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let [workload, size, runs] = words[..] else {
            return Err(io::Error::other(format!("`{line}` is not `WORKLOAD SIZE RUNS`")));
        };
        let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
        let request = (workload.to_owned(), number(size)?);
        let mut job = match prepared.take() {
            Some((same, job)) if same == request => job,
            _ => prepare(workload, request.1),
        };
        let answer = match &mut job {
            Ok(job) => measure(job, number(runs)?),
            Err(reason) => json!({"cannot": reason}),
        };
        prepared = Some((request, job));
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// Returns the error message for a workload that the program does not contain.
pub fn unknown(workload: &str) -> String {
    format!("no program for `{workload}`")
}

fn measure(job: &mut Job, runs: usize) -> serde_json::Value {
    // Reset the peak of the resident memory. If this is not permitted, the peak includes the time before the
    // measurement.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (before, cpu, start) = (status_bytes("VmRSS:"), cpu_time(), Instant::now());
    let mut answer = String::new();
    for _ in 0..runs {
        answer = job();
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_time().saturating_sub(cpu));
    let memory = status_bytes("VmHWM:").saturating_sub(before);
    json!({"answer": answer, "seconds": seconds, "cpu": cpu.as_secs_f64(), "memory": memory})
}

/// Returns a value of `/proc/self/status` in bytes, or 0 on systems without it.
fn status_bytes(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) * 1_024
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Creates a job from an async function. Each run is a task on a multi-threaded runtime, as in a server.
pub fn job<F>(run: impl Fn() -> F + 'static) -> Job
where
    F: Future<Output = String> + Send + 'static,
{
    let runtime = runtime();
    Box::new(move || result_of_task(runtime.block_on(runtime.spawn(run()))))
}

/// Returns the result of a task. If the task panicked, resumes the panic without printing another message, because the
/// harness shows the last message on standard error.
fn result_of_task<T>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|error| panic::resume_unwind(error.into_panic()))
}

/// Creates a job that runs tasks concurrently and answers with the sum of their results.
pub fn concurrent<F>(tasks: usize, run: impl Fn() -> F + Send + Sync + 'static) -> Job
where
    F: Future<Output = usize> + Send + 'static,
{
    let run = Arc::new(run);
    job(move || {
        let run = run.clone();
        async move {
            let mut set: JoinSet<usize> = (0..tasks).map(|_| run()).collect();
            let mut sum = 0;
            while let Some(result) = set.join_next().await {
                sum += result_of_task(result);
            }
            sum.to_string()
        }
    })
}

/// Returns the runtime of this program.
pub fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime can be created")).handle()
}
