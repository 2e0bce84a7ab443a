//! The way to QEMU itself: its monitor, which speaks JSON in lines.

use std::{fs::File, io, os::fd::AsFd, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest},
    net::UnixStream,
};

use crate::backend::descriptors;

/// How long QEMU has for an answer; none of them waits for the guest.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a line may be. A guest may have taken QEMU over, so it is not believed more than a guest.
const MAX_LINE: u64 = 64 << 10;

/// The connection to QEMU's monitor.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
    version: String,
    /// How many orders were given: the number of the last one.
    orders: u64,
}

impl Monitor {
    /// Exchanges greetings with QEMU.
    pub(super) async fn open(stream: UnixStream) -> io::Result<Self> {
        let mut monitor =
            Self { stream: BufReader::new(stream), version: String::new(), orders: 0 };
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
        let line = self.order_line(order, &arguments);
        timely(async {
            self.stream.write_all(&line).await?;
            self.answer().await
        })
        .await
    }

    /// Gives QEMU an open file under a name: it may have no right to open it itself.
    pub(super) async fn give(&mut self, name: &str, file: &File) -> io::Result<()> {
        let line = self.order_line("getfd", &json!({ "fdname": name }));
        timely(async {
            let stream = self.stream.get_ref();
            // It is far shorter than what a socket takes at once.
            let send = || descriptors::send(stream, &line, &[file.as_fd()]);
            stream.async_io(Interest::WRITABLE, send).await?;
            self.answer().await.map(drop)
        })
        .await
    }

    fn order_line(&mut self, order: &str, arguments: &Value) -> Vec<u8> {
        self.orders += 1;
        let order = json!({ "execute": order, "arguments": arguments, "id": self.orders });
        let mut line = order.to_string().into_bytes();
        line.push(b'\n');
        line
    }

    /// The answer to the last order. Events, and answers that nobody waits for any more, are passed over.
    async fn answer(&mut self) -> io::Result<Value> {
        loop {
            let mut line = self.line().await?;
            if line["id"].as_u64() != Some(self.orders) {
                continue;
            }
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = line.get("error") {
                return Err(io::Error::other(format!("QEMU refuses: {}", error["desc"])));
            }
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

async fn timely<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("QEMU did not answer within {PATIENCE:?}"),
        )),
    }
}
