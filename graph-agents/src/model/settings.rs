//! Settings of one model call, which middleware can change.

use llm::{Effort, Request};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The settings that [`LlmModel`](super::LlmModel) accepts. Settings that are absent keep the value of the model's
/// options.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    stop: Option<Vec<String>>,
    seed: Option<u64>,
    parallel_tool_calls: Option<bool>,
    logprobs: Option<u8>,
    effort: Option<Effort>,
}

impl Settings {
    pub(super) fn parse(settings: &Map<String, Value>) -> Result<Self, InvalidSettings> {
        Self::deserialize(Value::Object(settings.clone())).map_err(InvalidSettings)
    }

    pub(super) fn apply(self, request: &mut Request) {
        request.temperature = self.temperature.or(request.temperature);
        request.max_tokens = self.max_tokens.unwrap_or(request.max_tokens);
        request.seed = self.seed.or(request.seed);
        request.parallel_tool_calls = self.parallel_tool_calls.or(request.parallel_tool_calls);
        request.logprobs = self.logprobs.or(request.logprobs);
        request.effort = self.effort.or(request.effort);
        if let Some(stop) = self.stop {
            request.stop = stop;
        }
    }
}

/// The error returned for settings that the model does not know, or whose values have the wrong type.
#[derive(Debug, thiserror::Error)]
#[error("invalid settings of a model call: {0}; correct `ModelRequest::settings`")]
pub(super) struct InvalidSettings(serde_json::Error);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(settings: &Value) -> Result<Settings, InvalidSettings> {
        Settings::parse(settings.as_object().unwrap())
    }

    #[test]
    fn settings_replace_the_options_of_the_model() {
        let mut request = Request::conversation(Vec::new());
        request.seed = Some(3);
        let settings =
            parse(&json!({ "max_tokens": 7, "stop": ["END"], "effort": "low" })).unwrap();
        settings.apply(&mut request);
        assert_eq!(
            (request.max_tokens, request.seed, request.effort),
            (7, Some(3), Some(Effort::Low))
        );
        assert_eq!(request.stop, ["END"]);
    }

    #[test]
    fn unknown_settings_are_refused_with_the_known_names() {
        let error = parse(&json!({ "top_k": 3 })).unwrap_err().to_string();
        assert!(error.contains("`top_k`") && error.contains("`temperature`"), "{error}");
        assert!(parse(&json!({ "temperature": "hot" })).is_err());
    }
}
