//! A provider on this machine, for tests of whole programs: it speaks as OpenAI does, answers by a model, and counts.
//!
//! A program that is pointed at it by `OPENAI_COMPATIBLE_BASE_URL` asks it over a real connection; a test can keep a call
//! waiting_call, kill the program, and see which calls are made again.

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

/// How long a call is waited for; nothing takes so long unless it hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The provider. It answers one call after the other.
#[derive(Debug)]
pub struct FakeProvider {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    model: Llm,
    /// How many calls were answered.
    answered: watch::Sender<usize>,
    /// Which call is kept waiting_call, counted from 1: all before it are answered.
    held_call: watch::Sender<usize>,
    /// Which call waits.
    waiting_call: watch::Sender<usize>,
    /// Where the caller keeps answers, and how many were given before the first one there.
    // A std mutex: held_call to copy it, never over an await.
    recording: Mutex<Option<(PathBuf, usize)>>,
    turn: tokio::sync::Mutex<()>,
}

impl FakeProvider {
    /// Listens on a free port of this machine, and answers as a model does.
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

    /// Where it is asked.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many calls were answered.
    pub fn answered(&self) -> usize {
        *self.shared.answered.borrow()
    }

    /// Answers no call before the answer to the one before is in this recording, where the caller keeps them: so what a
    /// kill can lose is known.
    pub fn sync_with_recording(&self, recording: &Path) {
        self.sync_with_recording_after(recording, 0);
    }

    /// The same, after so many answers that the caller kept elsewhere.
    pub fn sync_with_recording_after(&self, recording: &Path, before: usize) {
        *lock(&self.shared.recording) = Some((recording.to_owned(), before));
    }

    /// Keeps this call waiting_call from now on; what is given resolves when it is made.
    ///
    /// # Panics
    ///
    /// If it is not made within two minutes.
    pub fn hold(&self, call: usize) -> impl Future<Output = ()> + use<> {
        self.shared.held_call.send_replace(call);
        wait_until_waiting(self.shared.waiting_call.subscribe(), call)
    }

    /// Keeps no call waiting_call any more.
    pub fn release(&self) {
        self.shared.held_call.send_replace(usize::MAX);
    }

    /// Waits until the caller that was kept waiting_call is gone; what it asked will be asked again.
    ///
    /// # Panics
    ///
    /// If it is still there after two minutes.
    pub async fn wait_for_disconnect(&self) {
        wait_until_waiting(self.shared.waiting_call.subscribe(), 0).await;
    }
}

async fn wait_until_waiting(mut waiting_call: watch::Receiver<usize>, call: usize) {
    let waits = waiting_call.wait_for(|it| *it == call);
    let seen = tokio::time::timeout(TIMEOUT, waits).await;
    assert!(seen.is_ok(), "call {call} was waited for for {TIMEOUT:?}");
}

impl Shared {
    async fn serve(self: Arc<Self>, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let body = read(&mut stream).await?;
            let answer = self.answer(&body, stream.get_mut()).await?;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await.ok()?;
            stream.flush().await.ok()?;
        }
    }

    /// The answer to a call in its turn; nothing to a caller that is gone.
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

    /// Waits until so many answers are in the caller's recording, if it has one.
    async fn wait_until_recorded(&self, calls: usize) {
        loop {
            let Some((path, before)) = lock(&self.recording).clone() else { return };
            let calls = calls.saturating_sub(before);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // The first line is about the file.
            if text.matches('\n').count() > calls || calls == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Returns when the caller hangs up.
async fn disconnected(caller: &TcpStream) {
    let mut byte = [0];
    while caller.readable().await.is_ok() && !matches!(caller.peek(&mut byte).await, Ok(0) | Err(_))
    {
    }
}

/// The body of a request; nothing where there is none to come.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Value> {
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

/// What was asked, as a model takes it.
fn request(body: &Value) -> Request {
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
