//! Constrained decoding: restricts generated JSON to a schema, byte by byte.
//!
//! The model may choose only tokens that continue valid JSON, so even a small model produces valid output. Some schemas
//! cannot be enforced in this way, for example those with arbitrary values or keys. For such a schema, the model is not
//! constrained, and the answer is parsed like the answer of a provider without schema support.

use std::sync::Arc;

use serde_json::Value;

use self::shape::Shape;

mod shape;

/// State of a JSON value that is being generated.
#[derive(Clone, Debug)]
pub(super) struct JsonConstraint {
    /// The values that are not complete yet, from the outermost to the innermost.
    open: Vec<OpenValue>,
}

/// A value that is not complete yet.
#[derive(Clone, Debug)]
struct OpenValue {
    shape: Arc<Shape>,
    state: State,
}

/// Progress within a value.
#[derive(Clone, Debug)]
enum State {
    Start,
    /// The bytes so far, which are the start of at least one choice.
    Chosen(Vec<u8>),
    Number(NumberState),
    /// Number of characters in the string so far, and the bytes of an incomplete last character.
    Text(usize, Vec<u8>),
    /// Number of characters in the string so far. The last byte was a backslash.
    Escape(usize),
    /// Index of the current field or item, and the position within it.
    Inside(usize, Position),
}

/// Position within a field or an item. One space is allowed before a key and before a value, because models tend to
/// write it. More whitespace is not allowed, because a model could write it forever.
#[derive(Clone, Copy, Debug)]
enum Position {
    GapBeforeKey,
    Key(usize),
    GapBeforeValue,
    Value,
    End,
}

/// Position within a number.
#[derive(Clone, Copy, Debug)]
enum NumberState {
    Sign,
    Zero,
    Whole(usize),
    Point,
    Fraction(usize),
}

/// Maximum number of consecutive digits in a number.
const MAX_DIGITS: usize = 15;

/// Effect of a byte on the innermost open value.
enum Step {
    Continue(State),
    /// The byte is the last byte of the value.
    Close,
    /// The value ended before the byte, so the byte belongs to the outer value.
    EndBefore,
    /// The byte starts an inner value with the given shape. When the inner value ends, the outer value continues in the
    /// given state.
    Open(Arc<Shape>, State),
    /// The byte determines which of several shapes the value has.
    Select(Arc<Shape>),
    Reject,
}

impl JsonConstraint {
    /// Creates a constraint for a schema. Returns `None` if the schema does not describe an object or an array, or if
    /// it cannot be enforced.
    pub(super) fn new(schema: &Value) -> Option<Self> {
        let shape = Shape::read(schema)?;
        let closes = matches!(shape, Shape::Record(_) | Shape::List { .. });
        closes.then(|| Self { open: vec![OpenValue::new(Arc::new(shape))] })
    }

    /// Returns whether the bytes are a valid continuation.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        self.clone().push(bytes)
    }

    /// Appends bytes. Returns whether they are a valid continuation.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.push_byte(*byte))
    }

    /// Returns whether the value is complete.
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
            (Position::GapBeforeValue, b' ') => {
                Step::Continue(State::Inside(index, Position::Value))
            }
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

/// Adds a byte to an incomplete character. `open` contains the earlier bytes of the character.
fn character(count: usize, open: &[u8], byte: u8) -> Step {
    let open = [open, &[byte]].concat();
    match std::str::from_utf8(&open) {
        Ok(_) => Step::Continue(State::Text(count, vec![])),
        Err(error) if error.error_len().is_none() => Step::Continue(State::Text(count, open)),
        Err(_) => Step::Reject,
    }
}

#[cfg(test)]
mod tests;
