//! A fake container engine. It implements the part of Docker's API that the back end uses, records requests, and runs
//! the suite's guest as an ordinary process instead of in a container.

use std::{
    collections::BTreeMap,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    process::{Child, Command},
};

use crate::HOSTILE;

/// The engine's recorded requests, images and containers.
#[derive(Default)]
pub(super) struct FakeEngine {
    requests: Mutex<Vec<String>>,
    images: Mutex<Vec<String>>,
    containers: Mutex<BTreeMap<String, Container>>,
    /// Whether removing containers fails.
    is_stuck: AtomicBool,
    /// Whether requests to create containers get no response.
    is_silent: AtomicBool,
}

#[derive(Default)]
struct Container {
    body: Value,
    attached: Option<BufReader<UnixStream>>,
    process: Option<Child>,
    /// Time of the last out-of-memory event, in nanoseconds since the Unix epoch.
    out_of_memory: Option<u128>,
}

struct Request {
    line: String,
    body: Vec<u8>,
}

impl FakeEngine {
    /// Creates an engine that listens on a socket in this directory until the runtime shuts down.
    pub(super) fn listen(dir: &Path) -> (Arc<Self>, PathBuf) {
        let socket = dir.join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let engine = Arc::new(Self::default());
        let listening = engine.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(listening.clone().serve(BufReader::new(stream)));
            }
        });
        (engine, socket)
    }

    /// Returns all requests received so far, for example `POST /containers/x/start`.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the request bodies with which the existing containers were created.
    pub(super) fn bodies(&self) -> Vec<Value> {
        self.containers.lock().unwrap().values().map(|it| it.body.clone()).collect()
    }

    /// Sets whether removing containers fails.
    pub(super) fn set_stuck(&self, stuck: bool) {
        self.is_stuck.store(stuck, Ordering::SeqCst);
    }

    /// Makes the engine stop responding to requests to create containers.
    pub(super) fn make_silent(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    /// Records an out-of-memory event for every container. After such an event, the kernel may kill any of a
    /// container's processes, including the agent.
    pub(super) fn exhaust_memory(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        for container in self.containers.lock().unwrap().values_mut() {
            container.out_of_memory = Some(now);
        }
    }

    /// Kills the process of every container, as the kernel does when memory is exhausted.
    pub(super) fn kill_all(&self) {
        self.exhaust_memory();
        for container in self.containers.lock().unwrap().values_mut() {
            container.process.as_mut().unwrap().start_kill().unwrap();
        }
    }

    /// Returns the out-of-memory event for the container and period that the query specifies, if there was one.
    fn memory_events(&self, query: &str) -> Value {
        let value = |key| query.split('&').find_map(|it| it.strip_prefix(key)).unwrap();
        // A time is written as `seconds.nanoseconds`, with all nine digits of nanoseconds.
        let moment = |key| value(key).replace('.', "").parse::<u128>().unwrap();
        let period = moment("since=")..=moment("until=");
        let filters = value("filters=");
        assert!(filters.contains("%22event%22%3A%5B%22oom%22%5D"), "{filters}");
        let containers = self.containers.lock().unwrap();
        let (_, container) = containers.iter().find(|(name, _)| filters.contains(*name)).unwrap();
        match container.out_of_memory.filter(|it| period.contains(it)) {
            Some(at) => json!({ "Type": "container", "Action": "oom", "timeNano": at as u64 }),
            None => Value::Null,
        }
    }

    async fn serve(self: Arc<Self>, mut stream: BufReader<UnixStream>) {
        let Some(request) = read(&mut stream).await else { return };
        let (method, path) = request.line.split_once(" /").unwrap();
        // Ignore the API version at the start of the path.
        let path = match path.split_once('/') {
            Some((version, rest)) if version.starts_with("v1.") => rest,
            _ => path,
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        self.requests.lock().unwrap().push(format!("{method} /{path}"));
        let segments: Vec<&str> = path.split('/').collect();
        let found = |it: bool| if it { 200 } else { 404 };
        let (status, answer) = match (method, segments.as_slice()) {
            ("GET", ["info"]) => {
                (200, json!({ "MemoryLimit": true, "PidsLimit": true, "CpuCfsQuota": false }))
            }
            ("GET", ["images", name, "json"]) => {
                let known = self.images.lock().unwrap().iter().any(|it| it == name);
                (found(known), json!({ "message": "No such image", "Id": "sha256:1" }))
            }
            ("POST", ["images", "create"]) => {
                assert_eq!(&request.body[257..262], b"ustar");
                let value = |key| query.split('&').find_map(|it| it.strip_prefix(key)).unwrap();
                let name = format!("{}:{}", value("repo="), value("tag="));
                self.images.lock().unwrap().push(name);
                (200, json!({ "status": "sha256:1" }))
            }
            ("POST", ["containers", "create"]) => {
                let name = query.split('&').find_map(|it| it.strip_prefix("name=")).unwrap();
                let body = serde_json::from_slice(&request.body).unwrap();
                let container = Container { body, ..Container::default() };
                self.containers.lock().unwrap().insert(name.to_owned(), container);
                if self.is_silent.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                (201, json!({ "Id": "1", "Warnings": [] }))
            }
            ("POST", ["containers", name, "attach"]) => {
                let upgrade =
                    "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
                stream.write_all(upgrade.as_bytes()).await.unwrap();
                self.containers.lock().unwrap().get_mut(*name).unwrap().attached = Some(stream);
                return;
            }
            ("POST", ["containers", name, "start"]) => {
                self.start(name);
                (204, Value::Null)
            }
            ("POST", ["containers", _, "pause" | "unpause"]) => (204, Value::Null),
            ("GET", ["containers", _, "stats"]) => {
                let cpu = json!({ "cpu_usage": { "total_usage": 1_500_000_000_u64 } });
                (200, json!({ "cpu_stats": cpu, "memory_stats": { "usage": 4096 } }))
            }
            ("GET", ["events"]) => (200, self.memory_events(query)),
            ("DELETE", ["containers", _]) if self.is_stuck.load(Ordering::SeqCst) => {
                (500, json!({ "message": "the storage driver is busy" }))
            }
            ("DELETE", ["containers", name]) => {
                let removed = self.containers.lock().unwrap().remove(*name);
                match removed {
                    Some(_) => (204, Value::Null),
                    None => (404, json!({ "message": "No such container" })),
                }
            }
            unknown => panic!("unexpected request: {unknown:?}"),
        };
        // If the answer is null, for example because there are no events, the response body is empty.
        let answer = if answer.is_null() { String::new() } else { answer.to_string() };
        let length = answer.len();
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(format!("{head}{answer}").as_bytes()).await;
    }

    /// Starts the guest process of a container and connects its streams to the attached connection.
    fn start(&self, name: &str) {
        let mut containers = self.containers.lock().unwrap();
        let container = containers.get_mut(name).unwrap();
        let args = container.body["Cmd"].as_array().unwrap().iter();
        let mut command = std::process::Command::new(HOSTILE);
        command.args(args.map(|it| it.as_str().unwrap())).env_clear().current_dir("/");
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Command::from(command).kill_on_drop(true).spawn().unwrap();
        let (mut reader, writer) = tokio::io::split(container.attached.take().unwrap());
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let mut stdin = process.stdin.take().unwrap();
        tokio::spawn(async move { tokio::io::copy(&mut reader, &mut stdin).await });
        tokio::spawn(forward_framed(1, process.stdout.take().unwrap(), writer.clone()));
        tokio::spawn(forward_framed(2, process.stderr.take().unwrap(), writer));
        container.process = Some(process);
    }
}

/// Forwards a container's output and prefixes each chunk with the engine's stream header. Closes the connection at the
/// end of standard output.
async fn forward_framed(
    stream: u8,
    mut from: impl AsyncRead + Unpin,
    to: Arc<tokio::sync::Mutex<impl AsyncWrite + Unpin>>,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut piece = vec![stream, 0, 0, 0];
        piece.extend(u32::try_from(count).unwrap().to_be_bytes());
        piece.extend(&buffer[..count]);
        if to.lock().await.write_all(&piece).await.is_err() {
            return;
        }
    }
    if stream == 1 {
        let _ = to.lock().await.shutdown().await;
    }
}

async fn read(stream: &mut BufReader<UnixStream>) -> Option<Request> {
    let (mut line, mut length, mut header) = (String::new(), 0, String::new());
    stream.read_line(&mut line).await.ok().filter(|it| *it > 0)?;
    while header != "\r\n" {
        header.clear();
        stream.read_line(&mut header).await.ok()?;
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request { line: line.trim_end_matches(" HTTP/1.1\r\n").to_owned(), body })
}
