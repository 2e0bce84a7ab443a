//! Two processes race for one thread in many rounds. Exactly one of them must win each step.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "test code, including helper functions"
)]

use std::{
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use graph_core::{
    Checkpointer, RunOutcome,
    checkpoint::{HistoryQuery, Lookup},
};
use graph_tests::{
    crash::{
        location::StoreLocation,
        race::{self, RaceMode, RaceState},
        repeated_start::{self, Orders},
    },
    postgres,
};
use test_support::process::Process;
use tokio::runtime::Runtime;

const WORKER: &str = env!("CARGO_BIN_EXE_crash-worker");
const ROUNDS: u64 = 1_000;
const RUN_ID_ROUNDS: u64 = 200;

#[test]
fn exactly_one_process_wins_each_step_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    check(&StoreLocation::Sqlite(dir.path().join("threads.db")));
}

#[test]
fn exactly_one_process_wins_each_step_on_postgres() {
    let Some(server) = postgres::shared() else { return };
    check(&StoreLocation::Postgres(server.fresh_database()));
}

fn check(location: &StoreLocation) {
    // All calls use one runtime, because a saver may keep connections in the runtime that opened it.
    let runtime = Runtime::new().unwrap();
    let saver = runtime.block_on(location.open()).unwrap();
    for mode in [RaceMode::Leased, RaceMode::Unleased, RaceMode::Graph] {
        let started = Instant::now();
        let tally = match mode {
            RaceMode::Graph => {
                runtime.block_on(start_graph(saver.clone()));
                race_in_a_graph(location)
            }
            mode => race_on_a_head(location, mode),
        };
        println!("{}: {tally:?} in {:?}", mode.as_str(), started.elapsed());
        assert!(tally.one.min(tally.other) > 0, "each process must win at least once: {tally:?}");
        runtime.block_on(assert_stored(&*saver, mode, tally.one + tally.other));
    }
}

#[test]
fn input_of_a_run_id_is_applied_once_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    check_run_ids(&StoreLocation::Sqlite(dir.path().join("threads.db")));
}

#[test]
fn input_of_a_run_id_is_applied_once_on_postgres() {
    let Some(server) = postgres::shared() else { return };
    check_run_ids(&StoreLocation::Postgres(server.fresh_database()));
}

/// In each round, both processes start a run with the same id. One of them may find the thread busy.
fn check_run_ids(location: &StoreLocation) {
    let mode = RaceMode::RunId;
    let mut racers = [RacerProcess::new(location, mode), RacerProcess::new(location, mode)];
    let mut both_finished = 0;
    for round in 1..=RUN_ID_ROUNDS {
        let answers = both(&mut racers, "go", round);
        let won = format!("won {round}");
        let finished = answers.iter().filter(|it| **it == won).count();
        let refused = answers.iter().filter(|it| is_refusal(it, mode)).count();
        assert!(finished > 0 && finished + refused == 2, "round {round}: {answers:?}");
        both_finished += u32::from(finished == 2);
    }
    println!("both processes finished in {both_finished} of {RUN_ID_ROUNDS} rounds");
    let stored = Runtime::new().unwrap().block_on(async {
        let saver = location.open().await.unwrap();
        repeated_start::thread(saver, mode.as_str()).state().await.unwrap().unwrap()
    });
    assert_eq!(stored.values, Orders::complete(RUN_ID_ROUNDS));
}

/// The number of rounds that each process has won.
#[derive(Debug, Default)]
struct Tally {
    one: u64,
    other: u64,
}

/// Both processes try to add a checkpoint to the same head. One must succeed, and the other must be rejected.
fn race_on_a_head(location: &StoreLocation, mode: RaceMode) -> Tally {
    let mut racers = [RacerProcess::new(location, mode), RacerProcess::new(location, mode)];
    let mut tally = Tally::default();
    for round in 1..=ROUNDS {
        assert_eq!(both(&mut racers, "look", round), ["ready", "ready"], "round {round}");
        let answers = both(&mut racers, "go", round);
        let won = format!("won {round}");
        match answers.each_ref().map(|it| (*it == won, is_refusal(it, mode))) {
            [(true, _), (_, true)] => tally.one += 1,
            [(_, true), (true, _)] => tally.other += 1,
            _ => panic!("{} in round {round}: {answers:?}", mode.as_str()),
        }
    }
    tally
}

/// Runs the first step of the graph.
async fn start_graph(saver: Arc<dyn Checkpointer>) {
    let first =
        race::graph(saver).thread(RaceMode::Graph.as_str(), ()).run(RaceState::default()).await;
    assert!(matches!(first.unwrap(), RunOutcome::Stopped { state: RaceState { count: 1 }, .. }));
}

/// Both processes run a step of the graph. If they run one after the other, both succeed. No step may be taken
/// twice.
fn race_in_a_graph(location: &StoreLocation) -> Tally {
    let mut racers = [
        RacerProcess::new(location, RaceMode::Graph),
        RacerProcess::new(location, RaceMode::Graph),
    ];
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
                None => assert!(is_refusal(answer, RaceMode::Graph), "round {round}: {answers:?}"),
            }
        }
        won.sort_unstable();
        let expected: Vec<u64> = (next..).take(won.len()).collect();
        assert!(!won.is_empty() && won == expected, "round {round}: {answers:?}, {next} is next");
    }
    tally
}

/// Returns whether the process was rejected in a way that this mode allows.
fn is_refusal(answer: &str, mode: RaceMode) -> bool {
    match mode {
        // Without a lease, only the check of the head prevents a conflict.
        RaceMode::Unleased => answer == "moved",
        RaceMode::Leased | RaceMode::Graph | RaceMode::RunId => {
            ["busy", "moved", "lost"].contains(&answer)
        }
    }
}

/// Checks that the thread has exactly one checkpoint for each step that a process won.
async fn assert_stored(saver: &dyn Checkpointer, mode: RaceMode, n_won: u64) {
    let head = saver.get(&Lookup::head(mode.as_str(), "")).await.unwrap().unwrap();
    assert_eq!(head.values["count"], n_won);
    let history = saver.list(&HistoryQuery::new(mode.as_str(), "")).await.unwrap();
    // The first run of the graph also stores checkpoints for its input and for START.
    let before = if mode == RaceMode::Graph { 2 } else { 0 };
    assert_eq!(history.len() as u64, n_won + before);
    for pair in history.windows(2) {
        assert_eq!(pair[0].header.parent, Some(pair[1].key.id));
        assert_eq!(pair[0].header.step, pair[1].header.step + 1);
    }
}

/// Sends a command to both processes and waits for both answers.
fn both(racers: &mut [RacerProcess; 2], command: &str, round: u64) -> [String; 2] {
    // The first process has a head start, so the processes take turns at being first.
    let first = (round % 2) as usize;
    racers[first].send(command);
    racers[1 - first].send(command);
    racers.each_mut().map(RacerProcess::receive)
}

/// A racing process that reads commands.
struct RacerProcess {
    _process: Process,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl RacerProcess {
    fn new(location: &StoreLocation, mode: RaceMode) -> Self {
        let (saver, mode) = (location.to_arg(), mode.as_str());
        let mut command = Command::new(WORKER);
        command.args(["--saver", &saver, "--thread", mode, "--race", mode]);
        let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let child = &mut process.0;
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { _process: process, commands, answers: BufReader::new(answers) }
    }

    fn send(&mut self, command: &str) {
        self.commands.write_all(format!("{command}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}
