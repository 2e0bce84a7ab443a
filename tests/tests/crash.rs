//! Workers that are killed at every write and at any time, and what must be true afterwards.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, the functions beside the tests too"
)]

use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use graph_core::Durability;
use graph_tests::{
    crash::{
        case::{Case, Expected},
        dying::Plan,
        is_nightly,
        rng::Rng,
        seed,
        sight::Broken,
        worker::{Ended, Post},
    },
    postgres,
};

const WORKER: &str = env!("CARGO_BIN_EXE_crash-worker");
const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

/// How many kills each mode of durability gets; a saver gets three times as many.
fn goal() -> usize {
    if is_nightly() { 340 } else { 22 }
}

/// How many write points an ordinary run tries of each mode; a nightly one tries all, from both sides.
const POINTS: usize = 14;

#[test]
fn sqlite_loses_nothing_when_killed() {
    check("sqlite", |durability| Post::on_file(WORKER, durability).unwrap());
}

#[test]
fn postgres_loses_nothing_when_killed() {
    let Some(server) = postgres::shared() else { return };
    let (url, n_threads) = (server.fresh_database(), AtomicUsize::new(0));
    check("postgres", |durability| {
        let thread = format!("job {}", n_threads.fetch_add(1, Ordering::Relaxed));
        Post::on_server(WORKER, &url, thread, durability).unwrap()
    });
}

#[test]
fn a_saver_that_lies_is_found_out() {
    let expected = Expected::new();
    for durability in [Durability::Sync, Durability::Async] {
        for from in [5, 12, 20] {
            let post = Post::on_file(WORKER, durability).unwrap();
            let mut case = Case::new(&post, durability);
            assert_eq!(post.run(Plan::Lie(from)).unwrap(), Ended::Killed);
            let found = case.after_death();
            assert!(matches!(found, Err(Broken::LostWrite(_))), "{durability:?}: {found:?}");
        }
    }
    // And an honest one is not.
    let post = Post::on_file(WORKER, Durability::Sync).unwrap();
    assert_eq!(post.run(Plan::After(12)).unwrap(), Ended::Killed);
    Case::new(&post, Durability::Sync).after_death().unwrap();
    let ended = post.run(Plan::Live).unwrap();
    assert!(matches!(&ended, Ended::Finished(it) if it.job == expected.job), "{ended:?}");
}

/// Kills workers until each mode has had its share, and checks the thread after each death and at the end.
fn check(saver: &str, post: impl Fn(Durability) -> Post + Sync) {
    let (expected, seed) = (Expected::new(), seed());
    let kills: Vec<usize> = thread::scope(|scope| {
        let modes = MODES.map(|mode| {
            let (post, expected) = (&post, &expected);
            scope.spawn(move || Mode { saver, mode, seed, post, expected }.kill_all())
        });
        modes.into_iter().map(|it| it.join().expect("the mode's own words are above")).collect()
    });
    println!("{saver}: {kills:?} kills in modes {MODES:?}, seed {seed}");
    assert!(kills.iter().sum::<usize>() >= if is_nightly() { 1_000 } else { 60 });
}

/// One saver in one mode of durability.
struct Mode<'a, F> {
    saver: &'a str,
    mode: Durability,
    seed: u64,
    post: &'a F,
    expected: &'a Expected,
}

impl<F: Fn(Durability) -> Post> Mode<'_, F> {
    fn kill_all(&self) -> usize {
        let (n_points, life) = self.uninterrupted();
        let mut kills = 0;
        for plan in plans(n_points) {
            kills += self.kill(&[Death::At(plan)]);
        }
        let mut rng = Rng::new(self.seed ^ self.mode as u64);
        while kills < goal() {
            let deaths: Vec<Death> =
                (0..=rng.below(4)).map(|_| Death::any(&mut rng, n_points, life)).collect();
            kills += self.kill(&deaths);
        }
        kills
    }

    /// Runs the job without a death, and gives the number of its write points and the time it took.
    fn uninterrupted(&self) -> (usize, Duration) {
        let post = (self.post)(self.mode);
        let born = Instant::now();
        let ended = post.run(Plan::Live).unwrap();
        let life = born.elapsed();
        let Ended::Finished(report) = ended else { panic!("{self}: {ended:?}") };
        assert_eq!(report.job, self.expected.job, "{self}");
        let effects = post.effects().unwrap();
        assert!(effects.values().all(|it| *it == 1), "{self}: {effects:?}");
        Case::new(&post, self.mode).at_end(self.expected).unwrap();
        (report.n_writes, life)
    }

    /// Lets workers die one after the other, and another one finish. Gives the number of deaths.
    fn kill(&self, deaths: &[Death]) -> usize {
        let post = (self.post)(self.mode);
        let mut case = Case::new(&post, self.mode);
        let context = |what: &dyn fmt::Debug| {
            format!("{self}, seed {}, after {deaths:?}: {what:?}", self.seed)
        };
        for death in deaths {
            let ended = match death {
                Death::At(plan) => post.run(*plan).unwrap(),
                Death::Within(life) => post.run_for(*life).unwrap(),
            };
            match ended {
                Ended::Killed => {
                    case.after_death().unwrap_or_else(|it| panic!("{}", context(&it)));
                }
                // It was done sooner than the death would have come.
                Ended::Finished(_) => break,
                other => panic!("{}", context(&other)),
            }
        }
        match post.run(Plan::Live).unwrap() {
            Ended::Finished(report) => {
                assert_eq!(report.job, self.expected.job, "{}", context(&"another end"));
            }
            other => panic!("{}", context(&other)),
        }
        case.at_end(self.expected).unwrap_or_else(|it| panic!("{}", context(&it)));
        case.deaths()
    }
}

impl<F> fmt::Display for Mode<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in mode {:?}", self.saver, self.mode)
    }
}

/// How a worker comes to die.
#[derive(Debug)]
enum Death {
    At(Plan),
    Within(Duration),
}

impl Death {
    fn any(rng: &mut Rng, n_points: usize, life: Duration) -> Self {
        let nth = 1 + rng.below(n_points as u64) as usize;
        match rng.below(4) {
            0 => Self::At(Plan::Before(nth)),
            1 => Self::At(Plan::After(nth)),
            _ => Self::Within(life.mul_f64(rng.below(1_000) as f64 / 1_000.0)),
        }
    }
}

/// The write points to try.
fn plans(n_points: usize) -> Vec<Plan> {
    if is_nightly() {
        return (1..=n_points).flat_map(|it| [Plan::Before(it), Plan::After(it)]).collect();
    }
    let nth = |index: usize| 1 + index * n_points / POINTS;
    let plan = |index: usize| match index % 2 {
        0 => Plan::Before(nth(index)),
        _ => Plan::After(nth(index)),
    };
    (0..POINTS).map(plan).collect()
}
