//! The manifests in `deploy`: their commands are executed, and their probes, ports and secrets are checked.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{ChildStdout, Command, Stdio},
    time::Duration,
};

use graph_cluster::Worker;
use rustix::process::{Pid, Signal, kill_process};
use test_support::DEADLINE;
use test_support::process::Process;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::cluster::Cluster;

pub(crate) const COMPOSE: &str = include_str!("../../deploy/compose.yaml");
pub(crate) const KUBERNETES: &str = include_str!("../../deploy/kubernetes.yaml");
pub(crate) const KUBERNETES_RESTATE: &str = include_str!("../../deploy/kubernetes-restate.yaml");
const HAPROXY: &str = include_str!("../../deploy/haproxy.cfg");
const MANIFESTS: [&str; 3] = [COMPOSE, KUBERNETES, KUBERNETES_RESTATE];

/// Returns the values of a key, except in comments.
fn values<'a>(manifest: &'a str, key: &str) -> Vec<&'a str> {
    let key = format!("{key}: ");
    let lines = manifest.lines().map(|it| it.trim_start().trim_start_matches("- "));
    lines.filter_map(|it| it.strip_prefix(key.as_str())).collect()
}

/// Returns the commands of our programs in a manifest.
fn commands(manifest: &str) -> Vec<Vec<String>> {
    let lists = [values(manifest, "command"), values(manifest, "args")].concat();
    let parse = |it: &str| -> Vec<String> {
        serde_json::from_str(it).expect("a command is a JSON list in one line")
    };
    lists.into_iter().map(parse).filter(|it| it[0].starts_with("cluster")).collect()
}

/// Returns the path of one of our programs.
fn program(name: &str) -> &'static str {
    match name {
        "cluster" => env!("CARGO_BIN_EXE_cluster"),
        "cluster-demo" => env!("CARGO_BIN_EXE_cluster-demo"),
        name => panic!("unknown program `{name}`"),
    }
}

#[test]
fn programs_have_the_commands_and_options_of_the_manifests() {
    for command in MANIFESTS.into_iter().flat_map(commands) {
        let help =
            Command::new(program(&command[0])).arg("help").env_remove("DATABASE_URL").output();
        let help = help.expect("the program is built");
        let usage = [help.stdout, help.stderr].concat();
        let usage = String::from_utf8(usage).expect("the usage is text");
        assert!(usage.contains(&format!("\n  {} ", command[1])), "{command:?}");
        for option in command.iter().filter(|it| it.starts_with("--")) {
            assert!(usage.contains(&format!(" {option} ")), "{option} in {command:?}");
        }
        assert!(usage.contains("DATABASE_URL"), "{usage}");
    }
}

#[test]
fn manifests_contain_no_secrets() {
    for manifest in MANIFESTS {
        for line in manifest.lines().filter(|it| !it.trim_start().starts_with('#')) {
            let is_secret = line.contains("PASSWORD") || line.contains("://") && line.contains('@');
            assert!(!is_secret || line.contains("${GRAPHS_PASSWORD"), "{line}");
        }
    }
    for manifest in [KUBERNETES, KUBERNETES_RESTATE] {
        let from_secret = "- name: DATABASE_URL
              valueFrom:
                secretKeyRef:
                  name: graphs-database
                  key: url";
        let n_containers = commands(manifest).len();
        assert_eq!(manifest.matches(from_secret).count(), n_containers);
        assert_eq!(manifest.matches("DATABASE_URL").count(), n_containers);
    }
}

#[test]
fn workers_of_a_restate_server_accept_only_its_calls() {
    let called = |it: &Vec<String>| it.contains(&"--restate".to_owned());
    let workers: Vec<_> = MANIFESTS.into_iter().flat_map(commands).filter(called).collect();
    assert_eq!(workers.len(), 2);
    for worker in workers {
        let name = worker.iter().position(|it| it == "--identity-key").expect("a key is required");
        assert!(worker[name + 1].contains("RESTATE_IDENTITY_KEY"), "{worker:?}");
    }
    assert!(KUBERNETES_RESTATE.contains("- name: RESTATE_IDENTITY_KEY"));
    // The server reads its private key from a secret, and publishes no port.
    let server = COMPOSE.split("\n  restate:\n").nth(1).expect("Compose starts the server");
    let server = server.split("\n\n").next().unwrap_or_default();
    let key = "REQUEST_IDENTITY_PRIVATE_KEY_PEM_FILE: /run/secrets/restate-identity\n    secrets: [restate-identity]";
    assert!(server.contains(key) && !server.contains("ports:"), "{server}");
}

#[test]
fn ports_of_containers_are_those_of_their_programs() {
    for manifest in [KUBERNETES, KUBERNETES_RESTATE] {
        let port = |it: &String| it.strip_prefix("0.0.0.0:").map(str::to_owned);
        let commands = commands(manifest);
        let mut served: BTreeSet<String> = commands.iter().flatten().filter_map(port).collect();
        if manifest.contains("haproxy") {
            assert!(HAPROXY.contains("bind :9080 proto h2"), "{HAPROXY}");
            served.insert("9080".to_owned());
        }
        let ports = |key| values(manifest, key).into_iter().map(str::to_owned).collect();
        let named: BTreeSet<String> = ports("containerPort");
        assert_eq!(named, served);
        let called: BTreeSet<String> = ports("port");
        let names: BTreeSet<&str> = values(manifest, "targetPort").into_iter().collect();
        // Probes refer to ports by name, and services by number.
        assert!(called.iter().all(|it| served.contains(it) || names.contains(it.as_str())));
    }
}

#[test]
fn workers_have_time_to_drain() {
    let periods = [
        values(COMPOSE, "stop_grace_period"),
        values(KUBERNETES, "terminationGracePeriodSeconds"),
        values(KUBERNETES_RESTATE, "terminationGracePeriodSeconds"),
    ];
    assert!(periods.iter().all(|it| !it.is_empty()), "{periods:?}");
    for period in periods.into_iter().flatten() {
        let seconds = period.trim_end_matches('s').parse().expect("a number of seconds");
        assert!(Duration::from_secs(seconds) > Worker::DEFAULT_DRAIN_TIMEOUT, "{seconds}");
    }
}

/// Without probes, HAProxy would send new calls to a worker that hangs, or whose machine has failed.
#[test]
fn haproxy_notices_workers_that_fail_without_closing_connections() {
    for line in
        ["option srvtcpka", "option httpchk GET /health", "http-check expect status 200,401"]
    {
        assert!(HAPROXY.contains(&format!("\n  {line}\n")), "{line} is not in {HAPROXY}");
    }
    assert!(HAPROXY.contains(" on-marked-down shutdown-sessions\n"), "{HAPROXY}");
    assert!(HAPROXY.contains(" tcp-ut 25s "), "{HAPROXY}");
}

#[test]
fn haproxy_accepts_its_configuration() {
    let Some(program) = crate::restate_server::haproxy::find_program() else { return };
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/haproxy.cfg");
    let checked = Command::new(program)
        .args(["-c", "-f", config])
        .env("WORKERS", "worker.example.org:9080")
        .output()
        .expect("the program is installed");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// A program of a manifest.
struct Running(Process);

impl Running {
    /// Starts a command with the database of the test, and with a free port of this machine.
    fn start(cluster: &Cluster, command: &[String]) -> Self {
        let arg = |it: &String| match it.as_str() {
            "$(POD_NAME)" => "pod-1".to_owned(),
            it if it.starts_with("0.0.0.0:") => "127.0.0.1:0".to_owned(),
            it => it.to_owned(),
        };
        let mut program = Command::new(program(&command[0]));
        program.args(command[1..].iter().map(arg)).env("DATABASE_URL", &cluster.database);
        program.env_remove("CLUSTER_API_KEY");
        Self(Process::start(program.stdout(Stdio::piped())))
    }

    fn stdout(&mut self) -> ChildStdout {
        self.0.0.stdout.take().expect("the output is a pipe")
    }

    /// Ends the program as Compose and Kubernetes do.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0.0), Signal::TERM).expect("the program is running");
        assert!(self.0.0.wait().expect("the program is a child of this process").success());
    }
}

pub(crate) async fn commands_of_the_manifests_run(cluster: &Cluster) {
    let all: Vec<_> = [COMPOSE, KUBERNETES].into_iter().flat_map(commands).collect();
    // The workers for Restate are skipped, because the names of their servers exist only in containers.
    for command in all.iter().filter(|it| !it.contains(&"--restate".to_owned())) {
        let mut running = Running::start(cluster, command);
        match command[0].as_str() {
            "cluster" => check_probes(&mut running).await,
            _ => {
                let reported = async {
                    while cluster.workers().await.is_empty() {
                        assert!(
                            matches!(running.0.0.try_wait(), Ok(None)),
                            "{command:?} has ended"
                        );
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                timeout(DEADLINE, reported).await.expect("the worker reports");
            }
        }
        running.stop();
    }
}

/// Requests the paths of all probes from the status server.
async fn check_probes(running: &mut Running) {
    let mut line = String::new();
    BufReader::new(running.stdout()).read_line(&mut line).expect("the output is text");
    let address = line.trim().strip_prefix("listening on http://").expect("the server starts");
    let paths = values(KUBERNETES, "path");
    assert!(!paths.is_empty());
    for path in paths {
        let mut connection = TcpStream::connect(address).await.expect("the server listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.expect("the server reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("the server answers");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
}
