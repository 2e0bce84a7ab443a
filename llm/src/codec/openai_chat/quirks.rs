//! Differences between the providers that implement OpenAI's chat completions API.

use serde_json::{Map, Value, json};

use super::super::{
    call_error::CallError,
    family,
    schema::{self, Dialect},
};
use crate::{Effort, Request};

/// Differences between a provider's API and OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quirks {
    vendor: Vendor,
    /// Field name of the token limit.
    pub(super) max_tokens_field: &'static str,
    /// Whether requests must ask for the usage of a stream, because the provider does not report it otherwise.
    pub(super) requests_stream_usage: bool,
    /// Whether the provider accepts a cache key.
    pub(super) supports_cache_key: bool,
    /// Whether the provider forwards cache breakpoints to models that support them.
    pub(super) supports_breakpoints: bool,
    /// Whether the `reasoning_details` of a response must be sent back in the next request.
    pub(super) returns_reasoning_details: bool,
    /// Field in which the model's earlier reasoning text is sent back. `None`: the text is not sent back.
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
    /// Quirks of OpenAI.
    pub(crate) const OPENAI: Self = Self {
        vendor: Vendor::OpenAi,
        max_tokens_field: "max_completion_tokens",
        requests_stream_usage: true,
        supports_cache_key: true,
        supports_breakpoints: false,
        returns_reasoning_details: false,
        reasoning_field: None,
    };

    /// Quirks of Groq.
    pub(crate) const GROQ: Self =
        Self { vendor: Vendor::Groq, supports_cache_key: false, ..Self::OPENAI };

    /// Quirks of OpenRouter, which always reports usage.
    pub(crate) const OPENROUTER: Self = Self {
        vendor: Vendor::OpenRouter,
        max_tokens_field: "max_tokens",
        requests_stream_usage: false,
        supports_cache_key: false,
        supports_breakpoints: true,
        returns_reasoning_details: true,
        reasoning_field: None,
    };

    /// Quirks of llama.cpp's server, vLLM, and other self-hosted servers.
    pub(crate) const SERVER: Self = Self {
        vendor: Vendor::Server,
        max_tokens_field: "max_tokens",
        requests_stream_usage: true,
        supports_cache_key: false,
        supports_breakpoints: false,
        returns_reasoning_details: false,
        reasoning_field: Some("reasoning_content"),
    };

    /// Returns whether a model accepts a temperature, based on the model's name.
    pub(crate) fn supports_temperature(&self, model: &str) -> bool {
        // A self-hosted server may use any model name, so the name says nothing about the model.
        self.vendor == Vendor::Server || family::supports_temperature(model)
    }

    /// Returns whether a model accepts stop sequences.
    pub(super) fn supports_stop(&self, model: &str) -> bool {
        self.vendor != Vendor::OpenAi || !family::is_openai_reasoning(model)
    }

    /// Adds the reasoning effort to the body if the model accepts it.
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

    /// Adds the schema of the response to the body.
    pub(super) fn put_schema(
        &self,
        model: &str,
        request: &Request,
        body: &mut Map<String, Value>,
    ) -> Result<(), CallError> {
        let Some(schema) = &request.schema else { return Ok(()) };
        // Groq's older models support only JSON mode without a schema.
        let has_schemas = self.vendor != Vendor::Groq || model.contains("gpt-oss");
        let dialect = match self.vendor {
            Vendor::Server => Dialect::Server,
            Vendor::OpenAi | Vendor::Groq | Vendor::OpenRouter => Dialect::OpenAi,
        };
        schema::check_strict(request, |it| has_schemas && schema::adapt(it, dialect).is_some())?;
        let encoded = schema::openai_schema(schema, request.strict_schema, dialect);
        let format = match has_schemas {
            true => json!({ "type": "json_schema", "json_schema": encoded }),
            false => json!({ "type": "json_object" }),
        };
        body.insert("response_format".to_owned(), format);
        if self.vendor == Vendor::OpenRouter {
            // Without this option, OpenRouter may choose a provider that does not support schemas.
            body.insert("provider".to_owned(), json!({ "require_parameters": true }));
        }
        Ok(())
    }
}
