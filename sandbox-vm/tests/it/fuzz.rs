//! Fuzz target for the messages of a hostile guest: no bytes make the host panic.

use std::mem::{Discriminant, discriminant};

use fuzz_testkit::Fuzzer;
use graph_core::{
    EventKind,
    checkpoint::{
        CheckpointId, CheckpointKey, CheckpointWrite, HistoryQuery, Lookup, TaskEvent, TaskId,
        TaskRecord,
    },
    remote::RemoteOutcome,
};
use sandbox_vm::protocol::{
    Assembler, Frame, Kind, ProtocolError, frame,
    from_guest::{self, GuestMessage},
    message::{
        Entry, ExecResult, ExternalCall, Fault, FaultCode, FileContents, GraphEvent, GraphOutcome,
        GuestHello, HostCall, HostCallRequest,
    },
};
use serde::Serialize;
use serde_json::{Value, json};

/// The host's interpretation of a message.
type Behaviour = Result<(Discriminant<GuestMessage>, [bool; 5]), String>;

/// Parses bytes as the host does, until the first error. Returns what was parsed.
fn target(mut bytes: &[u8]) -> Vec<Behaviour> {
    let mut assembler = Assembler::default();
    let mut behaviours = Vec::new();
    while let Ok(Some(frame)) = Frame::take(&mut bytes) {
        let message = match assembler.push(frame) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(error) => {
                behaviours.push(Err(kind(&error)));
                break;
            }
        };
        let _ = from_guest::request_id(&message);
        match from_guest::parse(message) {
            Ok(message) => {
                let replies = match &message {
                    GuestMessage::Reply(_, payload) => decode_reply(payload),
                    _ => [false; 5],
                };
                behaviours.push(Ok((discriminant(&message), replies)));
            }
            Err(error) => {
                behaviours.push(Err(kind(&error)));
                break;
            }
        }
    }
    behaviours
}

/// Returns, for each type of reply, whether a payload can be decoded as this type.
fn decode_reply(payload: &[u8]) -> [bool; 5] {
    [
        from_guest::reply::<ExecResult>(payload).is_ok(),
        from_guest::reply::<GraphOutcome>(payload).is_ok(),
        from_guest::reply::<RemoteOutcome>(payload).is_ok(),
        from_guest::reply::<Vec<Entry>>(payload).is_ok(),
        from_guest::reply::<FileContents>(payload).is_ok(),
    ]
}

/// Returns the error without the numbers in it, which would make every error a new behaviour.
fn kind(error: &ProtocolError) -> String {
    error.to_string().replace(|it: char| it.is_ascii_digit(), "")
}

fn encoded(kind: Kind, id: u64, message: &impl Serialize) -> Vec<u8> {
    frame::encode(kind, id, &rmp_serde::to_vec_named(message).unwrap())
}

/// Returns the outcomes of sandboxed subgraphs, one for each way in which a subgraph ends.
fn subgraph_outcomes() -> [Value; 5] {
    let interrupt = json!({ "id": "i", "value": [1], "namespace": "a:1|b:2" });
    let failure = json!({ "node": { "error": "no answer", "terminal": false } });
    let goto = json!({ "to": "n", "payload": null });
    let ends = [
        json!({ "done": { "state": { "a": [true] }, "has_output": true } }),
        json!({ "interrupted": [interrupt] }),
        json!({ "stopped": "before" }),
        json!({ "parent_command": { "updates": [[]], "gotos": [goto] } }),
        json!({ "failed": failure }),
    ];
    ends.map(|end| json!({ "end": end, "took_resume_value": false, "visited": ["a"] }))
}

fn seeds() -> Vec<Vec<u8>> {
    let call = |call: HostCall| encoded(Kind::Request, 7, &HostCallRequest { run: 1, call });
    let (task, id) = (TaskId::from_parts(&[]), CheckpointId::from_bytes([1; 16]));
    let key = CheckpointKey { thread: "t".to_owned(), namespace: String::new(), id };
    let event = TaskEvent::Effect { key: "k".to_owned(), result: json!([1, 2.5, { "a": null }]) };
    let record = TaskRecord { task, node: "n".to_owned(), event };
    let external = ExternalCall {
        kind: "llm.chat".to_owned(),
        request: json!({ "a": [1, "x"] }),
        key: "k".to_owned(),
        task,
        node: "n".to_owned(),
        namespace: String::new(),
        checkpoint: id,
    };
    let fault = Fault::new(FaultCode::NotFound, "no such file");
    let event = GraphEvent {
        namespace: "a:1".to_owned(),
        step: 2,
        task: Some(task),
        node: Some("n".to_owned()),
        handled_task: None,
        parent_task: None,
        kind: EventKind::Custom(json!({ "a": 1 })),
    };
    let mut seeds = vec![
        encoded(Kind::Hello, 0, &GuestHello { version: 1, nonce: 5, graphs: vec!["a".to_owned()] }),
        encoded(Kind::Failure, 3, &fault),
        encoded(Kind::Event, 4, &event),
        encoded(Kind::Reply, 5, &GraphOutcome::Done(json!({ "a": [true, null, -1] }))),
        encoded(Kind::Reply, 5, &FileContents { bytes: vec![1, 2, 3] }),
        encoded(Kind::Reply, 5, &json!([{ "name": "a", "kind": "file", "size": 3 }])),
        frame::encode(Kind::Stdout, 6, b"output"),
        call(HostCall::Store(vec![CheckpointWrite::Record(key, vec![record])])),
        call(HostCall::Get(Lookup::head("t", ""))),
        call(HostCall::List(HistoryQuery::new("t", ""))),
        call(HostCall::Heartbeat),
        call(HostCall::External(Box::new(external))),
    ];
    seeds.extend(subgraph_outcomes().map(|it| encoded(Kind::Reply, 5, &it)));
    seeds.push(seeds.concat());
    seeds
}

/// MessagePack markers. After some of them, a length follows in one, two or four bytes.
const MARKERS: [u8; 12] = [0x80, 0x8f, 0x90, 0x9f, 0xc4, 0xc6, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf];

#[test]
fn messages_of_a_guest_do_not_panic() {
    for seed in seeds() {
        let behaviours = target(&seed);
        assert!(!behaviours.is_empty() && behaviours.iter().all(Result::is_ok), "{behaviours:?}");
    }
    for outcome in subgraph_outcomes() {
        let payload = rmp_serde::to_vec_named(&outcome).unwrap();
        from_guest::reply::<RemoteOutcome>(&payload).unwrap();
    }
    let kinds = (1..=10).map(|kind| vec![kind]);
    let words = kinds.chain(MARKERS.map(|it| vec![it])).chain([vec![0xdd, 0xff, 0xff, 0xff, 0xff]]);
    Fuzzer::new("guest_messages").seeds(seeds()).words(words).run(target);
}
