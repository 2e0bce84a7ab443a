//! Two processes race for one thread, round after round: each step is won by exactly one of them.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, the functions beside the tests too"
)]

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use graph_core::{
    Checkpointer, Exit,
    checkpoint::{History, Lookup},
};
use graph_tests::{
    crash::{
        race::{self, Lap, Way},
        saver::Home,
    },
    postgres,
};
use tokio::runtime::Runtime;

const WORKER: &str = env!("CARGO_BIN_EXE_crash-worker");
const ROUNDS: u64 = 1_000;

#[test]
fn one_of_two_wins_each_step_of_a_sqlite_thread() {
    let folder = tempfile::tempdir().unwrap();
    check(&Home::Sqlite(folder.path().join("threads.db")));
}

#[test]
fn one_of_two_wins_each_step_of_a_postgres_thread() {
    let Some(server) = postgres::shared() else { return };
    check(&Home::Postgres(server.fresh_database()));
}

fn check(home: &Home) {
    // One for all calls: a saver may keep connections in the runtime that it was opened in.
    let runtime = Runtime::new().unwrap();
    let saver = runtime.block_on(home.open()).unwrap();
    for way in [Way::Leased, Way::Unleased, Way::Graph] {
        let born = Instant::now();
        let tally = match way {
            Way::Leased | Way::Unleased => race_on_a_head(home, way),
            Way::Graph => {
                runtime.block_on(start_graph(saver.clone()));
                race_in_a_graph(home)
            }
        };
        println!("{}: {tally:?} in {:?}", way.word(), born.elapsed());
        assert!(tally.one.min(tally.other) > 0, "both must win at times: {tally:?}");
        runtime.block_on(assert_stored(&*saver, way, tally.one + tally.other));
    }
}

/// How often each of the two won.
#[derive(Debug, Default)]
struct Tally {
    one: u64,
    other: u64,
}

/// Both put a checkpoint on the same head: one is stored, and the other is refused.
fn race_on_a_head(home: &Home, way: Way) -> Tally {
    let mut racers = [Racer::new(home, way), Racer::new(home, way)];
    let mut tally = Tally::default();
    for round in 1..=ROUNDS {
        assert_eq!(both(&mut racers, "look", round), ["ready", "ready"], "round {round}");
        let answers = both(&mut racers, "go", round);
        let won = format!("won {round}");
        match answers.each_ref().map(|it| (*it == won, is_refusal(it, way))) {
            [(true, _), (_, true)] => tally.one += 1,
            [(_, true), (true, _)] => tally.other += 1,
            _ => panic!("{} in round {round}: {answers:?}", way.word()),
        }
    }
    tally
}

/// Takes the graph's first step, so that the racers have something to go on from.
async fn start_graph(saver: Arc<dyn Checkpointer>) {
    let first = race::graph(saver).thread(Way::Graph.word(), ()).run(Lap::default()).await;
    assert!(matches!(first.unwrap(), Exit::Stopped { state: Lap { count: 1 }, .. }));
}

/// Both let a graph take a step: they may come after each other, and then both take one; no step is taken twice.
fn race_in_a_graph(home: &Home) -> Tally {
    let mut racers = [Racer::new(home, Way::Graph), Racer::new(home, Way::Graph)];
    let mut tally = Tally { one: 1, other: 0 };
    for round in 1..=ROUNDS {
        let next = tally.one + tally.other + 1;
        let answers = both(&mut racers, "go", round);
        let mut won = Vec::new();
        for (index, answer) in answers.iter().enumerate() {
            match answer.strip_prefix("won ") {
                Some(step) => {
                    won.push(step.parse::<u64>().unwrap());
                    *[&mut tally.one, &mut tally.other][index] += 1;
                }
                None => assert!(is_refusal(answer, Way::Graph), "round {round}: {answers:?}"),
            }
        }
        won.sort_unstable();
        let expected: Vec<u64> = (next..).take(won.len()).collect();
        assert!(!won.is_empty() && won == expected, "round {round}: {answers:?}, {next} is next");
    }
    tally
}

/// Whether a racer was told that it came too late, and how that fits the way it took.
fn is_refusal(answer: &str, way: Way) -> bool {
    match way {
        // Without a lease only the head check stands between them.
        Way::Unleased => answer == "moved",
        Way::Leased | Way::Graph => ["busy", "moved", "lost"].contains(&answer),
    }
}

/// Checks that the thread has a checkpoint for each step that was won, and no other.
async fn assert_stored(saver: &dyn Checkpointer, way: Way, n_won: u64) {
    let head = saver.get(&Lookup::head(way.word(), "")).await.unwrap().unwrap();
    assert_eq!(head.values["count"], n_won);
    let history = saver.list(&History::of(way.word(), "")).await.unwrap();
    // The graph's first run stores its input too, and START.
    let before = if way == Way::Graph { 2 } else { 0 };
    assert_eq!(history.len() as u64, n_won + before);
    for pair in history.windows(2) {
        assert_eq!(pair[0].header.parent, Some(pair[1].place.id));
        assert_eq!(pair[0].header.step, pair[1].header.step + 1);
    }
}

/// Gives both an order, and then waits for both answers.
fn both(racers: &mut [Racer; 2], order: &str, round: u64) -> [String; 2] {
    // Who is told first has a start, so they take turns.
    let first = (round % 2) as usize;
    racers[first].tell(order);
    racers[1 - first].tell(order);
    racers.each_mut().map(Racer::hear)
}

/// A process that takes orders.
struct Racer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Racer {
    fn new(home: &Home, way: Way) -> Self {
        let mut child = Command::new(WORKER)
            .args(["--saver", &home.word(), "--thread", way.word(), "--race", way.word()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, orders, answers: BufReader::new(answers) }
    }

    fn tell(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        // It may be done already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
