//! Guests that do not keep to the protocol: each is found out, named and taken down.

mod deaf;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use graph_core::{
    EventKind,
    checkpoint::{CheckpointId, TaskId},
};
use sandbox_vm::{
    Cause, Error, Gate, Gone, GraphRun, MAX_FILE, Program, Sandbox, Sandboxes, Spec, Usage,
    backend::{Backend, Guest, Handle, Snapshot},
    berth::Berth,
    protocol::{
        self, Frame, Kind, ProtocolError,
        frame::{MAX_FRAME, write},
        message::{Ask, Bytes, Call, FaultCode, GraphEvent, Wish},
    },
    report::{Guarantee, Report},
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A back end whose guests say what a script says.
#[derive(Clone, Debug)]
struct False {
    script: Script,
    killed: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
struct Script {
    /// What it says in place of a greeting.
    greeting: fn(nonce: u64) -> Vec<u8>,
    /// What it says when it is asked something; nothing means silence.
    answer: fn(id: u64) -> Vec<u8>,
    /// How long it reads what the host says.
    hears: Hears,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hears {
    All,
    /// Nothing after the host's greeting.
    Greeting,
    /// Nothing after the first order.
    FirstOrder,
}

impl Script {
    const SILENT: Self = Self { greeting: hello, answer: silence, hears: Hears::All };
}

#[async_trait]
impl Backend for False {
    fn name(&self) -> &'static str {
        "false"
    }

    async fn probe(&self) -> Report {
        Report::works("false", Guarantee::ALL)
    }

    async fn start(&self, _: &Spec, _: &Berth) -> Result<Guest, Error> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(act(theirs, self.script));
        Ok(Guest { channel: Box::new(ours), handle: Arc::new(FalseHandle(self.killed.clone())) })
    }
}

async fn act(mut stream: DuplexStream, script: Script) {
    let Ok(Some(hello)) = Frame::read(&mut stream).await else { return };
    let hello: Value = rmp_serde::from_slice(&hello.payload).unwrap();
    let greeting = (script.greeting)(hello["nonce"].as_u64().unwrap());
    if stream.write_all(&greeting).await.is_err() {
        return;
    }
    if script.hears == Hears::Greeting {
        std::future::pending::<()>().await;
    }
    while let Ok(Some(frame)) = Frame::read(&mut stream).await {
        if frame.kind == Kind::Request {
            // As long as the host reads it goes on.
            if stream.write_all(&(script.answer)(frame.id)).await.is_err() {
                return;
            }
            if script.hears == Hears::FirstOrder {
                std::future::pending::<()>().await;
            }
        }
    }
    let _ = stream.read_u8().await;
}

#[derive(Debug)]
struct FalseHandle(Arc<AtomicBool>);

#[async_trait]
impl Handle for FalseHandle {
    async fn kill(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    async fn pause(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn resume(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn usage(&self) -> Option<Usage> {
        None
    }

    async fn cause(&self) -> Option<Cause> {
        None
    }

    async fn last_words(&self) -> String {
        "last words".to_owned()
    }

    async fn snapshot(&self, folder: PathBuf) -> Result<Snapshot, Error> {
        Ok(Snapshot { backend: "false", folder })
    }
}

fn packed(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

fn hello(nonce: u64) -> Vec<u8> {
    write(
        Kind::Hello,
        0,
        &packed(&json!({ "version": protocol::VERSION, "nonce": nonce, "graphs": [] })),
    )
}

fn silence(_: u64) -> Vec<u8> {
    Vec::new()
}

async fn open(script: Script) -> (Sandboxes, tempfile::TempDir, Arc<AtomicBool>) {
    let killed = Arc::new(AtomicBool::new(false));
    let folder = tempfile::tempdir().unwrap();
    let sandboxes = Sandboxes::new()
        .backend(False { script, killed: killed.clone() })
        .state_folder(folder.path().join("state"))
        .patience(Duration::from_millis(500))
        .open()
        .await
        .unwrap();
    (sandboxes, folder, killed)
}

/// A guest that greets wrongly is no guest.
async fn refused(greeting: fn(u64) -> Vec<u8>, words: &str) {
    let (sandboxes, folder, killed) = open(Script { greeting, ..Script::SILENT }).await;
    let error = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert!(killed.load(Ordering::SeqCst));
    assert!(sandboxes.list().is_empty());
    assert_eq!(std::fs::read_dir(folder.path().join("state")).unwrap().count(), 0);
}

#[tokio::test]
async fn greetings() {
    refused(|_| Vec::new(), "did not greet within").await;
    refused(|_| vec![b'x'; 4000], "a frame of").await;
    refused(|nonce| hello(nonce + 1), "another nonce").await;
    let old = |nonce| {
        write(Kind::Hello, 0, &packed(&json!({ "version": 0, "nonce": nonce, "graphs": [] })))
    };
    refused(old, "version 0").await;
    refused(|_| write(Kind::Hello, 0, &packed(&json!("hello"))), "malformed greeting").await;
    refused(|_| write(Kind::Reply, 0, &packed(&json!(1))), "something else first").await;
    refused(|_| write(Kind::Hello, 0, &vec![0x91; 100_000]), "too long").await;
    refused(|_| vec![1, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 1], "kind 99").await;
}

/// A guest that answers wrongly is taken down, for this reason.
async fn taken_down(answer: fn(u64) -> Vec<u8>, words: &str) -> String {
    let (sandboxes, _folder, killed) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.exec(Program::new("x")).await.unwrap_err();
    let Error::Gone { why: Gone::Protocol(why), .. } = &error else { panic!("{error}") };
    assert!(why.to_string().contains(words), "{why}");
    assert!(killed.load(Ordering::SeqCst));
    assert!(sandboxes.get("x").is_none());
    why.to_string()
}

#[tokio::test]
async fn answers() {
    taken_down(|id| write(Kind::Reply, id, b"\xff\xff"), "malformed reply").await;
    taken_down(|id| write(Kind::Reply, id, &packed(&json!({ "code": "x" }))), "malformed reply")
        .await;
    taken_down(|id| write(Kind::Event, id, &packed(&json!({}))), "an event too many").await;
    taken_down(|_| write(Kind::Event, 99, &vec![0xc1; 1 << 20]), "messages that nobody waits for")
        .await;
    taken_down(
        |id| write(Kind::Reply, id, &[vec![0x91; 1000], vec![0xc0]].concat()),
        "nested too deeply",
    )
    .await;
    taken_down(|_| hello(1), "a second greeting").await;
    taken_down(
        |_| vec![0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, 0],
        "a frame of 4294967295 bytes",
    )
    .await;
    taken_down(|_| write(Kind::Credit, 1, b""), "may not be sent here").await;
    let forged = |id| {
        let code = format!("\u{1b}]0;x\u{7}{}", "x".repeat(1 << 20));
        write(Kind::Failure, id, &packed(&json!({ "code": code, "message": "" })))
    };
    let words = taken_down(forged, "malformed failure").await;
    assert!(words.contains(r"\u{1b}]0;x\u{7}xxx") && words.len() < 5000, "{}", words.len());
    // A megabyte of output is allowed, and this is more.
    taken_down(
        |id| write(Kind::Stdout, id, &vec![b'x'; (1 << 20) + 1]),
        "more output than is allowed",
    )
    .await;
    let half = |id: u64| {
        let mut frame = write(Kind::Reply, id, &vec![0; 200 << 10]);
        frame[4] |= 0x80;
        frame.repeat(MAX_FRAME * 9 / (200 << 10))
    };
    taken_down(half, "unfinished messages").await;
}

fn question(run: u64, nth: u64, request: Value) -> Vec<u8> {
    let call = Call {
        kind: "slow".to_owned(),
        request,
        key: nth.to_string(),
        task: TaskId::COMMAND,
        node: "node".to_owned(),
        namespace: String::new(),
        checkpoint: CheckpointId::from_bytes([1; 16]),
    };
    let ask = Ask { run, what: Wish::Call(Box::new(call)) };
    write(Kind::Request, nth, &rmp_serde::to_vec_named(&ask).unwrap())
}

fn event(run: u64, value: Value) -> Vec<u8> {
    let event = GraphEvent {
        namespace: String::new(),
        step: 0,
        task: None,
        node: None,
        handles: None,
        outer: None,
        kind: EventKind::Custom(value),
    };
    write(Kind::Event, run, &rmp_serde::to_vec_named(&event).unwrap())
}

/// A graph whose guest sends this is taken down, though nobody reads its events and no call is answered.
async fn flooded(answer: fn(u64) -> Vec<u8>, rule: &'static str) {
    let gate = Gate::new(async |_: String, _: Value| std::future::pending().await).allow("slow");
    let (sandboxes, _folder, killed) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let run = GraphRun::new("g").gate(gate).wall(Duration::from_secs(600));
    let running = sandbox.run_graph(run).await.unwrap();
    let gone = async {
        while sandbox.gone().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), gone).await.expect(rule);
    let error = running.finish().await.unwrap_err();
    let flooded = Gone::Protocol(ProtocolError::OutOfTurn(rule));
    assert!(matches!(&error, Error::Gone { why, .. } if *why == flooded), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_graph_that_floods_its_host_is_taken_down() {
    let small = |id| (0..2000).flat_map(|nth| question(id, nth, Value::Null)).collect();
    flooded(small, "a question too many").await;
    flooded(|id| question(id, 7, Value::Null).repeat(2), "a question asked twice").await;
    let large = |id| {
        let text = "x".repeat(1_000_000);
        (0..150).flat_map(|nth| question(id, nth, json!(text))).collect()
    };
    flooded(large, "questions that are too large together").await;
    flooded(|id| (0..17).flat_map(|nth| event(id, json!(nth))).collect(), "an event too many")
        .await;
    flooded(|id| event(id, json!("x".repeat(17 << 20))), "an event that is too large").await;
    // Two bytes for each of these lists make hundreds in memory.
    flooded(|id| event(id, json!(vec![[0]; 50_000])), "an event that is too large").await;
}

#[tokio::test]
async fn a_question_that_was_answered_makes_room_for_another() {
    let answer = |id| {
        let text = "x".repeat(30 << 20);
        let done = write(Kind::Reply, id, &packed(&json!({ "done": {} })));
        (0..6).flat_map(|nth| question(id, nth, json!(text))).chain(done).collect()
    };
    let (sandboxes, _folder, _) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    // No call is allowed, so every question is answered at once.
    let exit = sandbox.run_graph(GraphRun::new("g")).await.unwrap().finish().await.unwrap();
    assert!(exit.is_done());
}

/// A guest that answers everything with this.
async fn answering(answer: fn(u64) -> Vec<u8>) -> (Sandbox, (Sandboxes, tempfile::TempDir)) {
    let (sandboxes, folder, _) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    (sandbox, (sandboxes, folder))
}

#[tokio::test]
async fn names_that_lead_out_of_a_folder_are_not_listed() {
    fn list(id: u64, name: &str) -> Vec<u8> {
        let entry = json!([{ "name": name, "kind": "file", "size": 1 }]);
        write(Kind::Reply, id, &packed(&entry))
    }
    let scripts: [fn(u64) -> Vec<u8>; 5] = [
        |id| list(id, ""),
        |id| list(id, ".."),
        |id| list(id, "."),
        |id| list(id, "../x"),
        |id| list(id, "a\0b"),
    ];
    for answer in scripts {
        let (sandbox, _held) = answering(answer).await;
        let error = sandbox.fs().list("").await.unwrap_err();
        assert!(error.to_string().contains("a name that is none"), "{error}");
        assert!(sandbox.gone().is_some());
    }
    let (sandbox, _held) = answering(|id| list(id, "..x")).await;
    assert_eq!(sandbox.fs().list("").await.unwrap()[0].name, "..x");
}

#[tokio::test]
async fn a_file_is_not_longer_than_was_asked_for() {
    let answer = |id| {
        let bytes = Bytes { bytes: vec![0; usize::try_from(MAX_FILE).unwrap() + 1] };
        write(Kind::Reply, id, &rmp_serde::to_vec_named(&bytes).unwrap())
    };
    let (sandbox, _held) = answering(answer).await;
    let error = sandbox.fs().read("x").await.unwrap_err();
    assert!(error.to_string().contains("more of a file than was asked for"), "{error}");
}

#[tokio::test]
async fn texts_of_a_guest_do_nothing_to_a_terminal() {
    let answer = |id| {
        let fault = json!({ "code": "failed", "message": "\u{1b}[2Jno\n" });
        write(Kind::Failure, id, &packed(&fault))
    };
    let (sandbox, _held) = answering(answer).await;
    let error = sandbox.ping().await.unwrap_err();
    assert_eq!(error.to_string(), "sandbox `x`: \\u{1b}[2Jno\n");
    let answer = |id| {
        let failed = json!({ "failed": { "error": "\u{1b}[2Jno", "terminal": true } });
        write(Kind::Reply, id, &packed(&failed))
    };
    let (sandbox, _held) = answering(answer).await;
    let run = sandbox.run_graph(GraphRun::new("g")).await.unwrap();
    let error = run.finish().await.unwrap_err();
    assert!(error.to_string().ends_with("sandbox: \\u{1b}[2Jno"), "{error}");
}

/// A late event that cannot be read, and a true answer.
fn late_then_done(id: u64) -> Vec<u8> {
    [write(Kind::Event, 99, &[0xc1; 9]), write(Kind::Reply, id, &[0xc0])].concat()
}

#[tokio::test]
async fn what_nobody_waits_for_is_not_read() {
    let (sandbox, _held) = answering(late_then_done).await;
    sandbox.ping().await.unwrap();
}

#[tokio::test]
async fn an_order_that_is_too_large_is_refused_and_the_guest_stays() {
    let (sandbox, _held) = answering(late_then_done).await;
    let error = sandbox.exec(Program::new("x").input(vec![0; 65 << 20])).await.unwrap_err();
    let Error::Guest { fault, .. } = &error else { panic!("{error}") };
    assert_eq!(fault.code, FaultCode::Refused);
    assert!(fault.message.contains("at most 67108864 go through"), "{error}");
    sandbox.ping().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_never_answers_is_taken_down() {
    let (sandboxes, _folder, killed) = open(Script::SILENT).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.exec(Program::new("x")).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}
