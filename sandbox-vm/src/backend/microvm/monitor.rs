//! The way to QEMU itself: its monitor, which speaks JSON in lines.

use std::{
    fs::File,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::AsFd,
    time::Duration,
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest},
    net::UnixStream,
};

/// How long QEMU has for an answer; none of them waits for the guest.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a line may be. A guest may have taken QEMU over, so it is not believed more than a guest.
const MAX_LINE: u64 = 64 << 10;

/// The connection to QEMU's monitor.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
    version: String,
}

impl Monitor {
    /// Exchanges greetings with QEMU.
    pub(super) async fn open(stream: UnixStream) -> io::Result<Self> {
        let mut monitor = Self { stream: BufReader::new(stream), version: String::new() };
        let greeting = timely(monitor.line()).await?;
        monitor.version = greeting["QMP"]["version"].to_string();
        monitor.ask("qmp_capabilities", json!({})).await?;
        Ok(monitor)
    }

    /// Which QEMU it is, its packaging included.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Gives QEMU an order and waits for its answer.
    pub(super) async fn ask(&mut self, order: &str, arguments: Value) -> io::Result<Value> {
        let line = order_line(order, &arguments);
        timely(async {
            self.stream.write_all(&line).await?;
            self.answer().await
        })
        .await
    }

    /// Gives QEMU an open file under a name: it may have no right to open it itself.
    pub(super) async fn give(&mut self, name: &str, file: &File) -> io::Result<()> {
        let line = order_line("getfd", &json!({ "fdname": name }));
        timely(async {
            let stream = self.stream.get_ref();
            stream.async_io(Interest::WRITABLE, || send_with(stream, &line, file)).await?;
            self.answer().await.map(drop)
        })
        .await
    }

    async fn answer(&mut self) -> io::Result<Value> {
        loop {
            let mut line = self.line().await?;
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = line.get("error") {
                return Err(io::Error::other(format!("QEMU refuses: {}", error["desc"])));
            }
            // An event, which nobody waits for.
        }
    }

    async fn line(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        (&mut self.stream).take(MAX_LINE).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

fn order_line(order: &str, arguments: &Value) -> Vec<u8> {
    let mut line = json!({ "execute": order, "arguments": arguments }).to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Sends a line with a descriptor. It is far shorter than what a socket takes at once.
fn send_with(stream: &UnixStream, line: &[u8], file: &File) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    let descriptors = [file.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    Ok(sendmsg(stream, &[IoSlice::new(line)], &mut ancillary, SendFlags::empty())?)
}

async fn timely<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("QEMU did not answer within {PATIENCE:?}"),
        )),
    }
}
