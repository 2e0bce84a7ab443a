//! A fake provider on this machine, for tests of whole programs. It implements OpenAI's protocol, answers calls with
//! another model (for example, a scripted one), and counts the calls.
//!
//! A program whose `OPENAI_COMPATIBLE_BASE_URL` points to the fake provider calls it over a real connection. A test can
//! hold a call, kill the program, and check which calls are repeated.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{Llm, Message, Model, Request, Schema, lock::lock};

/// Maximum time that a test waits for a call to arrive or for a caller to disconnect.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A fake provider, which answers one call at a time.
///
/// ```
/// use llm::{Llm, Provider, Scripted, testkit::FakeProvider};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let fake = FakeProvider::start(Llm::new(Scripted::new("parrot", |_| "Hello!"))).await?;
/// let provider = Provider::new("openai-compatible")?.base_url(fake.address()).model("parrot");
/// assert_eq!(provider.build()?.generate("Good morning.").await?.text(), "Hello!");
/// assert_eq!(fake.answered(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FakeProvider {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    model: Llm,
    /// Number of answered calls.
    answered: watch::Sender<usize>,
    /// Number of the call to hold, starting at 1. All earlier calls are answered.
    held_call: watch::Sender<usize>,
    /// Number of the call that is being held, starting at 1. 0 if the call to hold has not arrived yet, or if its
    /// caller has disconnected.
    waiting_call: watch::Sender<usize>,
    /// Path of the caller's recording.
    // A std mutex suffices, because it is locked only to copy the value and never across an await.
    recording: Mutex<Option<PathBuf>>,
    turn: tokio::sync::Mutex<()>,
}

impl FakeProvider {
    /// Starts a provider that listens on a free local port and answers calls with `model`.
    pub async fn start(model: Llm) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}/v1", listener.local_addr()?);
        let shared = Arc::new(Shared {
            model,
            answered: watch::Sender::new(0),
            held_call: watch::Sender::new(usize::MAX),
            waiting_call: watch::Sender::new(0),
            recording: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        Ok(Self { address, shared })
    }

    /// Returns the base URL of the provider.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the number of answered calls.
    pub fn answered(&self) -> usize {
        *self.shared.answered.borrow()
    }

    /// Delays each answer until the previous one is in the caller's recording. If the caller is killed, at most the
    /// last answer is lost.
    pub fn sync_with_recording(&self, recording: &Path) {
        *lock(&self.shared.recording) = Some(recording.to_owned());
    }

    /// Holds the call with this number when it arrives; later calls wait behind it. The returned future completes
    /// when the call has arrived.
    ///
    /// # Panics
    ///
    /// The future panics if the call does not arrive within ten minutes.
    pub fn hold(&self, call: usize) -> impl Future<Output = ()> + use<> {
        self.shared.held_call.send_replace(call);
        wait_until_waiting(self.shared.waiting_call.subscribe(), call)
    }

    /// Releases the held call and stops holding calls.
    pub fn release(&self) {
        self.shared.held_call.send_replace(usize::MAX);
    }

    /// Waits until the caller of the held call has disconnected. Such a call does not count as answered.
    ///
    /// # Panics
    ///
    /// Panics if the caller is still connected after ten minutes.
    pub async fn wait_for_disconnect(&self) {
        wait_until_waiting(self.shared.waiting_call.subscribe(), 0).await;
    }
}

async fn wait_until_waiting(mut waiting_call: watch::Receiver<usize>, call: usize) {
    let waits = waiting_call.wait_for(|it| *it == call);
    let seen = tokio::time::timeout(TIMEOUT, waits).await;
    assert!(
        seen.is_ok(),
        "timed out after {TIMEOUT:?} waiting for call {call} (0: for the caller to disconnect)"
    );
}

impl Shared {
    async fn serve(self: Arc<Self>, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let body = read_body(&mut stream).await?;
            let answer = self.answer(&body, stream.get_mut()).await?;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await.ok()?;
            stream.flush().await.ok()?;
        }
    }

    /// Answers a call after all earlier calls. Returns `None` if the caller disconnects.
    async fn answer(&self, body: &Value, caller: &mut TcpStream) -> Option<String> {
        let turn = async {
            let turn = self.turn.lock().await;
            let number = *self.answered.borrow() + 1;
            self.wait_until_recorded(number - 1).await;
            let mut held_call = self.held_call.subscribe();
            if *held_call.borrow_and_update() == number {
                self.waiting_call.send_replace(number);
                held_call.wait_for(|it| *it != number).await.ok()?;
            }
            Some((turn, number))
        };
        let (_turn, number) = tokio::select! {
            biased;
            () = disconnected(caller) => {
                self.waiting_call.send_replace(0);
                return None;
            }
            turn = turn => turn?,
        };
        let response = self.model.generate(request(body)).await.ok()?;
        self.answered.send_replace(number);
        let usage = response.usage.unwrap_or_default();
        let answer = json!({
            "id": format!("call-{number}"), "object": "chat.completion", "created": 0,
            "model": self.model.id().model,
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": response.text() } }],
            "usage": { "prompt_tokens": usage.input, "completion_tokens": usage.output,
                "total_tokens": usage.input + usage.output },
        });
        Some(answer.to_string())
    }

    /// Waits until the caller's recording, if one is set, contains the first `calls` answers.
    async fn wait_until_recorded(&self, calls: usize) {
        loop {
            let Some(path) = lock(&self.recording).clone() else { return };
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // The first line is the header, so a recording of n calls has n + 1 lines.
            if text.matches('\n').count() > calls || calls == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Waits until the caller disconnects.
async fn disconnected(caller: &TcpStream) {
    let mut byte = [0];
    while caller.readable().await.is_ok() && !matches!(caller.peek(&mut byte).await, Ok(0) | Err(_))
    {
    }
}

/// Reads the body of the next request. Returns `None` if the connection is closed or the body is not JSON.
pub async fn read_body(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    serde_json::from_slice(&body).ok()
}

/// Converts the body of an OpenAI chat request to a [`Request`].
pub fn request(body: &Value) -> Request {
    let text = |it: &Value| match &it["content"] {
        Value::String(text) => text.clone(),
        parts => {
            let parts = parts.as_array().into_iter().flatten();
            parts.filter_map(|it| it["text"].as_str()).collect()
        }
    };
    let mut request = Request::conversation(Vec::new());
    for message in body["messages"].as_array().into_iter().flatten() {
        request = match message["role"].as_str() {
            Some("system" | "developer") => request.system(text(message)),
            Some("assistant") => request.message(Message::assistant(text(message))),
            _ => request.message(Message::user(text(message))),
        };
    }
    let schema = &body["response_format"]["json_schema"];
    match schema["name"].as_str() {
        Some(name) => {
            let schema = schema["schema"].clone();
            request.schema(Schema { name: name.to_owned(), schema })
        }
        None => request,
    }
}
