//! Starts jobs.

use app_support::server::blocking;
use graph_server::{NewRun, RunInfo, http::Problem};
use serde_json::Value;

use super::{app_state::AppState, wire::ExecuteRequest};
use crate::{
    Job, Limits,
    run::{Manifest, Run, RunError, run_id},
};

impl AppState {
    /// Checks a request, creates the session of its job and starts the job.
    pub(super) async fn start_job(&self, request: ExecuteRequest) -> Result<RunInfo, Problem> {
        let limits = Limits {
            timeout: request.timeout.unwrap_or(self.limits.timeout),
            cpu_time: self.limits.cpu_time,
            memory: request.memory.unwrap_or(self.limits.memory),
        };
        if limits.memory > self.limits.memory {
            let most = self.limits.memory;
            return Err(Problem::invalid(format!(
                "memory is {} MiB, but the memory limit of a job on this server is {most} MiB",
                limits.memory,
            )));
        }
        let budget = request.budget(self.budget).map_err(Problem::invalid)?;
        let priced = budget.check(&self.sessions.deps.generator);
        priced.map_err(|error| Problem::invalid(error.to_string()))?;
        let job = Job {
            task: request.task.trim().to_owned(),
            tests: request.tests,
            expect: request.expect,
            max_attempts: request.max_attempts.unwrap_or(self.max_attempts),
            limits,
            ..Job::default()
        };
        job.check().map_err(|error| Problem::invalid(error.to_string()))?;
        // Check that the server accepts jobs before the session is created on disk.
        self.service.check_ready().await?;
        let id = run_id(&job.task).map_err(|error| Problem::internal(&error))?;
        let dir = self.sessions.dir(&id);
        let subject = job.task.clone();
        let (choice, sandbox) = (self.choice.clone(), (*self.sandbox).clone());
        let manifest = Manifest { job, choice, sandbox, budget, earlier_attempts: Vec::new() };
        let made = dir.clone();
        blocking(move || Run::create(made, manifest).map_err(problem)).await?;
        match self.service.start(NewRun { id, subject, input: Value::Null }).await {
            Ok(info) => Ok(info),
            Err(error) => {
                // No client knows the id of the job yet, so its directory can be deleted.
                let _ = tokio::fs::remove_dir_all(dir).await;
                Err(error.into())
            }
        }
    }
}

fn problem(error: RunError) -> Problem {
    match error {
        RunError::Job(problem) => Problem::invalid(problem.to_string()),
        other => Problem::internal(&other),
    }
}
