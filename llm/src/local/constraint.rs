//! The form of an answer: JSON that keeps to a schema, checked byte by byte while it is written.
//!
//! It is how a small model gives JSON that can be read: of the tokens it may choose only those that go on
//! with the constraint. Schemas that say less than this needs (any value, free keys) leave the model free, and the
//! answer is read as well as it can be, like that of a provider without schemas.

use std::sync::Arc;

use serde_json::Value;

use self::shape::Shape;

mod shape;

/// JSON that is being written.
#[derive(Clone, Debug)]
pub(super) struct JsonConstraint {
    /// The values that are open, the innermost last.
    open: Vec<OpenValue>,
}

/// A value that is being written.
#[derive(Clone, Debug)]
struct OpenValue {
    shape: Arc<Shape>,
    state: State,
}

/// How far a value is written.
#[derive(Clone, Debug)]
enum State {
    Start,
    /// These bytes of a choice.
    Chosen(Vec<u8>),
    Number(NumberState),
    /// So many characters of a string, and the bytes of the last one as long as it is not whole.
    Text(usize, Vec<u8>),
    /// So many characters of a string, and a backslash.
    Escape(usize),
    /// At this field or item.
    Inside(usize, Position),
}

/// Where in a field or an item the next byte stands. One blank may come before a key and before a value: that
/// is enough for a habit, and more is a way never to end.
#[derive(Clone, Copy, Debug)]
enum Position {
    GapBeforeKey,
    Key(usize),
    GapBeforeValue,
    Value,
    End,
}

/// Where in a number the next byte stands.
#[derive(Clone, Copy, Debug)]
enum NumberState {
    Sign,
    Zero,
    Whole(usize),
    Point,
    Fraction(usize),
}

/// Longer runs of digits say nothing.
const MAX_DIGITS: usize = 15;

/// What a byte means to the innermost value.
enum Step {
    Continue(State),
    /// It is the value's last byte.
    Close,
    /// The value ended before it.
    EndBefore,
    /// It begins a value inside, after which this one goes on.
    Open(Arc<Shape>, State),
    /// It says which of several shapes this value has.
    Select(Arc<Shape>),
    Reject,
}

impl JsonConstraint {
    /// The form of a schema of an object or a list, if it is one that can be kept to.
    pub(super) fn new(schema: &Value) -> Option<Self> {
        let shape = Shape::read(schema)?;
        let closes = matches!(shape, Shape::Record(_) | Shape::List { .. });
        closes.then(|| Self { open: vec![OpenValue::new(Arc::new(shape))] })
    }

    /// Whether the bytes go on with it.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        self.clone().push(bytes)
    }

    /// Writes on; says whether the bytes went on with the constraint.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.push_byte(*byte))
    }

    /// Whether the value is written to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.open.is_empty()
    }

    fn push_byte(&mut self, byte: u8) -> bool {
        loop {
            let Some(top) = self.open.last_mut() else { return false };
            match top.step(byte) {
                Step::Continue(state) => {
                    top.state = state;
                    return true;
                }
                Step::Close => {
                    self.open.pop();
                    return true;
                }
                Step::EndBefore => {
                    self.open.pop();
                }
                Step::Open(shape, state) => {
                    top.state = state;
                    self.open.push(OpenValue::new(shape));
                }
                Step::Select(shape) => *top = OpenValue::new(shape),
                Step::Reject => return false,
            }
        }
    }
}

impl OpenValue {
    fn new(shape: Arc<Shape>) -> Self {
        Self { shape, state: State::Start }
    }

    fn step(&self, byte: u8) -> Step {
        match &*self.shape {
            Shape::Choice(options) => self.choice(options, byte),
            Shape::Number { negative, fraction } => self.number(*negative, *fraction, byte),
            Shape::Text { most } => self.text(*most, byte),
            Shape::Record(fields) => self.record(fields, byte),
            Shape::List { item, least, most } => self.list(item, *least, *most, byte),
            Shape::Either(shapes) => match shapes.iter().find(|it| it.starts_with(byte)) {
                Some(shape) => Step::Select(shape.clone()),
                None => Step::Reject,
            },
        }
    }

    fn choice(&self, options: &[String], byte: u8) -> Step {
        let mut text = match &self.state {
            State::Chosen(text) => text.clone(),
            _ => vec![],
        };
        let is_option = options.iter().any(|it| it.as_bytes() == text);
        text.push(byte);
        if options.iter().any(|it| it.as_bytes().starts_with(&text)) {
            Step::Continue(State::Chosen(text))
        } else if is_option {
            Step::EndBefore
        } else {
            Step::Reject
        }
    }

    fn number(&self, negative: bool, fraction: bool, byte: u8) -> Step {
        use NumberState::{Fraction, Point, Sign, Whole, Zero};
        let digits = match self.state {
            State::Number(digits) => Some(digits),
            _ => None,
        };
        let next = match (digits, byte) {
            (None, b'-') if negative => Sign,
            (None | Some(Sign), b'0') => Zero,
            (None | Some(Sign), b'1'..=b'9') => Whole(1),
            (Some(Whole(count)), b'0'..=b'9') if count < MAX_DIGITS => Whole(count + 1),
            (Some(Zero | Whole(_)), b'.') if fraction => Point,
            (Some(Point), b'0'..=b'9') => Fraction(1),
            (Some(Fraction(count)), b'0'..=b'9') if count < MAX_DIGITS => Fraction(count + 1),
            (Some(Zero | Whole(_) | Fraction(_)), b',' | b']' | b'}') => return Step::EndBefore,
            _ => return Step::Reject,
        };
        Step::Continue(State::Number(next))
    }

    fn text(&self, most: usize, byte: u8) -> Step {
        let (count, open) = match (&self.state, byte) {
            (State::Start, b'"') => return Step::Continue(State::Text(0, vec![])),
            (State::Escape(count), b'"' | b'\\' | b'/' | b'n' | b't') => {
                return Step::Continue(State::Text(count + 1, vec![]));
            }
            (State::Text(count, open), _) => (*count, open),
            _ => return Step::Reject,
        };
        match byte {
            _ if !open.is_empty() => character(count, open, byte),
            b'"' => Step::Close,
            _ if count == most => Step::Reject,
            b'\\' => Step::Continue(State::Escape(count)),
            0x20.. => character(count + 1, open, byte),
            _ => Step::Reject,
        }
    }

    fn record(&self, fields: &[(String, Arc<Shape>)], byte: u8) -> Step {
        let State::Inside(index, at) = self.state else {
            return match byte {
                b'{' => Step::Continue(State::Inside(0, Position::Key(0))),
                _ => Step::Reject,
            };
        };
        let Some((key, shape)) = fields.get(index) else {
            return if byte == b'}' { Step::Close } else { Step::Reject };
        };
        let inside = |at| Step::Continue(State::Inside(index, at));
        match (at, byte) {
            (Position::GapBeforeKey, b' ') => inside(Position::Key(0)),
            (Position::GapBeforeKey, _) if key.as_bytes()[0] == byte => inside(Position::Key(1)),
            (Position::Key(count), _) if key.as_bytes()[count] == byte => match count + 1 {
                next if next == key.len() => inside(Position::GapBeforeValue),
                next => inside(Position::Key(next)),
            },
            (Position::GapBeforeValue, b' ') => inside(Position::Value),
            (Position::GapBeforeValue | Position::Value, _) => {
                Step::Open(shape.clone(), State::Inside(index, Position::End))
            }
            (Position::End, b',') if index + 1 < fields.len() => {
                Step::Continue(State::Inside(index + 1, Position::GapBeforeKey))
            }
            (Position::End, b'}') if index + 1 == fields.len() => Step::Close,
            _ => Step::Reject,
        }
    }

    fn list(&self, item: &Arc<Shape>, least: usize, most: usize, byte: u8) -> Step {
        let State::Inside(index, at) = self.state else {
            return match byte {
                b'[' => Step::Continue(State::Inside(0, Position::Value)),
                _ => Step::Reject,
            };
        };
        match (at, byte) {
            (Position::Value, b']') if index == 0 && least == 0 => Step::Close,
            (Position::GapBeforeValue, b' ') => Step::Continue(State::Inside(index, Position::Value)),
            (Position::GapBeforeValue | Position::Value, _) if index < most => {
                Step::Open(item.clone(), State::Inside(index, Position::End))
            }
            (Position::End, b',') if index + 1 < most => {
                Step::Continue(State::Inside(index + 1, Position::GapBeforeValue))
            }
            (Position::End, b']') if least <= index + 1 => Step::Close,
            _ => Step::Reject,
        }
    }
}

/// Goes on with a character, of which there are these bytes.
fn character(count: usize, open: &[u8], byte: u8) -> Step {
    let open = [open, &[byte]].concat();
    match std::str::from_utf8(&open) {
        Ok(_) => Step::Continue(State::Text(count, vec![])),
        Err(error) if error.error_len().is_none() => Step::Continue(State::Text(count, open)),
        Err(_) => Step::Reject,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn constraint(schema: &Value) -> JsonConstraint {
        JsonConstraint::new(schema).expect("a schema that can be kept to")
    }

    #[track_caller]
    fn check(schema: &Value, good: &[&str], bad: &[&str]) {
        for text in good {
            let mut constraint = constraint(schema);
            for (at, byte) in text.bytes().enumerate() {
                assert!(!constraint.is_complete(), "{text} is whole at {at}");
                assert!(constraint.push(&[byte]), "{text} breaks at {at}");
            }
            assert!(constraint.is_complete(), "{text} is not whole");
            assert!(!constraint.accepts(b" "), "{text} goes on");
        }
        for text in bad {
            assert!(!constraint(schema).accepts(text.as_bytes()), "{text}");
        }
    }

    /// A field of this schema.
    fn field(schema: &Value) -> Value {
        json!({"type": "object", "properties": {"it": schema}})
    }

    #[test]
    fn records() {
        let two = json!({
            "type": "object",
            "properties": {"a": {"type": "boolean"}, "b\"": {"type": "null"}},
        });
        check(
            &two,
            &[r#"{"a":true,"b\"":null}"#, r#"{"a": false, "b\"": null}"#],
            &[" {", "{ ", r#"{"b"#, r#"{"a":true}"#, r#"{"a":  t"#, r#"{"a":true,  "#, "{\n"],
        );
        check(&json!({"type": "object", "properties": {}}), &["{}"], &["{ ", "{\""]);
    }

    #[test]
    fn numbers() {
        let small = field(&json!({"type": "integer", "minimum": 1, "maximum": 10}));
        check(
            &small,
            &[r#"{"it":1}"#, r#"{"it":10}"#],
            &[r#"{"it":0"#, r#"{"it":11"#, r#"{"it":-"#, r#"{"it":1."#, r#"{"it":}"#],
        );
        let large = field(&json!({"type": "integer", "minimum": 0}));
        check(
            &large,
            &[r#"{"it":0}"#, r#"{"it":90210}"#],
            &[r#"{"it":-"#, r#"{"it":01"#, r#"{"it":1."#],
        );
        let any = field(&json!({"type": "number"}));
        check(
            &any,
            &[r#"{"it":-0.5}"#, r#"{"it":12}"#, r#"{"it":3.25}"#],
            &[
                r#"{"it":.5"#,
                r#"{"it":1.}"#,
                r#"{"it":-}"#,
                r#"{"it":1e"#,
                r#"{"it":1234567890123456"#,
            ],
        );
    }

    #[test]
    fn strings() {
        let short = field(&json!({"type": "string", "maxLength": 3}));
        check(
            &short,
            &[r#"{"it":""}"#, r#"{"it":"aß€"}"#, r#"{"it":"\"\n"}"#],
            &[r#"{"it":"abcd"#, r#"{"it":"\x"#, "{\"it\":\"\n", r#"{"it":x"#],
        );
        // A character wants its own bytes, and nothing else.
        for bytes in [&b"\xA0"[..], b"\xE2\x82\"", b"\xE2a", b"abc\xC3", b"\xE0\x80", b"\xFF"] {
            let mut constraint = constraint(&short);
            assert!(constraint.push(br#"{"it":""#));
            assert!(!constraint.accepts(bytes), "{bytes:?}");
        }
        let choice = field(&json!({"enum": ["yes", "yesterday"]}));
        check(
            &choice,
            &[r#"{"it":"yes"}"#, r#"{"it":"yesterday"}"#],
            &[r#"{"it":"yest""#, r#"{"it":"n"#],
        );
    }

    #[test]
    fn lists() {
        let list =
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2});
        check(&list, &["[1]", "[1,2]", "[1, 20]"], &["[]", "[ ", "[1,]", "[1,2,", "[1,  "]);
        let free = json!({"type": "array", "items": {"type": "array", "items": {"type": "null"}}});
        check(&free, &["[]", "[[]]", "[[null],[]]"], &["[null", "[[],,"]);
    }

    #[test]
    fn one_of_several() {
        let maybe = field(&json!({"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}));
        let mut maybe = maybe;
        maybe["$defs"] = json!({"Point": field(&json!({"type": ["integer", "null"]}))});
        check(
            &maybe,
            &[r#"{"it":null}"#, r#"{"it":{"it":7}}"#, r#"{"it":{"it":null}}"#],
            &[r#"{"it":7"#, r#"{"it":""#],
        );
        let named = field(&json!({"oneOf": [{"const": "low"}, {"const": "high"}]}));
        check(&named, &[r#"{"it":"low"}"#, r#"{"it":"high"}"#], &[r#"{"it":"lot"#]);
    }

    #[test]
    fn what_cannot_be_kept_to_is_left_alone() {
        let endless = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let unclear = json!({"anyOf": [{"type": "string"}, {"const": "a"}]});
        let free_keys = json!({"type": "object", "additionalProperties": {"type": "string"}});
        for schema in
            [json!({}), json!(true), json!({"type": "string"}), endless, field(&unclear), free_keys]
        {
            assert!(JsonConstraint::new(&schema).is_none(), "{schema}");
        }
    }
}
