//! JSON bodies of requests and responses.

use graph_server::{RunInfo, Status};
use llm::Money;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{models::RunBudget, run::Report};

/// A request to run a job.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteRequest {
    /// What the program should do.
    pub(super) task: String,
    /// Assertions that are executed after the program, in another process, with access to the program's names.
    pub(super) tests: Option<String>,
    /// Output that the program must print; surrounding whitespace is ignored.
    pub(super) expect: Option<String>,
    /// Maximum number of attempts, 1 to 10. Default: the server's setting.
    pub(super) max_attempts: Option<u32>,
    /// Wall-clock limit of an execution in seconds, 0.1 to 60. Default: the server's setting.
    pub(super) timeout: Option<f64>,
    /// Memory limit in MiB, from 64 to the server's limit.
    pub(super) memory: Option<u64>,
    /// Maximum number of input and output tokens together. Cannot exceed the server's limit.
    pub(super) max_tokens: Option<u64>,
    /// Maximum cost in US dollars. Cannot exceed the server's limit.
    pub(super) max_dollars: Option<f64>,
}

impl ExecuteRequest {
    /// Returns the requested budget, with the server's limits in place of missing values. Fails if a requested value is
    /// invalid or exceeds the server's limit.
    pub(super) fn budget(&self, most: RunBudget) -> Result<RunBudget, String> {
        if self.max_tokens == Some(0) {
            return Err("max_tokens must be greater than 0".to_owned());
        }
        if self.max_dollars.is_some_and(|it| !it.is_finite() || it <= 0.0) {
            return Err("max_dollars must be greater than 0".to_owned());
        }
        let wanted =
            RunBudget { tokens: self.max_tokens, money: self.max_dollars.map(Money::from_dollars) };
        if let (Some(wanted), Some(most)) = (wanted.tokens, most.tokens)
            && wanted > most
        {
            return Err(format!(
                "max_tokens is {wanted}, but a job on this server may use at most {most} tokens"
            ));
        }
        if let (Some(wanted), Some(most)) = (wanted.money, most.money)
            && wanted > most
        {
            return Err(format!(
                "max_dollars is {wanted}, but a job on this server may cost at most {most}"
            ));
        }
        Ok(RunBudget { tokens: wanted.tokens.or(most.tokens), money: wanted.money.or(most.money) })
    }
}

/// Response for a job that was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobAccepted {
    pub(super) job_id: String,
    pub(super) status: Status,
    /// URL of the job.
    pub(super) job_url: String,
    /// URL of the job's event stream.
    pub(super) stream_url: String,
}

impl JobAccepted {
    pub(super) fn of(info: &RunInfo) -> Self {
        let url = format!("/jobs/{}", info.id);
        let stream_url = format!("{url}/stream");
        Self { job_id: info.id.clone(), status: info.status, job_url: url, stream_url }
    }
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobView {
    pub(super) job_id: String,
    pub(super) task: String,
    pub(super) status: Status,
    /// The error that stopped the job, if it failed.
    pub(super) error: Option<String>,
    /// The full result, once the job is complete.
    #[schema(value_type = Option<Object>)]
    pub(super) result: Option<Value>,
}

/// Short form of a job's result.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct JobSummary {
    pub(super) success: bool,
    pub(super) attempts: u32,
    pub(super) tokens: u64,
    pub(super) cost_dollars: f64,
}

impl JobSummary {
    pub(super) fn of(report: &Report) -> Self {
        Self {
            success: report.outcome.success,
            attempts: report.outcome.attempts,
            tokens: report.calls.iter().map(|it| it.input + it.output).sum(),
            cost_dollars: report.calls.iter().filter_map(|it| it.cost).sum::<Money>().dollars(),
        }
    }
}

/// A job in the list of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobListItem {
    pub(super) job_id: String,
    pub(super) task: String,
    pub(super) status: Status,
    /// Result of the job, once it is complete.
    pub(super) outcome: Option<JobSummary>,
}

impl JobListItem {
    pub(super) fn of(info: &RunInfo) -> Self {
        Self {
            job_id: info.id.clone(),
            task: info.subject.clone(),
            status: info.status,
            outcome: serde_json::from_value(info.outcome.clone()).ok(),
        }
    }
}

/// Health of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, or `full` if no more jobs are accepted.
    pub(super) status: &'static str,
    /// Provider of the model that writes programs.
    pub(super) provider: String,
    /// Sandbox back end.
    pub(super) sandbox: &'static str,
    /// How strongly the back end isolates programs from the host: `vm`, `kernel`, `process` or `off`.
    pub(super) isolation: &'static str,
    /// Whether a kernel limits the memory of programs. If not, it is only measured, and a hostile program can hold a
    /// multiple of its limit for a short time.
    pub(super) memory_bounded: bool,
}

/// Statistics of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stats {
    pub(super) uptime_seconds: u64,
    /// Number of jobs in the server's directory, by status.
    pub(super) jobs: std::collections::BTreeMap<&'static str, u64>,
    pub(super) pool: PoolView,
}

/// Statistics of the sandbox pool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PoolView {
    /// Maximum number of sandboxes.
    pub(super) size: usize,
    /// Number of running sandboxes.
    pub(super) alive: usize,
    /// Number of idle sandboxes.
    pub(super) ready: usize,
    /// Number of sandboxes in use.
    pub(super) in_use: usize,
    /// Highest number of sandboxes that were in use at the same time.
    pub(super) most_in_use: usize,
    /// Number of programs executed.
    pub(super) executions: u64,
    /// Number of times that an idle sandbox was available when one was needed.
    pub(super) warm: u64,
    /// Number of times that a sandbox had to be started first.
    pub(super) cold: u64,
    /// Median time to acquire a sandbox, in milliseconds.
    pub(super) acquire_p50_ms: f64,
    /// 95th percentile of the time to acquire a sandbox, in milliseconds.
    pub(super) acquire_p95_ms: f64,
}
