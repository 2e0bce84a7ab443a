//! Tests that a second hello message, which a guest receives after a snapshot is restored, resets the agent.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use sandbox_vm::{
    ExecLimits,
    guest::Agent,
    protocol::{
        self, Frame, Kind,
        frame::encode,
        message::{Exec, GuestCommand, GuestHello, HostHello},
    },
};
use serde::Serialize;
use tokio::io::{AsyncWriteExt, DuplexStream};

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn send(stream: &mut DuplexStream, kind: Kind, id: u64, message: &impl Serialize) {
    let payload = rmp_serde::to_vec_named(message).unwrap();
    stream.write_all(&encode(kind, id, &payload)).await.unwrap();
}

async fn handshake(stream: &mut DuplexStream, nonce: u64) -> GuestHello {
    let hello = HostHello { version: protocol::VERSION, nonce };
    send(stream, Kind::Hello, 0, &hello).await;
    let frame = Frame::read(stream).await.unwrap().unwrap();
    assert_eq!(frame.kind, Kind::Hello, "{frame:?}");
    rmp_serde::from_slice(&frame.payload).unwrap()
}

#[tokio::test]
async fn second_hello_cancels_commands_of_earlier_host() {
    let workspace = tempfile::tempdir().unwrap();
    let (mut host, guest) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(guest);
    let agent = tokio::spawn(Agent::new().workspace(workspace.path()).serve(reader, writer));

    assert_eq!(handshake(&mut host, 1).await.nonce, 1);
    let exec = Exec {
        program: "sh".to_owned(),
        args: ["-c", "echo $$ > started; mv started pid; exec sleep 1000"]
            .map(str::to_owned)
            .into(),
        env: BTreeMap::new(),
        input: Vec::new(),
        limits: ExecLimits::default(),
    };
    send(&mut host, Kind::Request, 7, &GuestCommand::Exec(exec)).await;
    let pid = workspace.path().join("pid");
    until(|| pid.exists()).await;
    let process = Path::new("/proc").join(fs::read_to_string(pid).unwrap().trim());
    assert!(process.exists());

    assert_eq!(handshake(&mut host, 2).await.nonce, 2);
    until(|| !process.exists()).await;
    // The second host can reuse the request id. The only reply with this id belongs to the second host's request.
    send(&mut host, Kind::Request, 7, &GuestCommand::Ping).await;
    let frame = Frame::read(&mut host).await.unwrap().unwrap();
    assert_eq!((frame.kind, frame.id), (Kind::Reply, 7));
    rmp_serde::from_slice::<()>(&frame.payload).unwrap();
    drop(host);
    agent.await.unwrap().unwrap();
}
