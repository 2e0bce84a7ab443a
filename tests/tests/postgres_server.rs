//! The server for tests: it starts, it is alone, it comes back, and nothing of it outlives its process.
#![expect(clippy::unwrap_used, reason = "the helpers of a test fail it")]

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

/// Tells [`part_of_a_child`] which part to play.
const PART: &str = "GRAPH_TESTS_PART";

#[test]
fn databases_are_empty_and_apart() {
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
fn settings_go_before_our_own() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::with_settings(&[("fsync", "on"), ("cluster_name", "it's ours")]).unwrap();
    assert_eq!(server.sql(server.url(), "SHOW fsync"), "on");
    assert_eq!(server.sql(server.url(), "SHOW cluster_name"), "it's ours");
}

#[test]
fn a_failing_start_shows_the_log() {
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
fn a_hard_restart_cuts_clients_off_and_keeps_what_was_committed() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let url = server.fresh_database();
    server.sql(&url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)");
    let started = server.sql(&url, "SELECT pg_postmaster_start_time()");
    let mut client = served(&url);
    server.restart_hard();
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0, "the client is still connected");
    assert_eq!(server.sql(&url, "SELECT n FROM kept"), "7");
    assert_ne!(server.sql(&url, "SELECT pg_postmaster_start_time()"), started);
    // The server must have noticed that it was not shut down.
    let log = fs::read_to_string(server.folder().join("log")).unwrap();
    assert!(log.contains("automatic recovery"), "{log}");
}

#[test]
fn dropping_it_leaves_nothing() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let (url, folder) = (server.url().to_owned(), server.folder().to_owned());
    assert!(connect(&url).is_ok() && folder.exists());
    drop(server);
    assert!(connect(&url).is_err() && !folder.exists());
}

#[test]
fn a_killed_process_leaves_nothing() {
    if postgres::shared().is_none() {
        return;
    }
    let mut child = play("serve").spawn().unwrap();
    let (url, folder) = announced(&mut child);
    assert!(connect(&url).is_ok() && Path::new(&folder).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(|| connect(&url).is_err() && !Path::new(&folder).exists());
}

#[test]
fn the_shared_server_ends_with_its_tests() {
    if postgres::shared().is_none() {
        return;
    }
    let mut child = play("share").spawn().unwrap();
    let (url, folder) = announced(&mut child);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    wait_until(|| connect(&url).is_err() && !Path::new(&folder).exists());
}

#[test]
fn what_is_skipped_is_said_aloud() {
    let skipped = without_postgres(&mut play("share"));
    assert!(skipped.status.success());
    let text = String::from_utf8_lossy(&skipped.stderr);
    assert!(
        text.contains("SKIPPED: part_of_a_child: PostgreSQL is not installed; `cargo xtask test`"),
        "{text}"
    );
}

#[test]
fn nothing_is_skipped_where_postgres_is_required() {
    let failed = without_postgres(play("share").env("GRAPH_REQUIRE_POSTGRES", "1"));
    assert!(!failed.status.success());
    let text = String::from_utf8_lossy(&failed.stdout);
    assert!(text.contains("PostgreSQL is not installed"), "{text}");
}

/// What this program does when another test starts it once more; for the tests themselves it does nothing.
#[test]
fn part_of_a_child() {
    let own;
    let server = match env::var(PART).as_deref() {
        Ok("serve") => {
            own = Server::start().unwrap();
            Some(&own)
        }
        Ok("share") => postgres::shared(),
        _ => return,
    };
    let Some(server) = server else { return };
    let mut stderr = io::stderr();
    writeln!(stderr, "serving {} {}", server.url(), server.folder().display()).unwrap();
    // Until the other test is done with it.
    let _ = io::stdin().read(&mut [0]);
}

/// This program as a child that runs [`part_of_a_child`] alone, its output captured as usual.
fn play(part: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "part_of_a_child"]).env(PART, part);
    command.env_remove("GRAPH_REQUIRE_POSTGRES");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn without_postgres(child: &mut Command) -> Output {
    child.env("GRAPH_POSTGRES_BIN", "/no/such/folder").stdin(Stdio::null()).output().unwrap()
}

/// The address and the folder of the server that a child says it has started.
fn announced(child: &mut Child) -> (String, String) {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in lines.map(Result::unwrap) {
        if let ["serving", url, folder] = line.split(' ').collect::<Vec<_>>()[..] {
            return (url.to_owned(), folder.to_owned());
        }
    }
    panic!("the child started no server");
}

/// Connects without a word.
fn connect(url: &str) -> io::Result<TcpStream> {
    let address = url.rsplit('@').next().unwrap().split('/').next().unwrap();
    TcpStream::connect(address)
}

/// Connects and has the server answer, so that it knows of the client.
fn served(url: &str) -> TcpStream {
    let mut client = connect(url).unwrap();
    // The question whether it speaks TLS, as long as it says, and its number.
    client.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    client
}

/// Nobody tells when a process that is not our child has cleared up, so this has to look again and again.
#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "the server is still there");
        thread::sleep(Duration::from_millis(20));
    }
}
