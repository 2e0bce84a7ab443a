//! Quirks: in what the providers differ who say they speak OpenAI's protocol.

use serde_json::{Map, Value, json};

use super::super::{family, schema, schema::Dialect};
use crate::{Effort, Schema};

/// In what a provider differs from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quirks {
    vendor: Vendor,
    /// What the limit of the answer's tokens is called.
    pub(super) max_tokens_field: &'static str,
    /// Whether a stream has to be asked for its usage.
    pub(super) requests_stream_usage: bool,
    /// Whether it takes a name for requests that begin alike.
    pub(super) supports_cache_key: bool,
    /// Whether it passes breakpoints of the prompt cache on to models that have them.
    pub(super) supports_breakpoints: bool,
    /// Whether it wants back what it said of thoughts beside their text.
    pub(super) returns_reasoning_details: bool,
    /// Under which name a thought goes back to the model, if it does.
    pub(super) reasoning_field: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vendor {
    OpenAi,
    Groq,
    OpenRouter,
    Server,
}

impl Quirks {
    /// OpenAI's own.
    pub(crate) const OPENAI: Self = Self {
        vendor: Vendor::OpenAi,
        max_tokens_field: "max_completion_tokens",
        requests_stream_usage: true,
        supports_cache_key: true,
        supports_breakpoints: false,
        returns_reasoning_details: false,
        reasoning_field: None,
    };

    /// Groq's.
    pub(crate) const GROQ: Self =
        Self { vendor: Vendor::Groq, supports_cache_key: false, ..Self::OPENAI };

    /// OpenRouter's, which always tells the usage.
    pub(crate) const OPENROUTER: Self = Self {
        vendor: Vendor::OpenRouter,
        max_tokens_field: "max_tokens",
        requests_stream_usage: false,
        supports_cache_key: false,
        supports_breakpoints: true,
        returns_reasoning_details: true,
        reasoning_field: None,
    };

    /// Those of llama.cpp's server, vLLM, and others that one runs oneself.
    pub(crate) const SERVER: Self = Self {
        vendor: Vendor::Server,
        max_tokens_field: "max_tokens",
        requests_stream_usage: true,
        supports_cache_key: false,
        supports_breakpoints: false,
        returns_reasoning_details: false,
        reasoning_field: Some("reasoning_content"),
    };

    /// Whether a model takes a temperature, as far as its name tells.
    pub(super) fn supports_temperature(&self, model: &str) -> bool {
        // A server of one's own may call its models as it likes.
        self.vendor == Vendor::Server || family::supports_temperature(model)
    }

    /// Whether a model takes words to stop at.
    pub(super) fn supports_stop(&self, model: &str) -> bool {
        self.vendor != Vendor::OpenAi || !family::is_openai_reasoning(model)
    }

    /// Says how much to think, to the models that take it.
    pub(super) fn put_effort(&self, model: &str, effort: Effort, body: &mut Map<String, Value>) {
        let (key, value) = match self.vendor {
            Vendor::OpenAi if family::is_openai_reasoning(model) => {
                ("reasoning_effort", family::openai_effort(model, effort).into())
            }
            Vendor::Groq if model.contains("gpt-oss") => {
                ("reasoning_effort", family::openai_effort("o", effort).into())
            }
            Vendor::Groq if model.contains("qwen") => {
                ("reasoning_effort", if effort == Effort::None { "none" } else { "default" }.into())
            }
            Vendor::OpenRouter if effort == Effort::None => {
                ("reasoning", json!({ "enabled": false }))
            }
            Vendor::OpenRouter => {
                ("reasoning", json!({ "effort": family::openai_effort(model, effort) }))
            }
            Vendor::Server => {
                ("chat_template_kwargs", json!({ "enable_thinking": effort != Effort::None }))
            }
            Vendor::OpenAi | Vendor::Groq => return,
        };
        body.insert(key.to_owned(), value);
    }

    /// Says which form the answer has to have.
    pub(super) fn put_schema(&self, model: &str, schema: &Schema, body: &mut Map<String, Value>) {
        let Schema { name, schema } = schema;
        let has_schemas = self.vendor != Vendor::Groq || model.contains("gpt-oss");
        let strict = schema::adapt(schema, Dialect::OpenAi);
        let format = match strict {
            // The older models there can only be held to JSON.
            _ if !has_schemas => json!({ "type": "json_object" }),
            Some(schema) => {
                let schema = json!({ "name": name, "strict": true, "schema": schema });
                json!({ "type": "json_schema", "json_schema": schema })
            }
            None => {
                let schema =
                    json!({ "name": name, "strict": false, "schema": schema::plain(schema) });
                json!({ "type": "json_schema", "json_schema": schema })
            }
        };
        body.insert("response_format".to_owned(), format);
        if self.vendor == Vendor::OpenRouter {
            // Otherwise it may choose a host that does not know of schemas.
            body.insert("provider".to_owned(), json!({ "require_parameters": true }));
        }
    }
}
