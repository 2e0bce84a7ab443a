//! Workers that check which server calls them.

use std::{net::SocketAddr, process::Command, time::Duration};

use graph_cluster::RunStatus;
use test_support::{DEADLINE, restate::PUBLIC_KEY};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{cluster::Cluster, local::JobSpec};

/// A public key whose private key no server has.
const KEY: &str = "publickeyv1_6x5SYnLroiN7WYq8NQYU9KHcH4YjpBbwpUfVu3EB7ieH";
/// The status 200 as HTTP/2 encodes it.
const OK: [u8; 1] = [0x88];
/// The status 401.
const UNAUTHORIZED: [u8; 4] = [0x48, 0x82, 0x68, 0x01];

pub(crate) async fn worker_with_a_key_rejects_unsigned_calls(cluster: &Cluster) {
    // No server listens on this port. The workers need it only to submit runs.
    let options = ["--restate", "http://127.0.0.1:1"];
    let open = cluster.worker_with(&options).await;
    let headers = timeout(DEADLINE, get_health(open.address)).await.expect("the worker answers");
    assert!(headers.starts_with(&OK), "{headers:x?}");
    let locked = cluster.worker_with(&[options[0], options[1], "--identity-key", KEY]).await;
    let headers = timeout(DEADLINE, get_health(locked.address)).await.expect("the worker answers");
    assert!(headers.starts_with(&UNAUTHORIZED), "{headers:x?}");
}

/// A manifest passes an empty key if its variable is not set.
pub(crate) async fn worker_with_an_invalid_key_does_not_start(cluster: &Cluster) {
    for key in ["", "publickeyv1_"] {
        let worker = Command::new(env!("CARGO_BIN_EXE_cluster-demo"))
            .args(["worker", "--database", &cluster.database, "--restate", "http://127.0.0.1:1"])
            .args(["--listen", "127.0.0.1:0", "--identity-key", key])
            .output()
            .expect("the program is built");
        let error = String::from_utf8_lossy(&worker.stderr);
        assert!(!worker.status.success() && error.contains("invalid identity key"), "{error}");
    }
}

/// The server signs the registration and the calls.
pub(crate) async fn worker_with_the_key_of_its_server_accepts_calls(cluster: &Cluster) {
    let _worker = cluster.worker_with(&["--identity-key", PUBLIC_KEY]).await;
    let job = JobSpec { rounds: 1, width: 1, pause_ms: 5, ask: false };
    cluster.client.start(&job.request("r", "t")).await.expect("the run starts");
    assert_eq!(cluster.ended("r").await.status, RunStatus::Done);
}

/// Sends `GET /health` over HTTP/2 without a signature, and returns the encoded headers of the answer. They begin with
/// the status. The workers accept only HTTP/2, which the HTTP client of the tests does not support.
async fn get_health(worker: SocketAddr) -> Vec<u8> {
    let mut connection = loop {
        match TcpStream::connect(worker).await {
            Ok(connection) => break connection,
            // A worker reports before it listens.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    // The fields `:method: GET`, `:scheme: http`, `:authority: test` and `:path: /health`.
    let fields = b"\x82\x86\x01\x04test\x04\x07/health";
    let length = u8::try_from(fields.len()).expect("the fields are short");
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // An empty SETTINGS frame, and a HEADERS frame that ends stream 1.
    request.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    request.extend([0, 0, length, 1, 5, 0, 0, 0, 1]);
    request.extend(fields);
    connection.write_all(&request).await.expect("the worker reads");
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.expect("the worker answers");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = Vec::new();
        let mut frame = (&mut connection).take(length.into());
        frame.read_to_end(&mut payload).await.expect("the frame is complete");
        if head[3] == 1 {
            return payload;
        }
    }
}
