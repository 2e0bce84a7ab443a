//! A server that writes the bytes that a test specifies, for tests of truncated, stalled and invalid responses.

mod answers;
mod catalog;
mod connections;
mod context_size;
mod cuts;
mod embeddings;
mod errors;
mod limits;
mod timeouts;

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use llm::{Llm, Provider, Timeouts};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

/// One action of the server. After the last action for a request, the server waits for the next request on the same
/// connection, so an incomplete response looks to the client like a stalled one.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    Write(Vec<u8>),
    Wait(Duration),
    /// Closes the connection, like a program that exits.
    Close,
    /// Resets the connection, like a machine that crashes.
    Reset,
}

/// A local server. It stops when the test's runtime stops.
#[derive(Debug)]
pub(crate) struct ByteServer {
    address: SocketAddr,
    seen: Arc<Seen>,
    n_open: watch::Receiver<usize>,
}

/// Connections and requests that the server has received.
#[derive(Debug, Default)]
struct Seen {
    n_connections: AtomicUsize,
    requests: Mutex<Vec<String>>,
}

impl ByteServer {
    /// Starts a server that answers each request with the next script, and repeats the last script.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Move>>) -> Self {
        let mut scripts: VecDeque<Vec<Move>> = scripts.into_iter().collect();
        Self::start_with(move |_| match scripts.len() {
            0 => vec![],
            1 => scripts[0].clone(),
            _ => scripts.pop_front().unwrap(),
        })
        .await
    }

    /// Starts a server that answers each request with the script that the closure returns for it.
    pub(crate) async fn start_with(script: impl FnMut(&str) -> Vec<Move> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let script = Arc::new(Mutex::new(script));
        let (open, n_open) = watch::channel(0);
        let its_seen = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                its_seen.n_connections.fetch_add(1, Ordering::SeqCst);
                open.send_modify(|it| *it += 1);
                let (seen, script, open) = (its_seen.clone(), script.clone(), open.clone());
                tokio::spawn(async move {
                    let next = |request: &str| (script.lock().unwrap())(request);
                    // Errors are ignored, because some tests disconnect on purpose.
                    let _ = serve(stream, &seen, next).await;
                    open.send_modify(|it| *it -= 1);
                });
            }
        });
        Self { address, seen, n_open }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a provider that uses this server, with long timeouts.
    pub(crate) fn provider(&self, name: &str) -> Provider {
        let provider = Provider::new(name).unwrap().key(KEY).base_url(self.url());
        provider.model("m").timeouts(LONG_TIMEOUTS)
    }

    pub(crate) fn llm(&self, name: &str) -> Llm {
        self.provider(name).build().unwrap()
    }

    pub(crate) fn n_connections(&self) -> usize {
        self.seen.n_connections.load(Ordering::SeqCst)
    }

    /// Returns the requests received so far, with headers and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Waits until this many connections are open.
    pub(crate) async fn n_open(&self, expect: usize) {
        let mut n_open = self.n_open.clone();
        let reached = n_open.wait_for(|it| *it == expect);
        let reached = tokio::time::timeout(Duration::from_secs(300), reached).await;
        reached.expect("timed out waiting for open connections").unwrap();
    }

    /// Waits until this many requests have arrived.
    pub(crate) async fn n_requests(&self, expect: usize) {
        while self.requests().len() < expect {
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A distinctive API key, so that a leak is easy to find.
pub(crate) const KEY: &str = "sk-very-secret-0123456789";

/// Timeouts that no test reaches.
pub(crate) const LONG_TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(300),
    first_byte: Duration::from_secs(300),
    idle: Duration::from_secs(300),
    total: Duration::from_secs(300),
};

async fn serve(
    mut stream: TcpStream,
    seen: &Seen,
    mut script: impl FnMut(&str) -> Vec<Move>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    while let Some(request) = request(&mut stream, &mut bytes).await? {
        seen.requests.lock().unwrap().push(request.clone());
        for it in script(&request) {
            match it {
                Move::Write(bytes) => stream.write_all(&bytes).await?,
                Move::Wait(duration) => sleep(duration).await,
                Move::Close => return stream.shutdown().await,
                Move::Reset => return stream.set_zero_linger(),
            }
        }
    }
    Ok(())
}

/// Reads the next request. Returns `None` if the client has closed the connection.
async fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = end_of_request(bytes) {
            let request = bytes.drain(..end).collect::<Vec<u8>>();
            return Ok(Some(String::from_utf8(request).unwrap()));
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

fn end_of_request(bytes: &[u8]) -> Option<usize> {
    let head_end = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    let length = head.lines().find_map(|it| it.strip_prefix("content-length:"));
    let end = head_end + length.map_or(0, |it| it.trim().parse().unwrap());
    (bytes.len() >= end).then_some(end)
}
