//! Client for QEMU's monitor. The monitor speaks QMP, a protocol with one JSON object per line.

use std::{fs::File, io, os::fd::AsFd, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest},
    net::UnixStream,
};

use crate::backend::fd_passing;

/// How long to wait for a reply from QEMU. QEMU can answer every command without the guest's cooperation.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of a line in bytes. The limit is needed because a guest may have taken over QEMU, so QEMU is trusted
/// no more than a guest.
const MAX_LINE: u64 = 64 << 10;

/// Connection to QEMU's monitor.
#[derive(Debug)]
pub(super) struct QmpClient {
    stream: BufReader<UnixStream>,
    version: String,
    /// Id of the last command.
    last_id: u64,
}

impl QmpClient {
    /// Reads QEMU's greeting and enables commands.
    pub(super) async fn open(stream: UnixStream) -> io::Result<Self> {
        let mut client =
            Self { stream: BufReader::new(stream), version: String::new(), last_id: 0 };
        let greeting = with_timeout(client.read_line()).await?;
        client.version = greeting["QMP"]["version"].to_string();
        client.execute("qmp_capabilities", json!({})).await?;
        Ok(client)
    }

    /// Returns QEMU's version, including the package version.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Executes a command and waits for its reply.
    pub(super) async fn execute(&mut self, command: &str, arguments: Value) -> io::Result<Value> {
        let line = self.encode_command(command, &arguments);
        with_timeout(async {
            self.stream.write_all(&line).await?;
            self.read_reply().await
        })
        .await
    }

    /// Passes an open file to QEMU under a name. QEMU itself may lack the permission to open the file.
    pub(super) async fn send_fd(&mut self, name: &str, file: &File) -> io::Result<()> {
        let line = self.encode_command("getfd", &json!({ "fdname": name }));
        with_timeout(async {
            let stream = self.stream.get_ref();
            // The line is so short that the socket accepts all of it in one call.
            let send = || fd_passing::send(stream, &line, &[file.as_fd()]);
            stream.async_io(Interest::WRITABLE, send).await?;
            self.read_reply().await.map(drop)
        })
        .await
    }

    fn encode_command(&mut self, command: &str, arguments: &Value) -> Vec<u8> {
        self.last_id += 1;
        let request = json!({ "execute": command, "arguments": arguments, "id": self.last_id });
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        line
    }

    /// Reads the reply to the last command. Events and late replies to earlier commands are skipped.
    async fn read_reply(&mut self) -> io::Result<Value> {
        loop {
            let mut line = self.read_line().await?;
            if line["id"].as_u64() != Some(self.last_id) {
                continue;
            }
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = line.get("error") {
                return Err(io::Error::other(format!(
                    "QEMU rejected the command: {}",
                    error["desc"]
                )));
            }
        }
    }

    async fn read_line(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        (&mut self.stream).take(MAX_LINE).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

async fn with_timeout<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(REPLY_TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("QEMU did not answer within {REPLY_TIMEOUT:?}"),
        )),
    }
}
