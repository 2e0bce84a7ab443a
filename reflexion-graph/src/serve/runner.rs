//! Jobs, each a session in its folder.

use std::{io, path::PathBuf};

use async_trait::async_trait;
use graph_server::{Ended, Failure, RunEvent, RunInfo, Runner, Teller};
use serde_json::json;

use super::wire::Brief;
use crate::{
    graph::Deps,
    log::{Numbered, lines},
    run::{EVENTS, Run},
};

/// Goes on with jobs that lie in one folder.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    pub(super) runs: PathBuf,
    pub(super) deps: Deps,
}

impl Sessions {
    pub(super) fn of(&self, id: &str) -> PathBuf {
        self.runs.join(id)
    }
}

#[async_trait]
impl Runner for Sessions {
    async fn go(&self, info: &RunInfo, teller: &Teller) -> Result<Ended, Failure> {
        let failed = |problem: &dyn std::fmt::Display| Failure(problem.to_string());
        let run = Run::open(self.of(&info.id)).map_err(|it| failed(&it))?;
        let tell = |event: &Numbered| {
            let data = serde_json::to_string(event).unwrap_or_default();
            teller.tell(RunEvent { seq: event.seq, data: data.into() });
        };
        let report = run.go(self.deps.clone(), tell).await.map_err(|it| failed(&it))?;
        Ok(Ended::Complete(json!(Brief::of(&report))))
    }

    fn events(&self, run: &str, after: u64, most: usize) -> io::Result<Vec<RunEvent>> {
        let lines = lines(&self.of(run).join(EVENTS), after, most)?;
        Ok(lines.into_iter().map(|(seq, data)| RunEvent { seq, data: data.into() }).collect())
    }
}
