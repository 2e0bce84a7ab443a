//! Runs the jobs of the server.

use std::{io, path::PathBuf};

use app_support::lines::read_lines;
use async_trait::async_trait;
use graph_server::{EventSender, RunEvent, RunInfo, Runner, RunnerError, RunnerOutcome};
use serde_json::json;

use super::wire::JobSummary;
use crate::{
    event::NumberedEvent,
    graph::Deps,
    run::{EVENTS, Run},
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
        let failed = |problem: &dyn std::fmt::Display| RunnerError(problem.to_string());
        let run = Run::open(self.dir(&info.id)).map_err(|it| failed(&it))?;
        let on_event = |event: &NumberedEvent| {
            let data = serde_json::to_string(event).unwrap_or_default();
            sender.send(RunEvent { seq: event.seq, data: data.into() });
        };
        let report = run.run(self.deps.clone(), on_event).await.map_err(|it| failed(&it))?;
        Ok(RunnerOutcome::Complete(json!(JobSummary::of(&report))))
    }

    fn events(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>> {
        let lines = read_lines(&self.dir(run).join(EVENTS), after, limit)?;
        Ok(lines.into_iter().map(|(seq, data)| RunEvent { seq, data: data.into() }).collect())
    }
}
