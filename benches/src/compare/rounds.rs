//! Checks the answers of all peers, then measures them in interleaved rounds.

use std::{fs, io, path::Path, time::Duration};

use super::{
    cell::{Cell, Outcome},
    cost::{Sample, cost},
    peer::{Measured, Peer, Reply, Session},
    predict::outcome_without_run,
    workloads::Workload,
};
use crate::{data, table::group_digits};

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Maximum number of rounds.
    pub rounds: usize,
    /// Time for all rounds of one peer at one size. Slow peers get fewer rounds.
    pub budget: Duration,
    /// Maximum expected duration of a run. A peer does not run at sizes at which it would take longer.
    pub longest: Duration,
    /// Time for all workloads. Workloads that would start later are left out.
    pub total: Duration,
    /// Whether to use the quick sizes.
    pub quick: bool,
}

impl Effort {
    /// A measurement for publication.
    pub const FULL: Self = Self {
        rounds: 7,
        budget: Duration::from_secs(1),
        longest: Duration::from_secs(6),
        total: Duration::MAX,
        quick: false,
    };
    /// A measurement of small sizes in few rounds.
    pub const QUICK: Self = Self {
        rounds: 3,
        budget: Duration::from_millis(600),
        longest: Duration::from_secs(2),
        total: Duration::from_secs(200),
        quick: true,
    };

    /// Returns the time after which a program is stopped.
    fn deadline(self) -> Duration {
        self.longest * 4
    }
}

/// Minimum duration of a round. Shorter runs are repeated within the round.
const MIN_ROUND: Duration = Duration::from_millis(20);

/// Duration of a run that is long enough to warm up a program. Programs with shorter runs warm up for a round.
const LONG_RUN: Duration = Duration::from_millis(100);

/// Measures one workload at all sizes.
pub fn measure(
    workload: &'static Workload,
    peers: &[Peer],
    effort: Effort,
    scratch: &Path,
) -> io::Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = Vec::new();
    for &size in if effort.quick { workload.quick } else { workload.sizes } {
        eprintln!("{} {size} …", workload.name);
        let mut sessions = Vec::new();
        for peer in peers {
            let known = outcome_without_run(peer.name, workload, size, &cells, effort.longest);
            sessions.push(match known {
                Some(outcome) => Err(outcome),
                None => peer.start(scratch).map_err(|it| failed(&it)),
            });
        }
        // The programs start concurrently, because some take seconds, and run only when all of them are idle.
        for session in &mut sessions {
            if let Ok(started) = session
                && let Err(error) = started.ready()
            {
                *session = Err(failed(&error));
            }
        }
        let mut checked = Vec::new();
        for session in sessions {
            checked.push(match session {
                Ok(session) => check(session, workload, size, effort, scratch)?,
                Err(outcome) => Err(outcome),
            });
        }
        let expected = checked.iter().flatten().map(|it| it.answer.clone()).next();
        let mut sides = Vec::new();
        for checked in checked {
            let outcome = match checked {
                Ok(it) if Some(&it.answer) != expected.as_ref() => {
                    Err(Outcome::Wrong(format!("wrong answer: {}", it.answer)))
                }
                Ok(it) => Ok(Side::new(workload, size, effort, it)),
                Err(outcome) => Err(outcome),
            };
            sides.push(outcome);
        }
        run_rounds(&mut sides, effort);
        cells.extend(peers.iter().zip(sides).map(|(peer, side)| Cell {
            peer: peer.name,
            kind: peer.kind,
            workload,
            size,
            outcome: side.map_or_else(|it| it, Side::outcome),
        }));
        if let Err(error) = clear(scratch) {
            eprintln!("warning: cannot delete the files in {}: {error}", scratch.display());
        }
    }
    Ok(cells)
}

/// The first run of a peer, and the new process in which it ran. The process then executes the rounds.
struct Checked {
    session: Session,
    answer: String,
    /// Duration, CPU time and memory of the run.
    run: Measured,
    stored: Option<u64>,
}

/// Describes why a program cannot be used.
fn failed(error: &io::Error) -> Outcome {
    Outcome::Absent(match error.kind() {
        io::ErrorKind::NotFound => "not installed".to_owned(),
        _ => format!("failed: {error}"),
    })
}

/// Runs a workload once in a new process.
fn check(
    mut session: Session,
    workload: &Workload,
    size: usize,
    effort: Effort,
    scratch: &Path,
) -> io::Result<Result<Checked, Outcome>> {
    let before = size_of_files(scratch)?;
    Ok(match session.run(workload.name, size, 1, effort.deadline()) {
        Ok(Reply::Done(run)) => {
            let stored = workload.stored.then(|| size_of_files(scratch)).transpose()?;
            let stored = stored.map(|it| it.saturating_sub(before));
            Ok(Checked { session, answer: run.answer.clone(), run, stored })
        }
        Ok(Reply::Cannot { cannot }) => Err(Outcome::Absent(cannot)),
        Err(error) => Err(failed(&error)),
    })
}

/// A peer that returned the correct answer, with the samples of its rounds.
struct Side {
    workload: &'static Workload,
    size: usize,
    checked: Checked,
    runs_per_round: usize,
    /// Whether the first round is a warm-up, which is not measured.
    warms_up: bool,
    /// Number of measured rounds. If it is 0, the peer is too slow to run any round.
    rounds: usize,
    samples: Vec<Sample>,
    failure: Option<String>,
}

impl Side {
    fn new(workload: &'static Workload, size: usize, effort: Effort, checked: Checked) -> Self {
        let once = checked.run.seconds.max(1e-9);
        let runs_per_round = (MIN_ROUND.as_secs_f64() / once).clamp(1.0, 1_000.0) as usize;
        let round = once * runs_per_round as f64;
        let rounds = (effort.budget.as_secs_f64() / round) as usize;
        let rounds = rounds.min(effort.rounds);
        let warms_up = once < LONG_RUN.as_secs_f64();
        let samples = Vec::new();
        Self { workload, size, checked, runs_per_round, warms_up, rounds, samples, failure: None }
    }

    /// Runs one round. Round 0 warms up.
    fn round(&mut self, round: usize, effort: Effort) {
        let wanted = if round == 0 { self.warms_up } else { round <= self.rounds };
        if !wanted || self.failure.is_some() {
            return;
        }
        match self.try_round(effort) {
            Ok(_) if round == 0 => {}
            Ok(sample) => self.samples.push(sample),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    fn try_round(&mut self, effort: Effort) -> io::Result<Sample> {
        let runs = self.runs_per_round;
        let session = &mut self.checked.session;
        let before = session.written_bytes();
        let reply = session.run(self.workload.name, self.size, runs, effort.deadline())?;
        let written = session.written_bytes().zip(before).map(|(after, before)| after - before);
        let Reply::Done(it) = reply else {
            return Err(io::Error::other("the second run was refused"));
        };
        if it.answer != self.checked.answer {
            return Err(io::Error::other(format!(
                "the second run returned a different answer: {}",
                it.answer
            )));
        }
        let units = self.workload.units(self.size) * runs;
        if let Some(written) = written
            && self.workload.stored
            && written < (units * data::MESSAGE_SIZE) as u64
        {
            let (written, units) = (group_digits(written as usize), group_digits(units));
            return Err(io::Error::other(format!(
                "does not store its steps: it wrote only {written} bytes in {units} steps"
            )));
        }
        Ok(self.sample(&it, runs))
    }

    fn sample(&self, measured: &Measured, runs: usize) -> Sample {
        let units = (self.workload.units(self.size) * runs) as f64;
        Sample { time: measured.seconds * 1e9 / units, cpu: measured.cpu * 1e9 / units }
    }

    fn outcome(self) -> Outcome {
        if let Some(failure) = self.failure {
            return Outcome::Absent(format!("failed: {failure}"));
        }
        let Checked { run, stored, .. } = &self.checked;
        Outcome::Measured(cost(&self.samples, self.sample(run, 1), run.memory, *stored))
    }
}

/// Runs the rounds. In each round every peer runs once, so that load on the machine affects all of them equally.
fn run_rounds(sides: &mut [Result<Side, Outcome>], effort: Effort) {
    for round in 0..=effort.rounds {
        let count = sides.len();
        // The order changes from round to round.
        for index in 0..count {
            if let Ok(side) = &mut sides[(index + round) % count] {
                side.round(round, effort);
            }
        }
    }
}

/// Deletes the files of programs that have ended.
fn clear(scratch: &Path) -> io::Result<()> {
    for file in fs::read_dir(scratch)? {
        let file = file?;
        match file.file_type()?.is_dir() {
            true => fs::remove_dir_all(file.path())?,
            false => fs::remove_file(file.path())?,
        }
    }
    Ok(())
}

fn size_of_files(scratch: &Path) -> io::Result<u64> {
    fs::read_dir(scratch)?.map(|it| Ok(it?.metadata()?.len())).sum()
}
