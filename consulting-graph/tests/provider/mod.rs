//! A provider on this machine that speaks as OpenAI does, answers by the scripted model, and counts.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use consulting_graph::offline;
use llm::{Llm, Message, Request, Schema};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The provider. It answers one call after the other, and none before the answer to the one before is in the caller's
/// recording: so what a kill can lose is known.
pub(crate) struct Provider {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    model: Llm,
    /// How many calls were answered.
    answered: watch::Sender<usize>,
    /// Which call is kept waiting, counted from 1: all before it are answered.
    held: watch::Sender<usize>,
    /// Which call waits.
    waiting: watch::Sender<usize>,
    /// Where the caller keeps answers, and how many were given before the first one there.
    recording: Mutex<(PathBuf, usize)>,
    turn: tokio::sync::Mutex<()>,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            model: offline::model(7).unwrap(),
            answered: watch::Sender::new(0),
            held: watch::Sender::new(usize::MAX),
            waiting: watch::Sender::new(0),
            recording: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Where the caller keeps answers.
    pub(crate) fn keep(&self, recording: &Path) {
        self.keep_from(recording, 0);
    }

    /// Where the caller keeps answers from now on, after so many that it kept elsewhere.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn keep_from(&self, recording: &Path, before: usize) {
        *self.shared.recording.lock().unwrap() = (recording.to_owned(), before);
    }

    /// Keeps no call waiting any more.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn release(&self) {
        self.shared.held.send_replace(usize::MAX);
    }

    pub(crate) fn answered(&self) -> usize {
        *self.shared.answered.borrow()
    }

    /// Waits until this call is made, and does not answer it.
    pub(crate) async fn hold(&self, call: usize) {
        self.shared.held.send_replace(call);
        self.waits(call).await;
    }

    /// Waits until the caller that was kept waiting is gone; what it asked will be asked again.
    pub(crate) async fn forget(&self) {
        self.waits(0).await;
    }

    async fn waits(&self, call: usize) {
        let mut waiting = self.shared.waiting.subscribe();
        let waits = waiting.wait_for(|it| *it == call);
        tokio::time::timeout(Duration::from_secs(120), waits).await.unwrap().unwrap();
    }
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
            self.kept(number - 1).await;
            let mut held = self.held.subscribe();
            if *held.borrow_and_update() == number {
                self.waiting.send_replace(number);
                held.wait_for(|it| *it != number).await.ok()?;
            }
            Some((turn, number))
        };
        let (_turn, number) = tokio::select! {
            biased;
            () = gone(caller) => {
                self.waiting.send_replace(0);
                return None;
            }
            turn = turn => turn?,
        };
        let response = self.model.generate(request(body)).await.unwrap();
        self.answered.send_replace(number);
        let usage = response.usage.unwrap_or_default();
        let answer = json!({
            "id": format!("call-{number}"), "object": "chat.completion", "created": 0, "model": "board",
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": response.text() } }],
            "usage": { "prompt_tokens": usage.input, "completion_tokens": usage.output,
                "total_tokens": usage.input + usage.output },
        });
        Some(answer.to_string())
    }

    /// Waits until so many answers are in the caller's recording.
    async fn kept(&self, calls: usize) {
        loop {
            let (path, before) = self.recording.lock().unwrap().clone();
            let calls = calls.saturating_sub(before);
            let text = tokio::fs::read_to_string(&path).await.unwrap_or_default();
            // The first line is about the file.
            if text.matches('\n').count() > calls || calls == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Returns when the caller hangs up.
async fn gone(caller: &TcpStream) {
    let mut byte = [0];
    loop {
        if caller.readable().await.is_err()
            || matches!(caller.peek(&mut byte).await, Ok(0) | Err(_))
        {
            return;
        }
    }
}

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

/// What was asked, as the scripted model takes it.
fn request(body: &Value) -> Request {
    let text = |it: &Value| match &it["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().map_or(String::new(), |it| {
            it.iter().filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join("")
        }),
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
