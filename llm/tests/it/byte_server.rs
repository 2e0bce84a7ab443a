//! A server that writes bytes as a script says, whether or not they are HTTP: for cuts, stalls and nonsense.

mod answers;
mod catalog;
mod connections;
mod cuts;
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

/// What the server does with a request, one after the other. After the last it waits for the next request on the
/// same connection, so that an answer without an end is a stall.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    Write(Vec<u8>),
    Wait(Duration),
    /// Ends the connection as programs do that come to their end.
    Close,
    /// Ends the connection as machines do that crash.
    Reset,
}

/// A server on this machine. It ends with the test's runtime.
#[derive(Debug)]
pub(crate) struct ByteServer {
    address: SocketAddr,
    seen: Arc<Seen>,
    n_open: watch::Receiver<usize>,
}

/// What the server saw.
#[derive(Debug, Default)]
struct Seen {
    n_connections: AtomicUsize,
    requests: Mutex<Vec<String>>,
}

impl ByteServer {
    /// Answers the first request by the first script and so on, and all that come after by the last.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Move>>) -> Self {
        let mut scripts: VecDeque<Vec<Move>> = scripts.into_iter().collect();
        Self::start_with(move |_| match scripts.len() {
            0 => vec![],
            1 => scripts[0].clone(),
            _ => scripts.pop_front().unwrap(),
        })
        .await
    }

    /// Answers every request by the script that is made for it.
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
                    // A client that goes away in the middle is what some tests are about.
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

    /// A provider at this address, with time for everything.
    pub(crate) fn provider(&self, name: &str) -> Provider {
        let provider = Provider::new(name).unwrap().key(KEY).base_url(self.url());
        provider.model("m").timeouts(PATIENT)
    }

    pub(crate) fn llm(&self, name: &str) -> Llm {
        self.provider(name).build().unwrap()
    }

    pub(crate) fn n_connections(&self) -> usize {
        self.seen.n_connections.load(Ordering::SeqCst)
    }

    /// The requests so far, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Waits until so many connections are open.
    pub(crate) async fn n_open(&self, expect: usize) {
        let mut n_open = self.n_open.clone();
        let reached = n_open.wait_for(|it| *it == expect);
        let reached = tokio::time::timeout(Duration::from_secs(20), reached).await;
        reached.expect("so many connections never were open").unwrap();
    }

    /// Waits until so many requests have come.
    pub(crate) async fn n_requests(&self, expect: usize) {
        while self.requests().len() < expect {
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A key that nothing else looks like, so that it is found wherever it must not be.
pub(crate) const KEY: &str = "sk-very-secret-0123456789";

/// Time-outs that no test reaches.
pub(crate) const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(60),
    first_byte: Duration::from_secs(60),
    idle: Duration::from_secs(60),
    total: Duration::from_secs(60),
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

/// The next request; `None` where the client has closed the connection.
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
