//! Runs of the pipeline, each in its folder.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use graph_server::{Ended, Failure, RunEvent, RunInfo, Runner, Teller};
use sandbox_vm::Isolation;
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    desk::failure,
    wire::{Best, Kept, Order, Outcome},
};
use crate::{
    event::Numbered,
    fence::visible_json,
    models::Limit,
    moves::Move,
    pipeline::Reviewed,
    rank::Ranked,
    report::Report,
    run::{self, Going, Run, RunProblem},
    score::Mark,
};

/// A run that another process works on is looked at again after so long.
const BUSY: Duration = Duration::from_secs(2);

/// Goes on with runs that lie in one folder.
#[derive(Debug, Clone)]
pub(super) struct Folders {
    pub(super) runs: PathBuf,
    /// How much isolation debates need.
    pub(super) isolation: Isolation,
    /// The one back end to use.
    pub(super) backend: Option<String>,
    /// What a run may spend at most, whoever made it and whatever it was told.
    pub(super) most: Limit,
}

impl Folders {
    pub(super) fn of(&self, id: &str) -> PathBuf {
        self.runs.join(id)
    }

    /// How a run is gone on with: what it was told last, or else at first, and no more than the operator allows now.
    fn going(&self, run: &Run, info: &RunInfo) -> Result<Going, Failure> {
        let kept: Kept = serde_json::from_value(info.input.clone()).unwrap_or_default();
        let order: Order = serde_json::from_value(info.order.clone()).unwrap_or_default();
        // After a restart an order is carried out again; the moves lie in the run's folder then.
        let reviewed = match order.moves.filter(|_| !run.is_reviewed()) {
            Some(moves) => Some(read_moves(moves).map_err(Failure)?),
            None => None,
        };
        Ok(Going {
            concurrency: kept.concurrency.max(1),
            // Isolation that a run was told to require is not given up because the server does not require it.
            isolation: Some(match run.manifest().isolation {
                Some(Isolation::Required) => Isolation::Required,
                _ => self.isolation,
            }),
            backend: self.backend.clone(),
            limit: order
                .limit
                .limit()
                .or(run.manifest().limit)
                .or(kept.limit.limit())
                .at_most(self.most),
            reviewed,
            ..Going::default()
        })
    }
}

/// Moves as a client sends them.
pub(super) fn read_moves(moves: Vec<serde_json::Map<String, Value>>) -> Result<Reviewed, String> {
    let read = |(idx, it): (usize, serde_json::Map<String, Value>)| {
        serde_json::from_value::<Move>(Value::Object(it))
            .map_err(|error| format!("move {} of the list: {error}", idx + 1))
    };
    let moves = moves.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    let reviewed = Reviewed { moves };
    reviewed.check()?;
    Ok(reviewed)
}

/// What a run came to, in short.
pub(super) fn outcome(report: &Report) -> Value {
    let title = |id| {
        let found = report.outcome.moves.iter().find(|it| it.move_id == id);
        found.map_or_else(String::new, |it| it.draft.title.clone())
    };
    let best = report.ranking.recommended.iter().map(|it| Best {
        move_id: it.move_id.to_string(),
        title: title(it.move_id),
        score: it.total_score,
    });
    json!(Outcome { recommended: best.collect() })
}

/// Whether a run may come to more than its report says: moves have no score, or debates ended too soon.
fn is_open(report: &Report) -> bool {
    let is_cut = |it: &Ranked| it.marks.contains(&Mark::Incomplete);
    !report.ranking.unscored.is_empty() || report.ranking.all().any(is_cut)
}

#[async_trait]
impl Runner for Folders {
    async fn go(&self, info: &RunInfo, teller: &Teller) -> Result<Ended, Failure> {
        let folder = self.of(&info.id);
        let run = blocking(move || Run::open(folder)).await?;
        let run = run.map_err(|problem| Failure(failure(&info.id, None, &problem)))?;
        let failed = |problem: RunProblem| Failure(failure(&info.id, Some(&run), &problem));
        let ended = loop {
            let tell = |event: &Numbered| {
                let data = serde_json::to_string(event).unwrap_or_default();
                teller.tell(RunEvent { seq: event.seq, data: visible_json(&data).into() });
            };
            match run.go(self.going(&run, info)?, tell).await {
                // Somebody resumed it by hand.
                Err(RunProblem::Busy(_)) => sleep(BUSY).await,
                ended => break ended,
            }
        };
        let folder = self.of(&info.id);
        if let Err(error) = blocking(move || sync(&folder)).await? {
            tracing::error!(run = info.id, %error, "may be lost if the power fails now");
        }
        match ended.map_err(failed)? {
            run::Ended::Done { report, .. } => Ok(Ended::Complete(outcome(&report))),
            run::Ended::Review(review) => {
                run.leave_review(&review).map_err(failed)?;
                Ok(Ended::Waiting)
            }
        }
    }

    fn is_open(&self, run: &RunInfo) -> bool {
        let text = fs::read_to_string(self.of(&run.id).join("report.json")).unwrap_or_default();
        serde_json::from_str(&text).is_ok_and(|it| is_open(&it))
    }

    fn events(&self, run: &str, after: u64, most: usize) -> io::Result<Vec<RunEvent>> {
        read_events(&self.of(run).join("events.jsonl"), after, most)
    }
}

/// Does what may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let failed = |_| Failure("an internal error; the server's log has it".to_owned());
    spawn_blocking(work).await.map_err(failed)
}

/// Lets what lies in a run's folder reach the disk, before the list of runs says that it is there.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Events of a list: the one of number `n` is its line `n`. What is not a whole line yet is none.
fn read_events(path: &Path, after: u64, most: usize) -> io::Result<Vec<RunEvent>> {
    let mut lines = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => BufReader::with_capacity(1 << 16, opened?),
    };
    let mut events = Vec::new();
    let mut line = String::new();
    for seq in 1.. {
        line.clear();
        if events.len() == most || lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            break;
        }
        if seq > after {
            events.push(RunEvent { seq, data: line.trim_end().into() });
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::read_events;

    #[test]
    fn events_are_lines_and_half_a_line_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        assert!(read_events(&path, 0, 9).unwrap().is_empty());
        std::fs::write(&path, "{\"seq\":1}\n{\"seq\":2}\n{\"seq\":3}\n{\"se").unwrap();
        let read = |after, most| -> Vec<(u64, String)> {
            let events = read_events(&path, after, most).unwrap();
            events.into_iter().map(|it| (it.seq, it.data.to_string())).collect()
        };
        assert_eq!(read(1, 9), [(2, "{\"seq\":2}".to_owned()), (3, "{\"seq\":3}".to_owned())]);
        assert_eq!(read(0, 1).len(), 1);
        assert!(read(3, 9).is_empty());
    }
}
