//! Runs the jobs of the server.

use std::{io, path::PathBuf};

use app_support::{files::redact_dir, lines::read_lines};
use async_trait::async_trait;
use graph_server::{EventSender, RunEvent, RunInfo, Runner, RunnerError, RunnerOutcome};
use serde_json::json;

use super::wire::JobSummary;
use crate::{
    event::NumberedEvent,
    graph::Deps,
    run::{EVENTS, Run, RunError},
};

/// Runs sessions that are stored in subdirectories of one directory.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    pub(super) runs: PathBuf,
    pub(super) deps: Deps,
}

impl Sessions {
    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.runs.join(id)
    }
}

#[async_trait]
impl Runner for Sessions {
    async fn execute(
        &self,
        info: &RunInfo,
        sender: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError> {
        let dir = self.dir(&info.id);
        // Clients must not see the paths of this host.
        let failed = |error: RunError| {
            tracing::error!(job = info.id, %error, "job failed");
            RunnerError(redact_dir(&error.to_string(), &dir, "the job's directory"))
        };
        let run = Run::open(dir.clone()).map_err(failed)?;
        let on_event = |event: &NumberedEvent| {
            let data = serde_json::to_string(event).unwrap_or_default();
            sender.send(RunEvent { seq: event.seq, data: data.into() });
        };
        let report = run.run(self.deps.clone(), on_event).await.map_err(failed)?;
        Ok(RunnerOutcome::Complete(json!(JobSummary::of(&report))))
    }

    fn events(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>> {
        let lines = read_lines(&self.dir(run).join(EVENTS), after, limit)?;
        Ok(lines.into_iter().map(|(seq, data)| RunEvent { seq, data: data.into() }).collect())
    }
}
