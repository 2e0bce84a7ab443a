//! Shapes: whether our request says the same as the recorded one, in the same paths.
//!
//! The recorded body is read as one of our requests, this is written by our codec, and the two bodies are
//! compared, values included. A key that the codec writes for *some* request has to be there when the recorded
//! body has it; any other key is something that our interface cannot say, and is counted.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    neutral::{self, ParsedRequest},
    recording::Recording,
};
use crate::codec::{Codec, sample_requests, schema};

/// What came out of a comparison.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) differences: Vec<String>,
    /// What the recorded body says and our interface cannot, by path.
    pub(super) unsupported: Vec<String>,
}

/// Where our requests differ from the recorded ones on purpose. The last word says why.
const INTENDED_DIFFERENCES: &[(&str, AllowedDifference, &str)] = {
    use AllowedDifference::{Adapted, Missing, Added, Value};
    &[
        ("max_tokens", Added, "an answer is always bounded"),
        ("max_output_tokens", Added, "an answer is always bounded"),
        ("generationConfig", Added, "an answer is always bounded"),
        ("generationConfig/maxOutputTokens", Added, "an answer is always bounded"),
        ("options/num_predict", Added, "an answer is always bounded"),
        ("options/num_ctx", Added, "the server cuts what does not fit its small default"),
        ("options/num_ctx", Value, "it follows from the request's length"),
        ("truncate", Added, "what does not fit is refused, not cut"),
        ("shift", Added, "what does not fit is refused, not cut"),
        ("store", Added, "nothing is kept at the provider"),
        ("store", Value, "nothing is kept at the provider"),
        ("include", Added, "thoughts have to come back to be sent again"),
        ("include", Missing, "models that do not think refuse it"),
        ("include", Adapted, "of all that can be included we use one"),
        ("provider", Added, "a router has to find a host that knows schemas"),
        ("provider/require_parameters", Added, "a router has to find a host that knows schemas"),
        ("stream_options", Added, "a stream is always request_body for its usage"),
        ("input/*/type", Added, "the default, said"),
        ("input/*/id", Missing, "what is not kept there needs no id"),
        ("contents/*/role", Added, "the default, said"),
        ("tools/*/description", Added, "every tool has one"),
        ("tools/*/function/description", Added, "every tool has one"),
        (
            "response_format/json_schema/schema",
            Adapted,
            "schemas are said in the provider's dialect",
        ),
        ("response_format/json_schema/strict", Value, "strict where the schema can be said so"),
        ("response_format/json_schema/strict", Added, "strict where the schema can be said so"),
        ("text/format/schema", Adapted, "schemas are said in the provider's dialect"),
        ("text/format/strict", Value, "strict where the schema can be said so"),
        ("text/format/strict", Added, "strict where the schema can be said so"),
        ("output_config/format/schema", Adapted, "schemas are said in the provider's dialect"),
        (
            "generationConfig/responseJsonSchema",
            Adapted,
            "schemas are said in the provider's dialect",
        ),
        ("generationConfig/responseMimeType", Added, "a schema always goes with it"),
        ("contents/*/parts/*/functionResponse/response", Adapted, "results are words, not numbers"),
        // Efforts are one word here; a budget of tokens, or a level, follows from the model.
        ("thinking", Added, "an effort is nothing without it"),
        ("thinking/type", Value, "newer models adapt, older ones have a budget"),
        ("thinking/budget_tokens", Value, "an effort is a round number of tokens"),
        ("thinking/budget_tokens", Missing, "newer models adapt"),
        ("output_config", Added, "newer models are told the effort"),
        ("output_config/effort", Added, "newer models are told the effort"),
        (
            "generationConfig/thinkingConfig/thinkingBudget",
            Value,
            "an effort is a round number of tokens",
        ),
        ("generationConfig/thinkingConfig/thinkingBudget", Missing, "newer models have levels"),
        ("generationConfig/thinkingConfig/thinkingLevel", Added, "newer models have levels"),
        (
            "generationConfig/thinkingConfig/includeThoughts",
            Added,
            "thoughts are wanted with an effort",
        ),
        (
            "generationConfig/thinkingConfig/includeThoughts",
            Value,
            "thoughts are wanted with an effort",
        ),
        ("chat_template_kwargs", Added, "how servers of one's own are told an effort"),
        ("tools/*/functionDeclarations/*/parametersJsonSchema", Added, "every tool has one"),
    ]
};

/// How a path may differ.
#[derive(Clone, Copy, PartialEq)]
enum AllowedDifference {
    /// We say it also where the recorded body does not.
    Added,
    /// We may leave it out.
    Missing,
    /// The value may be another of the same type.
    Value,
    /// It is of the same type, with something else in it.
    Adapted,
}

/// Places that hold a schema as it was given.
const SCHEMAS: &[&str] = &[
    "tools/*/function/parameters",
    "tools/*/parameters",
    "tools/*/input_schema",
    "tools/*/functionDeclarations/*/parametersJsonSchema",
    "format",
];

/// Compares a recorded request with ours for the same call.
pub(super) fn compare(
    recording: &Recording,
    codec: &dyn Codec,
    expressible: &BTreeSet<String>,
    mut theirs: Value,
) -> Report {
    let mut report = Report::default();
    let protocol = recording.protocol().expect("it has a codec");
    let ParsedRequest { model, request, stream } =
        neutral::read(protocol, &recording.path, &mut theirs, &mut report.unsupported);
    let ours = match codec.encode(&model, &request, stream) {
        Ok(wire) => wire,
        Err(error) => {
            report.differences.push(format!("not written: {error:?}"));
            return report;
        }
    };
    let path = ours.path.split('?').next().unwrap_or_default();
    if !recording.path.ends_with(path) {
        report.differences.push(format!("goes to {path}, not {}", recording.path));
    }
    let mut ours = ours.body;
    neutral::normalize_token_limit(&mut ours);
    Comparison { expressible, report: &mut report }.values("", &theirs, &ours);
    report
}

struct Comparison<'c> {
    expressible: &'c BTreeSet<String>,
    report: &'c mut Report,
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
                is_allowed(path, AllowedDifference::Value) || one == other || is_same_json(one, other)
            }
            (Value::Bool(one), Value::Bool(other)) => is_allowed(path, AllowedDifference::Value) || one == other,
            _ => false,
        };
        if !same {
            self.report.differences.push(format!("{path}: {theirs} became {ours}"));
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
                None if is_allowed(&path, AllowedDifference::Missing) => {}
                None if self.expressible.contains(&path) => {
                    self.report.differences.push(format!("{path}: not said: {value}"));
                }
                None => self.report.unsupported.push(path),
            }
        }
        for (key, value) in ours.as_object().into_iter().flatten() {
            let path = inside(key);
            let is_new = theirs.get(key).is_none_or(Value::is_null) && !value.is_null();
            if is_new && !is_allowed(&path, AllowedDifference::Added) {
                self.report.differences.push(format!("{path}: only we say {value}"));
            }
        }
    }
}

fn is_allowed(path: &str, differ: AllowedDifference) -> bool {
    INTENDED_DIFFERENCES.iter().any(|(it, how, _)| *it == path && *how == differ)
}

/// Whether two texts hold the same JSON: the arguments of calls, where none are an empty object.
fn is_same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| -> Option<Value> {
        serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }).ok()
    };
    parse(one).is_some_and(|it| Some(it) == parse(other))
}

/// Every path that the codec writes to for some request.
pub(super) fn expressible(codec: &dyn Codec) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (model, request) in sample_requests::requests() {
        // Some protocols do not take every request.
        let Ok(wire) = codec.encode(model, &request, true) else { continue };
        let mut body = wire.body;
        neutral::normalize_token_limit(&mut body);
        collect("", &body, &mut paths);
    }
    paths
}

fn collect(path: &str, value: &Value, paths: &mut BTreeSet<String>) {
    let inside =
        |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}/{key}") };
    paths.insert(path.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, it)| collect(&inside(key), it, paths))
        }
        Value::Array(items) => items.iter().for_each(|it| collect(&inside("*"), it, paths)),
        _ => {}
    }
}
