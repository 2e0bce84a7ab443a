//! Requests and responses for embeddings.

use serde_json::{Value, json};

use super::{
    call_error::CallError,
    json_util::{count, lacks, list, malformed, parse},
    protocol::Protocol,
    wire::WireRequest,
};
use crate::{Embeddings, ErrorKind, Usage};

impl Protocol {
    /// Encodes a request for the vectors of texts. `dimensions` is the requested length of the vectors.
    pub(crate) fn encode_embeddings(
        self,
        model: &str,
        texts: &[String],
        dimensions: Option<u32>,
    ) -> Result<WireRequest, CallError> {
        let (path, body) = match self {
            Self::OpenAiChat(_) | Self::OpenAiResponses => {
                ("/embeddings".to_owned(), openai(model, texts, dimensions))
            }
            Self::Gemini => {
                let model = model.strip_prefix("models/").unwrap_or(model);
                let path = format!("/v1beta/models/{model}:batchEmbedContents");
                (path, gemini(model, texts, dimensions))
            }
            Self::Ollama => {
                // Without this option, the server silently truncates long texts.
                let mut body = openai(model, texts, dimensions);
                body["truncate"] = json!(false);
                ("/api/embed".to_owned(), body)
            }
            Self::Anthropic => {
                let message = "the provider has no embedding models; use another provider";
                return Err(CallError::new(ErrorKind::BadRequest, message));
            }
        };
        Ok(WireRequest { path, headers: &[], body })
    }

    /// Decodes the vectors of `n_texts` texts.
    pub(crate) fn decode_embeddings(
        self,
        body: &[u8],
        n_texts: usize,
    ) -> Result<Embeddings, CallError> {
        let body = parse(body)?;
        let (vectors, tokens) = match self {
            Self::Gemini => {
                let vectors = list(&body, "embeddings").iter().map(|it| &it["values"]).collect();
                (vectors, body.pointer("/usageMetadata/promptTokenCount"))
            }
            Self::Ollama => {
                (list(&body, "embeddings").iter().collect(), body.pointer("/prompt_eval_count"))
            }
            Self::OpenAiChat(_) | Self::OpenAiResponses | Self::Anthropic => {
                let mut data: Vec<&Value> = list(&body, "data").iter().collect();
                // The API does not specify the order of the list. If a server omits the indices, the list stays in the
                // order that the server sent.
                data.sort_by_key(|it| count(it, "/index"));
                let vectors = data.into_iter().map(|it| &it["embedding"]).collect::<Vec<_>>();
                (vectors, body.pointer("/usage/prompt_tokens"))
            }
        };
        if vectors.is_empty() && n_texts > 0 {
            return Err(lacks(&body, "embeddings"));
        }
        if vectors.len() != n_texts {
            let message = format!("the response has {} vectors for {n_texts} texts", vectors.len());
            return Err(malformed(&message));
        }
        let usage = tokens.and_then(Value::as_u64).map(|input| Usage { input, ..Usage::default() });
        let vectors = vectors.into_iter().map(to_vector).collect::<Result<_, _>>()?;
        Ok(Embeddings { vectors, usage })
    }
}

fn openai(model: &str, texts: &[String], dimensions: Option<u32>) -> Value {
    let mut body = json!({ "model": model, "input": texts });
    if let Some(dimensions) = dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}

fn gemini(model: &str, texts: &[String], dimensions: Option<u32>) -> Value {
    let request = |text: &String| {
        let mut request = json!({
            "model": format!("models/{model}"),
            "content": { "parts": [{ "text": text }] },
        });
        if let Some(dimensions) = dimensions {
            request["outputDimensionality"] = json!(dimensions);
        }
        request
    };
    json!({ "requests": texts.iter().map(request).collect::<Vec<_>>() })
}

fn to_vector(value: &Value) -> Result<Vec<f32>, CallError> {
    let numbers = value.as_array().map_or(&[][..], Vec::as_slice);
    let vector: Vec<f32> = numbers.iter().map_while(|it| it.as_f64()).map(|it| it as f32).collect();
    let is_valid = !vector.is_empty() && vector.len() == numbers.len();
    if is_valid && vector.iter().all(|it| it.is_finite()) {
        return Ok(vector);
    }
    Err(malformed("an embedding is not a list of finite numbers"))
}
