//! The expressions with which scripted nodes and branches compute values.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::Deserialize;
use serde_json::{Map, Value};

/// An expression of the conformance format.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub enum Expr {
    Scalar(Value),
    /// A list that is evaluated item by item.
    List(Vec<Self>),
    /// An object with one key, which is the name of an operation.
    Op(Box<Operation>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Lit(Value),
    Get(String),
    Input(bool),
    Keys(bool),
    Item(bool),
    Var(String),
    Obj(BTreeMap<String, Expr>),
    Len(Expr),
    Add([Expr; 2]),
    Eq([Expr; 2]),
    Lt([Expr; 2]),
    Has([Expr; 2]),
    Not([Expr; 1]),
    Error(FailurePart),
    Overwrite(Expr),
}

/// Selects the part of a failure that an error handler reads.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailurePart {
    Node,
    Message,
}

impl TryFrom<Value> for Expr {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, serde_json::Error> {
        match value {
            Value::Array(items) => {
                Ok(Self::List(items.into_iter().map(Self::try_from).collect::<Result<_, _>>()?))
            }
            Value::Object(_) => Ok(Self::Op(serde_json::from_value(value)?)),
            scalar => Ok(Self::Scalar(scalar)),
        }
    }
}

impl Expr {
    /// Calls a function for each operation in the expression.
    pub fn visit<'a>(&'a self, function: &mut impl FnMut(&'a Operation)) {
        let operation = match self {
            Self::Scalar(_) => return,
            Self::List(items) => return items.iter().for_each(|it| it.visit(function)),
            Self::Op(operation) => &**operation,
        };
        function(operation);
        match operation {
            Operation::Obj(entries) => entries.values().for_each(|it| it.visit(function)),
            Operation::Add(parts)
            | Operation::Eq(parts)
            | Operation::Lt(parts)
            | Operation::Has(parts) => parts.iter().for_each(|it| it.visit(function)),
            Operation::Len(part) | Operation::Not([part]) | Operation::Overwrite(part) => {
                part.visit(function);
            }
            Operation::Lit(_)
            | Operation::Get(_)
            | Operation::Input(_)
            | Operation::Keys(_)
            | Operation::Item(_)
            | Operation::Var(_)
            | Operation::Error(_) => {}
        }
    }
}

/// Values that expressions can read.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The input of the node or branch.
    pub input: Value,
    /// Variables that have been bound so far.
    pub vars: BTreeMap<String, Value>,
    /// The current item, inside `each`.
    pub item: Value,
    /// In a handler, the name of the failed node and its error message.
    pub failure: Option<(String, String)>,
}

impl Env {
    /// Creates an environment that contains only an input.
    pub fn of(input: Value) -> Self {
        Self { input, ..Self::default() }
    }
}

pub fn evaluate(expr: &Expr, env: &Env) -> Value {
    match expr {
        Expr::Scalar(value) => value.clone(),
        Expr::List(items) => items.iter().map(|it| evaluate(it, env)).collect(),
        Expr::Op(operation) => operate(operation, env),
    }
}

/// Evaluates a value that is written to a field. Also returns whether the value overwrites the field.
pub fn evaluate_write(expr: &Expr, env: &Env) -> (Value, bool) {
    match expr {
        Expr::Op(operation) => match &**operation {
            Operation::Overwrite(value) => (evaluate(value, env), true),
            other => (operate(other, env), false),
        },
        other => (evaluate(other, env), false),
    }
}

/// Returns whether this value makes a condition true.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

fn operate(operation: &Operation, env: &Env) -> Value {
    let both = |[a, b]: &[Expr; 2]| (evaluate(a, env), evaluate(b, env));
    match operation {
        Operation::Lit(value) => value.clone(),
        Operation::Get(field) => env.input.get(field).cloned().unwrap_or_default(),
        Operation::Input(_) => env.input.clone(),
        Operation::Keys(_) => keys(&env.input),
        Operation::Item(_) => env.item.clone(),
        Operation::Var(name) => env.vars.get(name).cloned().unwrap_or_default(),
        Operation::Obj(entries) => {
            let entry = |(key, it): (&String, &Expr)| (key.clone(), evaluate(it, env));
            Value::Object(entries.iter().map(entry).collect())
        }
        Operation::Len(of) => Value::from(length(&evaluate(of, env))),
        Operation::Add(pair) => {
            let (a, b) = both(pair);
            add(a, b)
        }
        Operation::Eq(pair) => {
            let (a, b) = both(pair);
            Value::from(equal(&a, &b))
        }
        Operation::Lt(pair) => {
            let (a, b) = both(pair);
            Value::from(order(&a, &b) == Some(Ordering::Less))
        }
        Operation::Has(pair) => {
            let (list, item) = both(pair);
            let holds = |list: &Vec<Value>| list.iter().any(|it| equal(it, &item));
            Value::from(list.as_array().is_some_and(holds))
        }
        Operation::Not([it]) => Value::from(!is_true(&evaluate(it, env))),
        Operation::Error(part) => failure(env, *part),
        // Outside a write, `overwrite` has no effect.
        Operation::Overwrite(it) => evaluate(it, env),
    }
}

fn keys(input: &Value) -> Value {
    let mut names: Vec<_> = input.as_object().into_iter().flat_map(Map::keys).collect();
    names.sort();
    names.into_iter().map(String::as_str).collect()
}

fn failure(env: &Env, part: FailurePart) -> Value {
    match (&env.failure, part) {
        (None, _) => Value::Null,
        (Some((node, _)), FailurePart::Node) => Value::from(node.as_str()),
        (Some((_, message)), FailurePart::Message) => Value::from(message.as_str()),
    }
}

pub(crate) fn length(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        Value::String(text) => text.chars().count(),
        _ => 0,
    }
}

pub(crate) fn add(a: Value, b: Value) -> Value {
    if a.is_string() || b.is_string() {
        return Value::from(text(a) + &text(b));
    }
    if let (Value::Array(a), Value::Array(b)) = (&a, &b) {
        return a.iter().chain(b).cloned().collect();
    }
    match (whole(&a), whole(&b)) {
        (Some(a), Some(b)) => Value::from(a + b),
        _ => Value::from(float(&a) + float(&b)),
    }
}

/// Returns a string unchanged, and any other value as compact JSON with sorted keys.
fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        mut other => {
            other.sort_all_objects();
            other.to_string()
        }
    }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        Value::Bool(it) => Some(i64::from(*it)),
        other => other.as_i64(),
    }
}

fn float(value: &Value) -> f64 {
    whole(value).map_or_else(|| value.as_f64().unwrap_or_default(), |it| it as f64)
}

/// Compares two values as Python does, where 1 equals 1.0.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

pub(crate) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) => float(a).partial_cmp(&float(b)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(expr: &str, expect: &str) {
        let env = Env {
            input: json!({"log": ["a", "b"], "n": 2, "zero": 0}),
            vars: BTreeMap::from([("v".to_owned(), json!("x"))]),
            item: json!(7),
            failure: Some(("bad".to_owned(), "boom".to_owned())),
        };
        let parsed: Expr = serde_json::from_str(expr).unwrap();
        let expect: Value = serde_json::from_str(expect).unwrap();
        assert_eq!(evaluate(&parsed, &env), expect, "{expr}");
    }

    #[test]
    fn expressions_read_fields_items_and_errors() {
        check(r#"["a", {"get": "n"}, {"get": "none"}]"#, r#"["a", 2, null]"#);
        check(r#"{"lit": {"get": "n"}}"#, r#"{"get": "n"}"#);
        check(r#"{"keys": true}"#, r#"["log", "n", "zero"]"#);
        check(r#"{"obj": {"i": {"item": true}, "v": {"var": "v"}}}"#, r#"{"i": 7, "v": "x"}"#);
        check(r#"[{"error": "node"}, {"error": "message"}]"#, r#"["bad", "boom"]"#);
    }

    #[test]
    fn expressions_compute_lengths_sums_and_comparisons() {
        check(r#"{"len": {"get": "log"}}"#, "2");
        check(r#"{"len": null}"#, "0");
        check(r#"{"add": [{"get": "n"}, null]}"#, "2");
        check(r#"{"add": ["w", {"lit": {"b": 1, "a": [true]}}]}"#, r#""w{\"a\":[true],\"b\":1}""#);
        check(r#"{"add": [1.5, 1]}"#, "2.5");
        check(r#"{"lt": [null, 1]}"#, "true");
        check(r#"{"eq": [{"get": "n"}, 2]}"#, "true");
        check(r#"{"has": [{"get": "log"}, "b"]}"#, "true");
        check(r#"{"has": [null, "b"]}"#, "false");
        check(r#"{"not": [{"get": "zero"}]}"#, "true");
    }

    #[test]
    fn overwrite_is_recognized() {
        let parsed: Expr = serde_json::from_value(json!({"overwrite": ["O"]})).unwrap();
        assert_eq!(evaluate_write(&parsed, &Env::default()), (json!(["O"]), true));
    }

    #[test]
    fn only_null_false_zero_and_empty_are_false() {
        for value in
            [json!(null), json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})]
        {
            assert!(!is_true(&value), "{value}");
        }
        for value in [json!(true), json!(-1), json!(" "), json!([0]), json!({"a": null})] {
            assert!(is_true(&value), "{value}");
        }
    }

    #[test]
    fn unknown_operations_are_rejected() {
        assert!(serde_json::from_value::<Expr>(json!({"plus": [1, 2]})).is_err());
        assert!(serde_json::from_value::<Expr>(json!({"lit": 1, "get": "n"})).is_err());
    }
}
