//! The pipeline on several worker processes, with a real PostgreSQL server and, if it is installed, a real Restate
//! server.
#![cfg(feature = "cluster")]
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use consulting_graph::config::DEFAULT;
use graph_tests::postgres;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{
    ports::free_port,
    process::Process,
    restate::{PUBLIC_KEY, Server},
};

const RUN: &str = "run ACME --config small.toml --as-of 2026-11-15 --quiet";

/// A directory with a small configuration and the runs, a database and, for some tests, a Restate server.
struct Cluster {
    dir: TempDir,
    database: String,
    restate: Option<Restate>,
}

struct Restate {
    server: Server,
    /// Address at which the server calls the workers. Only one worker at a time can listen on it.
    worker: SocketAddr,
}

impl Cluster {
    /// Returns `None` if PostgreSQL is not installed.
    fn start() -> Option<Self> {
        let database = postgres::fresh_database()?;
        let dir = tempfile::tempdir().unwrap();
        let mut config: toml::Table = DEFAULT.parse().unwrap();
        config.insert("rounds".to_owned(), 2.into());
        config.insert("moves_per_analyst".to_owned(), 3.into());
        config["analysts"].as_array_mut().unwrap().truncate(2);
        fs::write(dir.path().join("small.toml"), config.to_string()).unwrap();
        Some(Self { dir, database, restate: None })
    }

    /// Returns `None` if PostgreSQL or Restate is not installed.
    fn start_with_restate() -> Option<Self> {
        let cluster = Self::start()?;
        let worker = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let restate = Restate { server: Server::start(1)?, worker };
        Some(Self { restate: Some(restate), ..cluster })
    }

    /// Returns the options with which the client starts or resumes a run.
    fn client_options(&self) -> &'static str {
        if self.restate.is_some() { "--cluster --restate" } else { "--cluster" }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consulting"));
        for key in ["ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "OPENROUTER"] {
            command.env_remove(format!("{key}_API_KEY"));
        }
        command.env("CONSULTING_CLUSTER", &self.database).env("NO_COLOR", "1");
        if let Some(restate) = &self.restate {
            command.env("CONSULTING_RESTATE", restate.server.ingress());
        }
        command.current_dir(self.dir.path()).args(line.split_whitespace());
        command
    }

    /// Starts a worker. Others take over after `lease` seconds if it is killed, or if the machine is overloaded.
    fn worker(&self, id: &str, lease: u32) -> Worker {
        self.worker_with(id, lease, "--sandbox in-process --isolation off")
    }

    /// Starts a worker with these options for the sandboxes.
    fn worker_with(&self, id: &str, lease: u32, sandboxes: &str) -> Worker {
        let log = self.path(&format!("{id}.log"));
        let restate = self
            .restate
            .as_ref()
            .map(|it| format!("--restate --listen {} --identity-key {PUBLIC_KEY}", it.worker));
        let restate = restate.unwrap_or_default();
        let line = format!("worker --id {id} --lease {lease} {sandboxes} {restate}");
        let mut command = self.command(&format!("{line} --concurrency 2"));
        command.stderr(File::create(&log).unwrap()).stdin(Stdio::null());
        Worker { _process: Process::start(&mut command), log }
    }
}

/// A worker process, which is killed when it is dropped.
struct Worker {
    _process: Process,
    log: PathBuf,
}

impl Worker {
    /// Returns the number of debates that the worker has started.
    fn n_debates(&self) -> usize {
        fs::read_to_string(&self.log).unwrap().matches("debate started").count()
    }
}

#[track_caller]
fn check(output: &Output, code: i32) {
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
}

/// Returns the text of a result file, with the run id replaced because it differs between runs.
fn result(dir: &Path, name: &str) -> String {
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(dir.join("run.json")).unwrap()).unwrap();
    let text = fs::read_to_string(dir.join(name)).unwrap();
    text.replace(manifest["run_id"].as_str().unwrap(), "RUN")
}

/// Returns the number of tokens that a run spent.
fn tokens(dir: &Path) -> u64 {
    let report = fs::read_to_string(dir.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let spending = report["outcome"]["spending"].as_array().unwrap();
    let number = |it: &Value, name: &str| it[name].as_u64().unwrap();
    spending.iter().map(|it| number(it, "input_tokens") + number(it, "output_tokens")).sum()
}

fn check_same_results(cluster: &Cluster) {
    for name in ["report.json", "report.md", "scores.csv", "F1.md", "logs/m1/i1.md"] {
        let (local, remote) =
            (result(&cluster.path("local"), name), result(&cluster.path("remote"), name));
        assert_eq!(local, remote, "{name}");
    }
}

/// Kills the only worker during the debates, starts another one, and compares the results with those of a local run.
fn check_report_although_a_worker_is_killed(cluster: &Cluster) {
    let local = format!("{RUN} --out local --sandbox in-process --isolation off");
    check(&cluster.command(&local).output().unwrap(), 0);
    let first = cluster.worker("first", 10);
    if let Some(restate) = &cluster.restate {
        restate.server.register(restate.worker);
    }
    let remote = format!("{RUN} --out remote --answer-ms 500 {}", cluster.client_options());
    let run = cluster.command(&remote).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut run = run.unwrap();
    while first.n_debates() == 0 {
        assert_eq!(run.try_wait().unwrap(), None, "the run ended before a debate was started");
        sleep(Duration::from_millis(10));
    }
    drop(first);
    // No worker is left, so the run needs the second one.
    let second = cluster.worker("second", 60);
    check(&run.wait_with_output().unwrap(), 0);
    assert!(second.n_debates() > 0, "the second worker continues the debates");
    check_same_results(cluster);
    let resumed = format!("resume remote --quiet {}", cluster.client_options());
    check(&cluster.command(&resumed).output().unwrap(), 0);
    check_same_results(cluster);
}

#[test]
fn report_equals_that_of_a_local_run_although_a_worker_is_killed() {
    let Some(cluster) = Cluster::start() else { return };
    check_report_although_a_worker_is_killed(&cluster);
    let moved = cluster.command("resume local --cluster").output().unwrap();
    check(&moved, 1);
    assert!(String::from_utf8_lossy(&moved.stderr).contains("without --cluster"));
    // The threads of the run are not in its directory.
    let resumed = cluster.command("resume remote").output().unwrap();
    check(&resumed, 1);
    assert!(String::from_utf8_lossy(&resumed.stderr).contains("--cluster"));
}

#[test]
fn report_with_restate_equals_that_of_a_local_run_although_a_worker_is_killed() {
    let Some(cluster) = Cluster::start_with_restate() else { return };
    check_report_although_a_worker_is_killed(&cluster);
    let resumed = cluster.command("resume remote --cluster").output().unwrap();
    check(&resumed, 1);
    assert!(String::from_utf8_lossy(&resumed.stderr).contains("add --restate URL"));
}

#[test]
fn debates_are_spread_over_the_workers() {
    let Some(cluster) = Cluster::start() else { return };
    let workers = [cluster.worker("first", 60), cluster.worker("second", 60)];
    // On a busy machine, a worker may miss a whole run.
    for number in 0..5 {
        let run = format!("{RUN} --out run-{number} --cluster --answer-ms 200");
        check(&cluster.command(&run).output().unwrap(), 0);
        if workers.iter().all(|it| it.n_debates() > 0) {
            return;
        }
    }
    panic!("one worker executed all debates of five runs");
}

#[test]
fn debates_run_in_the_sandboxes_of_the_workers() {
    let Some(cluster) = Cluster::start() else { return };
    let jail = "--sandbox jail --isolation process";
    let _workers =
        [cluster.worker_with("first", 60, jail), cluster.worker_with("second", 60, jail)];
    check(&cluster.command(&format!("{RUN} --out remote --cluster")).output().unwrap(), 0);
    let report = fs::read_to_string(cluster.path("remote/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let isolation = &report["outcome"]["isolation"];
    assert_eq!((&isolation["backend"], &isolation["level"]), (&json!("jail"), &json!("process")));
}

#[test]
fn workers_share_the_spending_limit_of_a_run() {
    let Some(cluster) = Cluster::start() else { return };
    let _workers = [cluster.worker("first", 60), cluster.worker("second", 60)];
    let whole = format!("{RUN} --out whole --cluster --max-tokens 900000000");
    check(&cluster.command(&whole).output().unwrap(), 0);
    let limit = tokens(&cluster.path("whole")) / 2;
    let limited = format!("{RUN} --out limited --cluster --max-tokens {limit}");
    check(&cluster.command(&limited).output().unwrap(), 4);
    let spent = tokens(&cluster.path("limited"));
    assert!(spent > 0 && spent <= limit, "{spent} of {limit}");
    let report = fs::read_to_string(cluster.path("limited/report.md")).unwrap();
    assert!(report.contains("raise the limit"), "{report}");
}

#[test]
fn reviewed_run_continues_on_the_cluster() {
    let Some(cluster) = Cluster::start() else { return };
    let _worker = cluster.worker("only", 60);
    let started = cluster.command(&format!("{RUN} --out remote --review --cluster")).output();
    check(&started.unwrap(), 3);
    let resumed = "resume remote --cluster --quiet --reviewed remote/review.json";
    check(&cluster.command(resumed).output().unwrap(), 0);
    let local = format!("{RUN} --out local --review --sandbox in-process --isolation off");
    check(&cluster.command(&local).output().unwrap(), 3);
    let resumed = "resume local --quiet --reviewed local/review.json";
    check(&cluster.command(resumed).output().unwrap(), 0);
    check_same_results(&cluster);
}
