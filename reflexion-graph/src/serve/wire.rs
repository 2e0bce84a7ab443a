//! What goes over the wire.

use graph_server::{RunInfo, Status};
use llm::Money;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{models::Allowance, run::Report};

/// A job that is asked for.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    /// What the program is to do.
    pub(super) task: String,
    /// A program that is run behind it and sees its names; it fails where those are wrong.
    pub(super) tests: Option<String>,
    /// What it has to print, apart from blanks around it.
    pub(super) expect: Option<String>,
    /// Attempts, 1 to 10; the server's default where nothing is said.
    pub(super) max_attempts: Option<u32>,
    /// Seconds of an execution, 0.1 to 60; the server's default where nothing is said.
    pub(super) timeout: Option<f64>,
    /// MiB of memory, from 64 to what the server has.
    pub(super) memory: Option<u64>,
    /// Tokens that it may use, in and out together; at most what the server allows.
    pub(super) max_tokens: Option<u64>,
    /// Dollars that it may cost; at most what the server allows.
    pub(super) max_dollars: Option<f64>,
}

impl Execute {
    /// What the job may spend: what its client says, within what the server allows.
    pub(super) fn allowance(&self, most: Allowance) -> Result<Allowance, String> {
        if self.max_tokens == Some(0) {
            return Err("max_tokens is above 0".to_owned());
        }
        if self.max_dollars.is_some_and(|it| !it.is_finite() || it <= 0.0) {
            return Err("max_dollars is above 0".to_owned());
        }
        let wanted =
            Allowance { tokens: self.max_tokens, money: self.max_dollars.map(Money::from_dollars) };
        if let (Some(wanted), Some(most)) = (wanted.tokens, most.tokens)
            && wanted > most
        {
            return Err(format!("this server allows a job {most} tokens"));
        }
        if let (Some(wanted), Some(most)) = (wanted.money, most.money)
            && wanted > most
        {
            return Err(format!("this server allows a job {most}"));
        }
        Ok(Allowance { tokens: wanted.tokens.or(most.tokens), money: wanted.money.or(most.money) })
    }
}

/// A job that was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Taken {
    pub(super) job_id: String,
    pub(super) status: Status,
    /// Where it is asked for.
    pub(super) job_url: String,
    /// Where it tells what happens.
    pub(super) stream_url: String,
}

impl Taken {
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
    /// Why it failed, if its surroundings did.
    pub(super) error: Option<String>,
    /// All that it came to, once it has.
    #[schema(value_type = Option<Object>)]
    pub(super) result: Option<Value>,
}

/// A job in short.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Brief {
    pub(super) success: bool,
    pub(super) attempts: u32,
    pub(super) tokens: u64,
    pub(super) cost_dollars: f64,
}

impl Brief {
    pub(super) fn of(report: &Report) -> Self {
        Self {
            success: report.outcome.success,
            attempts: report.outcome.attempts,
            tokens: report.calls.iter().map(|it| it.input + it.output).sum(),
            cost_dollars: report.calls.iter().filter_map(|it| it.cost).sum::<Money>().dollars(),
        }
    }
}

/// A job in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Listed {
    pub(super) job_id: String,
    pub(super) task: String,
    pub(super) status: Status,
    /// What it came to, once it has.
    pub(super) outcome: Option<Brief>,
}

impl Listed {
    pub(super) fn of(info: &RunInfo) -> Self {
        Self {
            job_id: info.id.clone(),
            task: info.subject.clone(),
            status: info.status,
            outcome: serde_json::from_value(info.outcome.clone()).ok(),
        }
    }
}

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, or `full` where no more jobs are taken.
    pub(super) status: &'static str,
    /// Who writes.
    pub(super) provider: String,
    /// What programs run in, and whether that isolates.
    pub(super) sandbox: &'static str,
    pub(super) isolated: bool,
}

/// What the server has done.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stats {
    pub(super) uptime_seconds: u64,
    /// Jobs of all servers in this folder, by status.
    pub(super) jobs: std::collections::BTreeMap<&'static str, u64>,
    pub(super) pool: PoolView,
}

/// The pool of sandboxes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PoolView {
    /// How many there may be at once.
    pub(super) size: usize,
    /// How many there are.
    pub(super) alive: usize,
    /// How many wait for a program.
    pub(super) ready: usize,
    /// How many run one.
    pub(super) in_use: usize,
    /// How many ran one at once at most.
    pub(super) most_in_use: usize,
    /// Programs that were run.
    pub(super) executions: u64,
    /// Acquisitions that found one ready, and that did not.
    pub(super) warm: u64,
    pub(super) cold: u64,
    /// What acquisitions took, in milliseconds.
    pub(super) acquire_p50_ms: f64,
    pub(super) acquire_p95_ms: f64,
}
