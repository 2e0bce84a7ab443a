//! Shapes: whether our request says the same as the recorded one, in the same places.
//!
//! The recorded body is read as one of our requests, this is written by our codec, and the two bodies are
//! compared, values included. A key that the codec writes for *some* request has to be there when the recorded
//! body has it; any other key is something that our interface cannot say, and is counted.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    neutral::{self, Asked},
    recording::Recording,
};
use crate::codec::{Codec, rich, schema};

/// What came out of a comparison.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) differences: Vec<String>,
    /// What the recorded body says and our interface cannot, by place.
    pub(super) unsayable: Vec<String>,
}

/// Where our requests differ from the recorded ones on purpose. The last word says why.
const ON_PURPOSE: &[(&str, Differ, &str)] = {
    use Differ::{Adapted, Missing, More, Value};
    &[
        ("max_tokens", More, "an answer is always bounded"),
        ("max_output_tokens", More, "an answer is always bounded"),
        ("generationConfig", More, "an answer is always bounded"),
        ("generationConfig/maxOutputTokens", More, "an answer is always bounded"),
        ("options/num_predict", More, "an answer is always bounded"),
        ("options/num_ctx", More, "the server cuts what does not fit its small default"),
        ("options/num_ctx", Value, "it follows from the request's length"),
        ("truncate", More, "what does not fit is refused, not cut"),
        ("shift", More, "what does not fit is refused, not cut"),
        ("store", More, "nothing is kept at the provider"),
        ("store", Value, "nothing is kept at the provider"),
        ("include", More, "thoughts have to come back to be sent again"),
        ("include", Missing, "models that do not think refuse it"),
        ("include", Adapted, "of all that can be included we use one"),
        ("provider", More, "a router has to find a host that knows schemas"),
        ("provider/require_parameters", More, "a router has to find a host that knows schemas"),
        ("stream_options", More, "a stream is always asked for its usage"),
        ("input/*/type", More, "the default, said"),
        ("input/*/id", Missing, "what is not kept there needs no id"),
        ("contents/*/role", More, "the default, said"),
        ("tools/*/description", More, "every tool has one"),
        ("tools/*/function/description", More, "every tool has one"),
        (
            "response_format/json_schema/schema",
            Adapted,
            "schemas are said in the provider's dialect",
        ),
        ("response_format/json_schema/strict", Value, "strict where the schema can be said so"),
        ("response_format/json_schema/strict", More, "strict where the schema can be said so"),
        ("text/format/schema", Adapted, "schemas are said in the provider's dialect"),
        ("text/format/strict", Value, "strict where the schema can be said so"),
        ("text/format/strict", More, "strict where the schema can be said so"),
        ("output_config/format/schema", Adapted, "schemas are said in the provider's dialect"),
        (
            "generationConfig/responseJsonSchema",
            Adapted,
            "schemas are said in the provider's dialect",
        ),
        ("generationConfig/responseMimeType", More, "a schema always goes with it"),
        ("contents/*/parts/*/functionResponse/response", Adapted, "results are words, not numbers"),
        // Efforts are one word here; a budget of tokens, or a level, follows from the model.
        ("thinking", More, "an effort is nothing without it"),
        ("thinking/type", Value, "newer models adapt, older ones have a budget"),
        ("thinking/budget_tokens", Value, "an effort is a round number of tokens"),
        ("thinking/budget_tokens", Missing, "newer models adapt"),
        ("output_config", More, "newer models are told the effort"),
        ("output_config/effort", More, "newer models are told the effort"),
        (
            "generationConfig/thinkingConfig/thinkingBudget",
            Value,
            "an effort is a round number of tokens",
        ),
        ("generationConfig/thinkingConfig/thinkingBudget", Missing, "newer models have levels"),
        ("generationConfig/thinkingConfig/thinkingLevel", More, "newer models have levels"),
        (
            "generationConfig/thinkingConfig/includeThoughts",
            More,
            "thoughts are wanted with an effort",
        ),
        (
            "generationConfig/thinkingConfig/includeThoughts",
            Value,
            "thoughts are wanted with an effort",
        ),
        ("chat_template_kwargs", More, "how servers of one's own are told an effort"),
        ("tools/*/functionDeclarations/*/parametersJsonSchema", More, "every tool has one"),
    ]
};

/// How a place may differ.
#[derive(Clone, Copy, PartialEq)]
enum Differ {
    /// We say it also where the recorded body does not.
    More,
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
    sayable: &BTreeSet<String>,
    mut theirs: Value,
) -> Report {
    let mut report = Report::default();
    let protocol = recording.protocol().expect("it has a codec");
    let Asked { model, request, stream } =
        neutral::read(protocol, &recording.path, &mut theirs, &mut report.unsayable);
    let ours = match codec.encode(&model, &request, stream) {
        Ok(wire) => wire,
        Err(fault) => {
            report.differences.push(format!("not written: {fault:?}"));
            return report;
        }
    };
    let path = ours.path.split('?').next().unwrap_or_default();
    if !recording.path.ends_with(path) {
        report.differences.push(format!("goes to {path}, not {}", recording.path));
    }
    let mut ours = ours.body;
    neutral::one_name_of_the_limit(&mut ours);
    Comparison { sayable, report: &mut report }.values("", &theirs, &ours);
    report
}

struct Comparison<'c> {
    sayable: &'c BTreeSet<String>,
    report: &'c mut Report,
}

impl Comparison<'_> {
    fn values(&mut self, place: &str, theirs: &Value, ours: &Value) {
        let same = match (theirs, ours) {
            _ if SCHEMAS.contains(&place) => schema::plain(theirs) == *ours,
            (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_))
                if may(place, Differ::Adapted) =>
            {
                true
            }
            (Value::Object(_), Value::Object(_)) => return self.objects(place, theirs, ours),
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                let place = format!("{place}/*");
                one.iter().zip(other).for_each(|(one, other)| self.values(&place, one, other));
                true
            }
            (Value::Number(one), Value::Number(other)) => {
                may(place, Differ::Value) || one.as_f64() == other.as_f64()
            }
            (Value::String(one), Value::String(other)) => {
                may(place, Differ::Value) || one == other || is_same_json(one, other)
            }
            (Value::Bool(one), Value::Bool(other)) => may(place, Differ::Value) || one == other,
            _ => false,
        };
        if !same {
            self.report.differences.push(format!("{place}: {theirs} became {ours}"));
        }
    }

    fn objects(&mut self, place: &str, theirs: &Value, ours: &Value) {
        let inside =
            |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}/{key}") };
        for (key, value) in theirs.as_object().into_iter().flatten() {
            let place = inside(key);
            match ours.get(key) {
                _ if value.is_null() => {}
                Some(ours) => self.values(&place, value, ours),
                None if may(&place, Differ::Missing) => {}
                None if self.sayable.contains(&place) => {
                    self.report.differences.push(format!("{place}: not said: {value}"));
                }
                None => self.report.unsayable.push(place),
            }
        }
        for (key, value) in ours.as_object().into_iter().flatten() {
            let place = inside(key);
            let is_new = theirs.get(key).is_none_or(Value::is_null) && !value.is_null();
            if is_new && !may(&place, Differ::More) {
                self.report.differences.push(format!("{place}: only we say {value}"));
            }
        }
    }
}

fn may(place: &str, differ: Differ) -> bool {
    ON_PURPOSE.iter().any(|(it, how, _)| *it == place && *how == differ)
}

/// Whether two texts hold the same JSON: the arguments of calls, where none are an empty object.
fn is_same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| -> Option<Value> {
        serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }).ok()
    };
    parse(one).is_some_and(|it| Some(it) == parse(other))
}

/// Every place that the codec writes to for some request.
pub(super) fn sayable(codec: &dyn Codec) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for (model, request) in rich::requests() {
        // Some protocols do not take every request.
        let Ok(wire) = codec.encode(model, &request, true) else { continue };
        let mut body = wire.body;
        neutral::one_name_of_the_limit(&mut body);
        collect("", &body, &mut places);
    }
    places
}

fn collect(place: &str, value: &Value, places: &mut BTreeSet<String>) {
    let inside =
        |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}/{key}") };
    places.insert(place.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, it)| collect(&inside(key), it, places))
        }
        Value::Array(items) => items.iter().for_each(|it| collect(&inside("*"), it, places)),
        _ => {}
    }
}
