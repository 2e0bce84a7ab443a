//! Guests that do not keep to the protocol: each is found out, named and taken down.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use graph_core::checkpoint::{CheckpointId, TaskId};
use sandbox_vm::{
    Cause, Error, Gate, Gone, GraphRun, Program, Sandboxes, Spec, Usage,
    backend::{Backend, Guest, Handle, Snapshot},
    berth::Berth,
    protocol::{
        self, Frame, Kind, ProtocolError,
        frame::{MAX_FRAME, write},
        message::{Ask, Call, Wish},
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
    while let Ok(Some(frame)) = Frame::read(&mut stream).await {
        if frame.kind == Kind::Request {
            // As long as the host reads it goes on.
            if stream.write_all(&(script.answer)(frame.id)).await.is_err() {
                return;
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
    let (sandboxes, folder, killed) = open(Script { greeting, answer: silence }).await;
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
async fn taken_down(answer: fn(u64) -> Vec<u8>, words: &str) {
    let (sandboxes, _folder, killed) = open(Script { greeting: hello, answer }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.exec(Program::new("x")).await.unwrap_err();
    let Error::Gone { why: Gone::Protocol(why), .. } = &error else { panic!("{error}") };
    assert!(why.to_string().contains(words), "{why}");
    assert!(killed.load(Ordering::SeqCst));
    assert!(sandboxes.get("x").is_none());
}

#[tokio::test]
async fn answers() {
    taken_down(|id| write(Kind::Reply, id, b"\xff\xff"), "malformed reply").await;
    taken_down(|id| write(Kind::Reply, id, &packed(&json!({ "code": "x" }))), "malformed reply")
        .await;
    taken_down(|id| write(Kind::Event, id, &packed(&json!({}))), "malformed event").await;
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

#[tokio::test]
async fn a_graph_that_floods_its_host_is_taken_down() {
    let answer = |id: u64| {
        let call = |nth: u64| Ask {
            run: id,
            what: Wish::Call(Box::new(Call {
                kind: "slow".to_owned(),
                request: Value::Null,
                key: nth.to_string(),
                task: TaskId::COMMAND,
                node: "node".to_owned(),
                namespace: String::new(),
                checkpoint: CheckpointId::from_bytes([1; 16]),
            })),
        };
        let asked = |nth| write(Kind::Request, nth, &rmp_serde::to_vec_named(&call(nth)).unwrap());
        (0..1000).flat_map(asked).collect()
    };
    let gate = Gate::new(async |_: String, _: Value| std::future::pending().await).allow("slow");
    let (sandboxes, _folder, killed) = open(Script { greeting: hello, answer }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error =
        sandbox.run_graph(GraphRun::new("g").gate(gate)).await.unwrap().finish().await.unwrap_err();
    let flooded = Gone::Protocol(ProtocolError::OutOfTurn("a question too many"));
    assert!(matches!(&error, Error::Gone { why, .. } if *why == flooded), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_never_answers_is_taken_down() {
    let (sandboxes, _folder, killed) = open(Script { greeting: hello, answer: silence }).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("x")).await.unwrap();
    let error = sandbox.exec(Program::new("x")).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    assert!(killed.load(Ordering::SeqCst));
}
