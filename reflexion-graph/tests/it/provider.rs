//! A provider on this machine that speaks as OpenAI does, answers by the scripted model, and counts.

use std::{sync::Arc, time::Duration};

use llm::{Llm, Message, Request, Schema};
use reflexion_graph::offline;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The provider.
pub(crate) struct Provider {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

struct Shared {
    model: Llm,
    /// How many calls were answered.
    answered: watch::Sender<usize>,
    /// Which call is kept waiting, counted from 1.
    held: watch::Sender<usize>,
    /// Which call waits.
    waiting: watch::Sender<usize>,
}

impl Provider {
    /// One that answers as the scripted model does.
    pub(crate) async fn start() -> Self {
        Self::of(offline::model().unwrap()).await
    }

    /// One that answers as another model does.
    pub(crate) async fn of(model: Llm) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            model,
            answered: watch::Sender::new(0),
            held: watch::Sender::new(usize::MAX),
            waiting: watch::Sender::new(0),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn answered(&self) -> usize {
        *self.shared.answered.borrow()
    }

    /// Keeps this call waiting from when it is made.
    pub(crate) fn hold(&self, call: usize) {
        self.shared.held.send_replace(call);
    }

    /// Waits until this call is made; 0 means until who was kept waiting is gone.
    pub(crate) async fn waits(&self, call: usize) {
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
            let number = *self.answered.borrow() + 1;
            let mut held = self.held.subscribe();
            if *held.borrow_and_update() == number {
                self.waiting.send_replace(number);
                tokio::select! {
                    it = held.wait_for(|it| *it != number) => drop(it.ok()?),
                    () = gone(stream.get_ref()) => {
                        self.waiting.send_replace(0);
                        return None;
                    }
                }
            }
            let response = self.model.generate(request(&body)).await.unwrap();
            self.answered.send_replace(number);
            let usage = response.usage.unwrap_or_default();
            let answer = json!({
                "id": format!("call-{number}"), "object": "chat.completion", "created": 0, "model": "coder",
                "choices": [{ "index": 0, "finish_reason": "stop",
                    "message": { "role": "assistant", "content": response.text() } }],
                "usage": { "prompt_tokens": usage.input, "completion_tokens": usage.output,
                    "total_tokens": usage.input + usage.output },
            })
            .to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await.ok()?;
            stream.flush().await.ok()?;
        }
    }
}

/// Returns when the caller hangs up.
async fn gone(caller: &TcpStream) {
    let mut byte = [0];
    while caller.readable().await.is_ok() && !matches!(caller.peek(&mut byte).await, Ok(0) | Err(_))
    {
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
        parts => {
            let parts = parts.as_array().into_iter().flatten();
            parts.filter_map(|it| it["text"].as_str()).collect()
        }
    };
    let mut request = Request::conversation(Vec::new());
    for message in body["messages"].as_array().into_iter().flatten() {
        request = match message["role"].as_str() {
            Some("system" | "developer") => request.system(text(message)),
            _ => request.message(Message::user(text(message))),
        };
    }
    let schema = &body["response_format"]["json_schema"];
    let name = schema["name"].as_str().unwrap_or_default().to_owned();
    request.schema(Schema { name, schema: schema["schema"].clone() })
}
