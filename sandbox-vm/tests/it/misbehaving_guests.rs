//! Tests that guests which violate the protocol are detected and terminated, and that the violation is reported.

mod unread_replies;

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
    CallPolicy, Error, GraphRun, MAX_FILE_SIZE, Program, Sandbox, Sandboxes, Spec,
    TerminationReason,
    backend::{Backend, Guest, Handle, Snapshot},
    protocol::{
        self, Frame, Kind, MAX_FRAME, ProtocolError,
        frame::encode,
        message::{ExternalCall, FaultCode, FileContents, GraphEvent, HostCall, HostCallRequest},
    },
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A back end whose guests send scripted messages.
#[derive(Clone, Debug)]
struct ScriptedBackend {
    script: Script,
    killed: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
struct Script {
    /// Returns the guest's first message.
    hello: fn(nonce: u64) -> Vec<u8>,
    /// Returns the guest's reply to a request; empty if it does not reply.
    answer: fn(id: u64) -> Vec<u8>,
    /// Which of the host's messages the guest reads.
    reads: Reads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    All,
    /// The guest reads only the host's hello message.
    Hello,
    /// The guest reads the hello message and the first command.
    FirstCommand,
}

impl Script {
    const SILENT: Self = Self { hello, answer: silence, reads: Reads::All };
}

#[async_trait]
impl Backend for ScriptedBackend {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn probe(&self) -> Report {
        Report::available("scripted", Guarantee::ALL)
    }

    async fn start(&self, _: &Spec, _: &SandboxDir) -> Result<Guest, Error> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(run_script(theirs, self.script));
        Ok(Guest { channel: Box::new(ours), handle: Arc::new(ScriptedHandle(self.killed.clone())) })
    }
}

async fn run_script(mut stream: DuplexStream, script: Script) {
    let Ok(Some(hello)) = Frame::read(&mut stream).await else { return };
    let hello: Value = rmp_serde::from_slice(&hello.payload).unwrap();
    let first = (script.hello)(hello["nonce"].as_u64().unwrap());
    if stream.write_all(&first).await.is_err() {
        return;
    }
    if script.reads == Reads::Hello {
        std::future::pending::<()>().await;
    }
    while let Ok(Some(frame)) = Frame::read(&mut stream).await {
        if frame.kind == Kind::Request {
            // The answer may be long. Writing it blocks while the host does not read, and fails once the host closes
            // the channel.
            if stream.write_all(&(script.answer)(frame.id)).await.is_err() {
                return;
            }
            if script.reads == Reads::FirstCommand {
                std::future::pending::<()>().await;
            }
        }
    }
    let _ = stream.read_u8().await;
}

#[derive(Debug)]
struct ScriptedHandle(Arc<AtomicBool>);

#[async_trait]
impl Handle for ScriptedHandle {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    async fn kill(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    async fn pause(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn resume(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn diagnostic_output(&self) -> String {
        "diagnostic output".to_owned()
    }

    async fn snapshot(&self, dir: PathBuf) -> Result<Snapshot, Error> {
        Ok(Snapshot { backend: "scripted", dir })
    }
}

fn msgpack(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

fn hello(nonce: u64) -> Vec<u8> {
    encode(
        Kind::Hello,
        0,
        &msgpack(&json!({ "version": protocol::VERSION, "nonce": nonce, "graphs": [] })),
    )
}

fn silence(_: u64) -> Vec<u8> {
    Vec::new()
}

async fn open(script: Script) -> (Sandboxes, tempfile::TempDir, Arc<AtomicBool>) {
    let killed = Arc::new(AtomicBool::new(false));
    let dir = tempfile::tempdir().unwrap();
    let sandboxes = Sandboxes::builder()
        .backend(ScriptedBackend { script, killed: killed.clone() })
        .state_dir(dir.path().join("state"))
        .open()
        .await
        .unwrap();
    (sandboxes, dir, killed)
}

/// Asserts that a guest which sends this first message is refused with an error that contains `expected`.
async fn assert_start_refused(hello: fn(u64) -> Vec<u8>, expected: &str) {
    let (sandboxes, dir, killed) = open(Script { hello, ..Script::SILENT }).await;
    let error = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    assert!(killed.load(Ordering::SeqCst));
    assert!(sandboxes.list().is_empty());
    assert_eq!(std::fs::read_dir(dir.path().join("state")).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn invalid_hello_messages_are_refused() {
    assert_start_refused(|_| Vec::new(), "did not complete the handshake within").await;
    assert_start_refused(|_| vec![b'x'; 4000], "a frame has").await;
    assert_start_refused(|nonce| hello(nonce + 1), "a wrong nonce").await;
    let old = |nonce| {
        encode(Kind::Hello, 0, &msgpack(&json!({ "version": 0, "nonce": nonce, "graphs": [] })))
    };
    assert_start_refused(old, "version 0").await;
    assert_start_refused(
        |_| encode(Kind::Hello, 0, &msgpack(&json!("hello"))),
        "malformed hello message",
    )
    .await;
    assert_start_refused(|_| encode(Kind::Reply, 0, &msgpack(&json!(1))), "is not a hello message")
        .await;
    assert_start_refused(|_| encode(Kind::Hello, 0, &vec![0x91; 100_000]), "too long").await;
    assert_start_refused(|_| vec![1, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 1], "kind 99").await;
}

/// Asserts that a guest which sends this reply is terminated with an error that contains `expected`. Returns the error.
async fn assert_terminated(answer: fn(u64) -> Vec<u8>, expected: &str) -> String {
    let (sandboxes, _dir, killed) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.exec(Program::new("x")).await.unwrap_err();
    let Error::Terminated { reason: TerminationReason::ProtocolViolation(violation), .. } = &error
    else {
        panic!("{error}")
    };
    assert!(violation.to_string().contains(expected), "{violation}");
    assert!(killed.load(Ordering::SeqCst));
    assert!(sandboxes.get("x").is_none());
    violation.to_string()
}

#[tokio::test]
async fn invalid_replies_terminate_the_guest() {
    assert_terminated(|id| encode(Kind::Reply, id, b"\xff\xff"), "malformed reply").await;
    assert_terminated(
        |id| encode(Kind::Reply, id, &msgpack(&json!({ "code": "x" }))),
        "malformed reply",
    )
    .await;
    assert_terminated(
        |id| encode(Kind::Event, id, &msgpack(&json!({}))),
        "more events than were granted",
    )
    .await;
    assert_terminated(
        |_| encode(Kind::Event, 99, &vec![0xc1; 1 << 20]),
        "messages for unknown requests",
    )
    .await;
    assert_terminated(
        |id| encode(Kind::Reply, id, &[vec![0x91; 1000], vec![0xc0]].concat()),
        "nested too deeply",
    )
    .await;
    assert_terminated(|_| hello(1), "a second hello message").await;
    assert_terminated(
        |_| vec![0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, 0],
        "a frame has 4294967295 bytes",
    )
    .await;
    assert_terminated(|_| encode(Kind::Credit, 1, b""), "not allowed here").await;
    let forged = |id| {
        let code = format!("\u{1b}]0;x\u{7}{}", "x".repeat(1 << 20));
        encode(Kind::Failure, id, &msgpack(&json!({ "code": code, "message": "" })))
    };
    let message = assert_terminated(forged, "malformed failure").await;
    assert!(message.contains(r"\u{1b}]0;x\u{7}xxx") && message.len() < 5000, "{}", message.len());
    // The default output limit is 1 MiB, so this is one byte too many.
    assert_terminated(
        |id| encode(Kind::Stdout, id, &vec![b'x'; (1 << 20) + 1]),
        "more output than the limit allows",
    )
    .await;
    let half = |id: u64| {
        let mut frame = encode(Kind::Reply, id, &vec![0; 200 << 10]);
        frame[4] |= 0x80;
        frame.repeat(MAX_FRAME * 9 / (200 << 10))
    };
    assert_terminated(half, "incomplete messages").await;
}

fn host_call(run: u64, nth: u64, request: Value) -> Vec<u8> {
    let call = ExternalCall {
        kind: "slow".to_owned(),
        request,
        key: nth.to_string(),
        task: TaskId::COMMAND,
        node: "node".to_owned(),
        namespace: String::new(),
        checkpoint: CheckpointId::from_bytes([1; 16]),
    };
    let request = HostCallRequest { run, call: HostCall::External(Box::new(call)) };
    encode(Kind::Request, nth, &rmp_serde::to_vec_named(&request).unwrap())
}

fn event(run: u64, value: Value) -> Vec<u8> {
    let event = GraphEvent {
        namespace: String::new(),
        step: 0,
        task: None,
        node: None,
        handled_task: None,
        parent_task: None,
        kind: EventKind::Custom(value),
    };
    encode(Kind::Event, run, &rmp_serde::to_vec_named(&event).unwrap())
}

/// Asserts that a guest which sends these messages for a graph run is terminated, even if nobody reads its events or
/// answers its calls.
async fn assert_flood_terminates(answer: fn(u64) -> Vec<u8>, rule: &'static str) {
    let policy =
        CallPolicy::new(async |_: String, _: Value| std::future::pending().await).allow("slow");
    let (sandboxes, _dir, killed) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let run = GraphRun::new("g").call_policy(policy).timeout(Duration::from_secs(600));
    let running = sandbox.run_graph(run).await.unwrap();
    let terminated = async {
        while sandbox.termination_reason().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), terminated).await.expect(rule);
    let error = running.finish().await.unwrap_err();
    let expected = TerminationReason::ProtocolViolation(ProtocolError::UnexpectedMessage(rule));
    assert!(matches!(&error, Error::Terminated { reason, .. } if *reason == expected), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}

#[tokio::test]
async fn graph_that_floods_the_host_is_terminated() {
    let small = |id| (0..2000).flat_map(|nth| host_call(id, nth, Value::Null)).collect();
    assert_flood_terminates(small, "too many host calls in flight").await;
    assert_flood_terminates(
        |id| host_call(id, 7, Value::Null).repeat(2),
        "a host call with the id of a pending call",
    )
    .await;
    let large = |id| {
        let text = "x".repeat(1_000_000);
        (0..150).flat_map(|nth| host_call(id, nth, json!(text))).collect()
    };
    assert_flood_terminates(large, "pending host calls that exceed the memory limit").await;
    assert_flood_terminates(
        |id| (0..17).flat_map(|nth| event(id, json!(nth))).collect(),
        "more events than were granted",
    )
    .await;
    assert_flood_terminates(
        |id| event(id, json!("x".repeat(17 << 20))),
        "an event that exceeds the memory limit",
    )
    .await;
    // Each of these lists takes two bytes in the message but hundreds of bytes when decoded.
    assert_flood_terminates(
        |id| event(id, json!(vec![[0]; 50_000])),
        "an event that exceeds the memory limit",
    )
    .await;
}

#[tokio::test]
async fn answered_host_call_frees_its_memory() {
    let answer = |id| {
        let text = "x".repeat(30 << 20);
        let done = encode(Kind::Reply, id, &msgpack(&json!({ "done": {} })));
        (0..6).flat_map(|nth| host_call(id, nth, json!(text))).chain(done).collect()
    };
    let (sandboxes, _dir, _) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    // The policy allows no calls, so every host call is refused immediately.
    let exit = sandbox.run_graph(GraphRun::new("g")).await.unwrap().finish().await.unwrap();
    assert!(exit.is_done());
}

/// Returns a sandbox whose guest sends this reply to every request.
async fn sandbox_answering(
    answer: fn(u64) -> Vec<u8>,
) -> (Sandbox, (Sandboxes, tempfile::TempDir)) {
    let (sandboxes, dir, _) = open(Script { answer, ..Script::SILENT }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    (sandbox, (sandboxes, dir))
}

#[tokio::test]
async fn entry_names_that_leave_the_directory_are_rejected() {
    fn list(id: u64, name: &str) -> Vec<u8> {
        let entry = json!([{ "name": name, "kind": "file", "size": 1 }]);
        encode(Kind::Reply, id, &msgpack(&entry))
    }
    let scripts: [fn(u64) -> Vec<u8>; 5] = [
        |id| list(id, ""),
        |id| list(id, ".."),
        |id| list(id, "."),
        |id| list(id, "../x"),
        |id| list(id, "a\0b"),
    ];
    for answer in scripts {
        let (sandbox, _guards) = sandbox_answering(answer).await;
        let error = sandbox.fs().list("").await.unwrap_err();
        assert!(error.to_string().contains("a directory entry with an invalid name"), "{error}");
        assert!(sandbox.termination_reason().is_some());
    }
    let (sandbox, _guards) = sandbox_answering(|id| list(id, "..x")).await;
    assert_eq!(sandbox.fs().list("").await.unwrap()[0].name, "..x");
}

#[tokio::test]
async fn oversized_file_reply_is_rejected() {
    let answer = |id| {
        let bytes = FileContents { bytes: vec![0; usize::try_from(MAX_FILE_SIZE).unwrap() + 1] };
        encode(Kind::Reply, id, &rmp_serde::to_vec_named(&bytes).unwrap())
    };
    let (sandbox, _guards) = sandbox_answering(answer).await;
    let error = sandbox.fs().read("x").await.unwrap_err();
    assert!(error.to_string().contains("more file content than was requested"), "{error}");
}

#[tokio::test]
async fn control_characters_in_guest_texts_are_escaped() {
    let answer = |id| {
        let fault = json!({ "code": "failed", "message": "\u{1b}[2Jno\n" });
        encode(Kind::Failure, id, &msgpack(&fault))
    };
    let (sandbox, _guards) = sandbox_answering(answer).await;
    let error = sandbox.ping().await.unwrap_err();
    assert_eq!(error.to_string(), "sandbox `x`: \\u{1b}[2Jno\n");
    let answer = |id| {
        let failed = json!({ "failed": { "error": "\u{1b}[2Jno", "terminal": true } });
        encode(Kind::Reply, id, &msgpack(&failed))
    };
    let (sandbox, _guards) = sandbox_answering(answer).await;
    let run = sandbox.run_graph(GraphRun::new("g")).await.unwrap();
    let error = run.finish().await.unwrap_err();
    assert!(error.to_string().ends_with("sandbox: \\u{1b}[2Jno"), "{error}");
}

/// Returns an event that cannot be decoded and whose request is not open, followed by a valid reply to request `id`.
fn late_event_then_reply(id: u64) -> Vec<u8> {
    [encode(Kind::Event, 99, &[0xc1; 9]), encode(Kind::Reply, id, &[0xc0])].concat()
}

#[tokio::test]
async fn messages_for_unknown_requests_are_not_parsed() {
    let (sandbox, _guards) = sandbox_answering(late_event_then_reply).await;
    sandbox.ping().await.unwrap();
}

#[tokio::test]
async fn oversized_command_is_refused_and_guest_survives() {
    let (sandbox, _guards) = sandbox_answering(late_event_then_reply).await;
    let error = sandbox.exec(Program::new("x").input(vec![0; 65 << 20])).await.unwrap_err();
    let Error::Guest { fault, .. } = &error else { panic!("{error}") };
    assert_eq!(fault.code, FaultCode::Refused);
    assert!(fault.message.contains("at most 67108864 are allowed"), "{error}");
    sandbox.ping().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unresponsive_guest_is_terminated() {
    let (sandboxes, _dir, killed) = open(Script::SILENT).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.exec(Program::new("x")).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}
