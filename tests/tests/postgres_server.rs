//! Tests the PostgreSQL test server: its start, isolation, restart and cleanup.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use graph_tests::postgres::{self, Server, StartError};

/// Environment variable that selects the role of [`child_process_entry`].
const CHILD_ROLE: &str = "GRAPH_TESTS_PART";

#[test]
fn databases_are_empty_and_separate() {
    let Some(server) = postgres::shared() else { return };
    let (one, two) = (server.fresh_database(), server.fresh_database());
    server.sql(&one, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7), (8)");
    assert_eq!(server.sql(&one, "SELECT n, 'x' FROM kept ORDER BY n"), "7|x\n8|x");
    assert_eq!(server.sql(&two, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
    server.drop_database(&one);
    let left = server.sql(server.url(), "SELECT datname FROM pg_database");
    let name = |url: &str| url.rsplit('/').next().unwrap().to_owned();
    assert!(!left.contains(&name(&one)) && left.contains(&name(&two)), "{left}");
}

#[test]
fn settings_override_the_defaults() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::with_settings(&[("fsync", "on"), ("cluster_name", "it's ours")]).unwrap();
    assert_eq!(server.sql(server.url(), "SHOW fsync"), "on");
    assert_eq!(server.sql(server.url(), "SHOW cluster_name"), "it's ours");
}

#[test]
fn failed_start_reports_the_log() {
    if postgres::shared().is_none() {
        return;
    }
    match Server::with_settings(&[("no_such_setting", "1")]) {
        Err(StartError::Failed { step, log }) => {
            assert_eq!(step, "start");
            assert!(log.contains("no_such_setting"), "{log}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn crash_and_restart_disconnects_clients_and_keeps_committed_data() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let url = server.fresh_database();
    server.sql(&url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)");
    let started = server.sql(&url, "SELECT pg_postmaster_start_time()");
    let mut client = connect_and_negotiate(&url);
    server.crash_and_restart();
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0, "the client is still connected");
    assert_eq!(server.sql(&url, "SELECT n FROM kept"), "7");
    assert_ne!(server.sql(&url, "SELECT pg_postmaster_start_time()"), started);
    // The server must have detected the unclean shutdown.
    let log = fs::read_to_string(server.dir().join("log")).unwrap();
    assert!(log.contains("automatic recovery"), "{log}");
}

#[test]
fn drop_removes_everything() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let (url, dir) = (server.url().to_owned(), server.dir().to_owned());
    assert!(connect(&url).is_ok() && dir.exists());
    drop(server);
    assert!(connect(&url).is_err() && !dir.exists());
}

#[test]
fn killed_process_leaves_nothing() {
    if postgres::shared().is_none() {
        return;
    }
    let mut child = child_command("serve").spawn().unwrap();
    let (url, dir) = announced_server(&mut child);
    assert!(connect(&url).is_ok() && Path::new(&dir).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(|| connect(&url).is_err() && !Path::new(&dir).exists());
}

#[test]
fn shared_server_ends_with_its_process() {
    if postgres::shared().is_none() {
        return;
    }
    let mut child = child_command("share").spawn().unwrap();
    let (url, dir) = announced_server(&mut child);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    wait_until(|| connect(&url).is_err() && !Path::new(&dir).exists());
}

#[test]
fn skipped_tests_are_reported() {
    let skipped = without_postgres(&mut child_command("share"));
    assert!(skipped.status.success());
    let text = String::from_utf8_lossy(&skipped.stderr);
    assert!(
        text.contains(
            "SKIPPED: child_process_entry: PostgreSQL is not installed; run `cargo xtask test`"
        ),
        "{text}"
    );
}

#[test]
fn tests_fail_if_required_postgres_is_missing() {
    let failed = without_postgres(child_command("share").env("GRAPH_REQUIRE_POSTGRES", "1"));
    assert!(!failed.status.success());
    let text = String::from_utf8_lossy(&failed.stdout);
    assert!(text.contains("PostgreSQL is not installed"), "{text}");
}

/// Entry point of the child processes that other tests start. Does nothing when it runs as a normal test.
#[test]
fn child_process_entry() {
    let own_server;
    let server = match env::var(CHILD_ROLE).as_deref() {
        Ok("serve") => {
            own_server = Server::start().unwrap();
            Some(&own_server)
        }
        Ok("share") => postgres::shared(),
        _ => return,
    };
    let Some(server) = server else { return };
    let mut stderr = io::stderr();
    writeln!(stderr, "serving {} {}", server.url(), server.dir().display()).unwrap();
    // Wait until the parent closes the pipe.
    let _ = io::stdin().read(&mut [0]);
}

/// Returns a command that runs this program as a child process, with captured output. The child runs only
/// [`child_process_entry`].
fn child_command(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child_process_entry"]).env(CHILD_ROLE, role);
    command.env_remove("GRAPH_REQUIRE_POSTGRES");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn without_postgres(child: &mut Command) -> Output {
    child.env("GRAPH_POSTGRES_BIN", "/no/such/folder").stdin(Stdio::null()).output().unwrap()
}

/// Reads the URL and the directory of the server that a child has started.
fn announced_server(child: &mut Child) -> (String, String) {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in lines.map(Result::unwrap) {
        if let ["serving", url, dir] = line.split(' ').collect::<Vec<_>>()[..] {
            return (url.to_owned(), dir.to_owned());
        }
    }
    panic!("the child started no server");
}

/// Connects to the server without sending anything.
fn connect(url: &str) -> io::Result<TcpStream> {
    let address = url.rsplit('@').next().unwrap().split('/').next().unwrap();
    TcpStream::connect(address)
}

/// Connects to the server and waits for an answer, so that the server has accepted the client.
fn connect_and_negotiate(url: &str) -> TcpStream {
    let mut client = connect(url).unwrap();
    // An SSLRequest message, which consists of a length and a request code.
    client.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    client
}

/// Polls until the condition is true, because a process that is not our child cannot be awaited.
#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(300), "the server is still running");
        thread::sleep(Duration::from_millis(20));
    }
}
