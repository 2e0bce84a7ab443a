//! Asks a server for the size of a model's context window.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{HttpModel, body::Body};
use crate::codec::{Protocol, WireRequest};

/// Maximum time to wait for the server.
const TIMEOUT: Duration = Duration::from_secs(30);

impl HttpModel {
    /// Asks the server for the size of the model's context window, in tokens. Returns `None` if the server cannot be
    /// reached or does not know it.
    pub(crate) async fn context_size(&self) -> Option<u64> {
        let is_ollama = self.protocol == Protocol::Ollama;
        let call = if is_ollama {
            let body = json!({ "model": self.id.model });
            let wire = WireRequest { path: "/api/show".to_owned(), headers: &[], body };
            self.endpoint.request(&self.client, &wire)
        } else {
            self.endpoint.get_from_root(&self.client, "/props")
        };
        let answer = async {
            let response = call.send().await.ok()?;
            let mut body = Body::new(response, Instant::now(), self.timeouts, self.limits);
            body.check_status().await.ok()?;
            serde_json::from_slice(&body.read_all().await.ok()?).ok()
        };
        let answer: Value = timeout(TIMEOUT, answer).await.ok()??;
        if is_ollama { ollama_context(&answer) } else { llamacpp_context(&answer) }
    }
}

/// Reads the answer of Ollama's `/api/show`. Requests ask for the window that they need, so the limit is the size that
/// the model was trained for.
fn ollama_context(answer: &Value) -> Option<u64> {
    let info = &answer["model_info"];
    info[format!("{}.context_length", info["general.architecture"].as_str()?)].as_u64()
}

/// Reads the answer of llama.cpp's `/props`: the window of one slot, which serves one request at a time.
fn llamacpp_context(answer: &Value) -> Option<u64> {
    answer["default_generation_settings"]["n_ctx"].as_u64().filter(|it| *it > 0)
}
