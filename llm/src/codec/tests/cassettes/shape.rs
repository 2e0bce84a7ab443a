//! Compares the requests that the codecs encode with recorded requests.
//!
//! Each recorded body is parsed into a request, encoded by our codec, and compared with the original, including all
//! values. If the recorded body has a key that the codec writes for at least one sample request, the encoded body must
//! have it too. Any other key is unsupported and ignored.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    neutral::{self, ParsedRequest},
    recording::Recording,
};
use crate::codec::{Protocol, schema, tests::sample_requests};

/// Intended differences between our requests and the recorded ones: path, kind of difference, and reason.
const INTENDED_DIFFERENCES: &[(&str, AllowedDifference, &str)] = {
    use AllowedDifference::{Adapted, Added, Missing, Value};
    const ADAPTED: &str = "schemas are adapted to the provider's dialect";
    const STRICT: &str = "strict if the dialect can express the schema";
    const WITH_EFFORT: &str = "reasoning is requested together with an effort";
    &[
        ("max_tokens", Added, "responses are always bounded"),
        ("max_output_tokens", Added, "responses are always bounded"),
        ("generationConfig", Added, "responses are always bounded"),
        ("generationConfig/maxOutputTokens", Added, "responses are always bounded"),
        ("options/num_predict", Added, "responses are always bounded"),
        ("options/num_ctx", Added, "the server truncates what exceeds its small default"),
        ("options/num_ctx", Value, "it depends on the length of the request"),
        ("truncate", Added, "what does not fit is rejected, not truncated"),
        ("shift", Added, "what does not fit is rejected, not truncated"),
        ("store", Added, "nothing is stored at the provider"),
        ("store", Value, "nothing is stored at the provider"),
        ("include", Added, "reasoning must be returned to be sent back"),
        ("include", Missing, "models without reasoning reject it"),
        ("include", Adapted, "only one of the possible values is used"),
        ("provider", Added, "the router must choose a host with schema support"),
        ("provider/require_parameters", Added, "the router must choose a host with schema support"),
        ("stream_options", Added, "a stream is always asked for its usage"),
        ("input/*/type", Added, "the default, stated explicitly"),
        ("input/*/id", Missing, "items that are not stored need no id"),
        ("contents/*/role", Added, "the default, stated explicitly"),
        ("tools/*/description", Added, "every tool has one"),
        ("tools/*/function/description", Added, "every tool has one"),
        ("response_format/json_schema/schema", Adapted, ADAPTED),
        ("response_format/json_schema/strict", Value, STRICT),
        ("response_format/json_schema/strict", Added, STRICT),
        ("text/format/schema", Adapted, ADAPTED),
        ("text/format/strict", Value, STRICT),
        ("text/format/strict", Added, STRICT),
        ("output_config/format/schema", Adapted, ADAPTED),
        ("generationConfig/responseJsonSchema", Adapted, ADAPTED),
        ("generationConfig/responseMimeType", Added, "required with a schema"),
        ("contents/*/parts/*/functionResponse/response", Adapted, "results are text, not numbers"),
        // In a `Request`, the effort is a level. Whether the codec writes a budget or a level depends on the model.
        ("thinking", Added, "required with an effort"),
        ("thinking/type", Value, "newer models are adaptive, older ones have a budget"),
        ("thinking/budget_tokens", Value, "each effort has a fixed number of tokens"),
        ("thinking/budget_tokens", Missing, "newer models are adaptive"),
        ("output_config", Added, "newer models take the effort"),
        ("output_config/effort", Added, "newer models take the effort"),
        (
            "generationConfig/thinkingConfig/thinkingBudget",
            Value,
            "each effort has a fixed number of tokens",
        ),
        ("generationConfig/thinkingConfig/thinkingBudget", Missing, "newer models have levels"),
        ("generationConfig/thinkingConfig/thinkingLevel", Added, "newer models have levels"),
        ("generationConfig/thinkingConfig/includeThoughts", Added, WITH_EFFORT),
        ("generationConfig/thinkingConfig/includeThoughts", Value, WITH_EFFORT),
        ("chat_template_kwargs", Added, "how own servers take an effort"),
        ("tools/*/functionDeclarations/*/parametersJsonSchema", Added, "every tool has one"),
    ]
};

/// How our request may differ from the recorded one at a path.
#[derive(Clone, Copy, PartialEq)]
enum AllowedDifference {
    /// The path may be present although the recorded body does not have it.
    Added,
    /// The path may be absent although the recorded body has it.
    Missing,
    /// The path may have another value of the same type.
    Value,
    /// The path may have different contents of the same type, such as an adapted schema.
    Adapted,
}

/// Paths of schemas that are sent unchanged.
const SCHEMAS: &[&str] = &[
    "tools/*/function/parameters",
    "tools/*/parameters",
    "tools/*/input_schema",
    "tools/*/functionDeclarations/*/parametersJsonSchema",
    "format",
];

/// Compares a recorded request with the request that our codec encodes for the same call. Returns the differences.
pub(super) fn compare(
    recording: &Recording,
    protocol: Protocol,
    expressible: &BTreeSet<String>,
    mut theirs: Value,
) -> Vec<String> {
    let ParsedRequest { model, request, stream } =
        neutral::read(protocol, &recording.path, &mut theirs);
    let ours = match protocol.encode(&model, &request, stream) {
        Ok(wire) => wire,
        Err(error) => return vec![format!("cannot be encoded: {error:?}")],
    };
    let mut comparison = Comparison { expressible, differences: Vec::new() };
    let path = ours.path.split('?').next().unwrap_or_default();
    if !recording.path.ends_with(path) {
        comparison.differences.push(format!("sent to {path}, not {}", recording.path));
    }
    let mut ours = ours.body;
    neutral::normalize_token_limit(&mut ours);
    comparison.values("", &theirs, &ours);
    comparison.differences
}

struct Comparison<'c> {
    expressible: &'c BTreeSet<String>,
    differences: Vec<String>,
}

impl Comparison<'_> {
    fn values(&mut self, path: &str, theirs: &Value, ours: &Value) {
        let same = match (theirs, ours) {
            _ if SCHEMAS.contains(&path) => schema::plain(theirs) == *ours,
            (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_))
                if is_allowed(path, AllowedDifference::Adapted) =>
            {
                true
            }
            (Value::Object(_), Value::Object(_)) => return self.objects(path, theirs, ours),
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                let path = format!("{path}/*");
                one.iter().zip(other).for_each(|(one, other)| self.values(&path, one, other));
                true
            }
            (Value::Number(one), Value::Number(other)) => {
                is_allowed(path, AllowedDifference::Value) || one.as_f64() == other.as_f64()
            }
            (Value::String(one), Value::String(other)) => {
                is_allowed(path, AllowedDifference::Value)
                    || one == other
                    || is_same_json(one, other)
            }
            (Value::Bool(one), Value::Bool(other)) => {
                is_allowed(path, AllowedDifference::Value) || one == other
            }
            _ => false,
        };
        if !same {
            self.differences.push(format!("{path}: {theirs} became {ours}"));
        }
    }

    fn objects(&mut self, path: &str, theirs: &Value, ours: &Value) {
        let inside =
            |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}/{key}") };
        for (key, value) in theirs.as_object().into_iter().flatten() {
            let path = inside(key);
            match ours.get(key) {
                _ if value.is_null() => {}
                Some(ours) => self.values(&path, value, ours),
                None => {
                    let is_intended = is_allowed(&path, AllowedDifference::Missing);
                    if !is_intended && self.expressible.contains(&path) {
                        self.differences.push(format!("{path}: missing in ours: {value}"));
                    }
                }
            }
        }
        for (key, value) in ours.as_object().into_iter().flatten() {
            let path = inside(key);
            let is_new = theirs.get(key).is_none_or(Value::is_null) && !value.is_null();
            if is_new && !is_allowed(&path, AllowedDifference::Added) {
                self.differences.push(format!("{path}: only in ours: {value}"));
            }
        }
    }
}

fn is_allowed(path: &str, differ: AllowedDifference) -> bool {
    INTENDED_DIFFERENCES.iter().any(|(it, how, _)| *it == path && *how == differ)
}

/// Returns whether two texts, such as the arguments of tool calls, contain the same JSON. An empty text counts as an
/// empty object.
fn is_same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| -> Option<Value> {
        serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }).ok()
    };
    parse(one).is_some_and(|it| Some(it) == parse(other))
}

/// Returns all paths that the codec writes for at least one of the sample requests.
pub(super) fn expressible(protocol: Protocol) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (model, request) in sample_requests::requests() {
        // Some protocols do not support every request.
        let Ok(wire) = protocol.encode(model, &request, true) else { continue };
        let mut body = wire.body;
        neutral::normalize_token_limit(&mut body);
        collect("", &body, &mut paths);
    }
    paths
}

fn collect(path: &str, value: &Value, paths: &mut BTreeSet<String>) {
    let inside = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}/{key}") };
    paths.insert(path.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, it)| collect(&inside(key), it, paths))
        }
        Value::Array(items) => items.iter().for_each(|it| collect(&inside("*"), it, paths)),
        _ => {}
    }
}
