//! Kills workers at every write and at random times, and then checks the store.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "test code, including helper functions"
)]

use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use graph_core::Durability;
use graph_tests::{
    crash::{
        case::{CrashCase, Expected},
        killing_hook::CrashPlan,
        seed,
        stored_thread::ConsistencyError,
        worker::{WorkerLauncher, WorkerOutcome},
    },
    postgres,
};
use test_support::is_nightly;

const WORKER: &str = env!("CARGO_BIN_EXE_crash-worker");
const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

/// Returns the number of kills per durability mode.
fn kills_per_mode() -> usize {
    if is_nightly() { 340 } else { 22 }
}

/// Number of write points tested per mode. Nightly runs test all write points, before and after the write.
const SAMPLED_POINTS: usize = 14;

#[test]
fn sqlite_loses_nothing_when_killed() {
    check("sqlite", |durability| WorkerLauncher::on_file(WORKER, durability).unwrap());
}

#[test]
fn postgres_loses_nothing_when_killed() {
    let Some(server) = postgres::shared() else { return };
    // On a busy machine, the server may need longer than usual to accept a connection.
    let url = format!("{}?connect_timeout=60", server.fresh_database());
    let n_threads = AtomicUsize::new(0);
    check("postgres", |durability| {
        let thread = format!("job {}", n_threads.fetch_add(1, Ordering::Relaxed));
        WorkerLauncher::on_server(WORKER, &url, thread, durability).unwrap()
    });
}

#[test]
fn dropped_writes_are_detected() {
    let expected = Expected::new();
    for durability in [Durability::Sync, Durability::Async] {
        for from in [5, 12, 20] {
            let launcher = WorkerLauncher::on_file(WORKER, durability).unwrap();
            let mut case = CrashCase::new(&launcher, durability);
            assert_eq!(launcher.run(CrashPlan::DropFrom(from)).unwrap(), WorkerOutcome::Killed);
            let found = case.after_crash();
            assert!(
                matches!(found, Err(ConsistencyError::LostWrite(_))),
                "{durability:?}: {found:?}"
            );
        }
    }
    // A saver that stores all acknowledged writes passes the checks.
    let launcher = WorkerLauncher::on_file(WORKER, Durability::Sync).unwrap();
    assert_eq!(launcher.run(CrashPlan::After(12)).unwrap(), WorkerOutcome::Killed);
    CrashCase::new(&launcher, Durability::Sync).after_crash().unwrap();
    let ended = launcher.run(CrashPlan::NoCrash).unwrap();
    assert!(matches!(&ended, WorkerOutcome::Finished(it) if it.job == expected.job), "{ended:?}");
}

/// Kills workers in each durability mode. Checks the thread after each kill and at the end.
fn check(saver: &str, launcher: impl Fn(Durability) -> WorkerLauncher + Sync) {
    let (expected, seed) = (Expected::new(), seed());
    let kills: Vec<usize> = thread::scope(|scope| {
        let modes = MODES.map(|mode| {
            let (launcher, expected) = (&launcher, &expected);
            scope.spawn(move || ModeTest { saver, mode, seed, launcher, expected }.run_all())
        });
        modes.into_iter().map(|it| it.join().expect("the panic message is printed above")).collect()
    });
    println!("{saver}: {kills:?} kills in modes {MODES:?}, seed {seed}");
    assert!(kills.iter().sum::<usize>() >= if is_nightly() { 1_000 } else { 60 });
}

/// The tests of one saver in one durability mode.
struct ModeTest<'a, F> {
    saver: &'a str,
    mode: Durability,
    seed: u64,
    launcher: &'a F,
    expected: &'a Expected,
}

impl<F: Fn(Durability) -> WorkerLauncher> ModeTest<'_, F> {
    fn run_all(&self) -> usize {
        let (n_points, lifetime) = self.uninterrupted();
        let mut kills = 0;
        for plan in kill_points(n_points) {
            kills += self.kill(&[Kill::AtWrite(plan)]);
        }
        let mut rng = Rng::with_seed(self.seed ^ self.mode as u64);
        while kills < kills_per_mode() {
            let crashes: Vec<Kill> =
                (0..=rng.u8(..4)).map(|_| Kill::any(&mut rng, n_points, lifetime)).collect();
            kills += self.kill(&crashes);
        }
        kills
    }

    /// Runs the job without killing it. Returns the number of write points and the duration.
    fn uninterrupted(&self) -> (usize, Duration) {
        let launcher = (self.launcher)(self.mode);
        let started = Instant::now();
        let ended = launcher.run(CrashPlan::NoCrash).unwrap();
        let lifetime = started.elapsed();
        let WorkerOutcome::Finished(report) = ended else { panic!("{self}: {ended:?}") };
        assert_eq!(report.job, self.expected.job, "{self}");
        let effects = launcher.effects().unwrap();
        assert!(effects.values().all(|it| *it == 1), "{self}: {effects:?}");
        CrashCase::new(&launcher, self.mode).at_end(self.expected).unwrap();
        (report.n_writes, lifetime)
    }

    /// Kills workers one after another and then lets one finish. Returns the number of kills.
    fn kill(&self, crashes: &[Kill]) -> usize {
        let launcher = (self.launcher)(self.mode);
        let mut case = CrashCase::new(&launcher, self.mode);
        let context = |what: &dyn fmt::Debug| {
            format!("{self}, seed {}, after {crashes:?}: {what:?}", self.seed)
        };
        for death in crashes {
            let ended = match death {
                Kill::AtWrite(plan) => launcher.run(*plan).unwrap(),
                Kill::AfterTime(lifetime) => launcher.run_for(*lifetime).unwrap(),
            };
            match ended {
                WorkerOutcome::Killed => {
                    case.after_crash().unwrap_or_else(|it| panic!("{}", context(&it)));
                }
                // The worker finished before it was killed.
                WorkerOutcome::Finished(_) => break,
                other => panic!("{}", context(&other)),
            }
        }
        match launcher.run(CrashPlan::NoCrash).unwrap() {
            WorkerOutcome::Finished(report) => {
                assert_eq!(report.job, self.expected.job, "{}", context(&"different result"));
            }
            other => panic!("{}", context(&other)),
        }
        case.at_end(self.expected).unwrap_or_else(|it| panic!("{}", context(&it)));
        case.crashes()
    }
}

impl<F> fmt::Display for ModeTest<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in mode {:?}", self.saver, self.mode)
    }
}

/// Determines how a worker is killed.
#[derive(Debug)]
enum Kill {
    AtWrite(CrashPlan),
    AfterTime(Duration),
}

impl Kill {
    fn any(rng: &mut Rng, n_points: usize, lifetime: Duration) -> Self {
        let nth = 1 + rng.usize(..n_points);
        match rng.u8(..4) {
            0 => Self::AtWrite(CrashPlan::Before(nth)),
            1 => Self::AtWrite(CrashPlan::After(nth)),
            _ => Self::AfterTime(lifetime.mul_f64(rng.f64())),
        }
    }
}

/// Returns the write points at which workers are killed.
fn kill_points(n_points: usize) -> Vec<CrashPlan> {
    if is_nightly() {
        return (1..=n_points)
            .flat_map(|it| [CrashPlan::Before(it), CrashPlan::After(it)])
            .collect();
    }
    let nth = |index: usize| 1 + index * n_points / SAMPLED_POINTS;
    let plan = |index: usize| match index % 2 {
        0 => CrashPlan::Before(nth(index)),
        _ => CrashPlan::After(nth(index)),
    };
    (0..SAMPLED_POINTS).map(plan).collect()
}
