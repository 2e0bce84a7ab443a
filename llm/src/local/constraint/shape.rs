//! Shapes: the schemas whose values can be written byte by byte without looking ahead.

use std::sync::Arc;

use serde_json::Value;

/// What may be written in a place.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    /// One of these texts: constants, and whole numbers of a small range.
    Choice(Vec<String>),
    Number {
        negative: bool,
        fraction: bool,
    },
    /// A string of at most so many characters.
    Text {
        most: usize,
    },
    /// An object with all of these fields, in this order, each with its key as it is written.
    Record(Vec<(String, Arc<Self>)>),
    List {
        item: Arc<Self>,
        least: usize,
        most: usize,
    },
    /// One of several, which their first byte tells apart.
    Either(Vec<Arc<Self>>),
}

/// Ranges of whole numbers up to this size are written out.
const SMALL_RANGE: i64 = 1_000;

/// Schemas that refer to themselves have no end; this is where they are given up.
const MAX_SHAPES: usize = 1_000;
/// The same for values inside values.
const MAX_DEPTH: usize = 32;

impl Shape {
    /// The shape of a schema; `None` where it says too little or too much.
    pub(super) fn read(schema: &Value) -> Option<Self> {
        ShapeReader { root: schema, left: MAX_SHAPES, depth: 0 }.shape(schema)
    }

    pub(super) fn starts_with(&self, byte: u8) -> bool {
        match self {
            Self::Choice(options) => options.iter().any(|it| it.as_bytes().first() == Some(&byte)),
            Self::Number { negative, .. } => byte.is_ascii_digit() || *negative && byte == b'-',
            Self::Text { .. } => byte == b'"',
            Self::Record(_) => byte == b'{',
            Self::List { .. } => byte == b'[',
            Self::Either(shapes) => shapes.iter().any(|it| it.starts_with(byte)),
        }
    }
}

struct ShapeReader<'a> {
    root: &'a Value,
    left: usize,
    depth: usize,
}

impl ShapeReader<'_> {
    fn shape(&mut self, schema: &Value) -> Option<Shape> {
        self.left = self.left.checked_sub(1)?;
        self.depth += 1;
        let shape = if self.depth > MAX_DEPTH { None } else { self.shape_here(schema) };
        self.depth -= 1;
        shape
    }

    fn shape_here(&mut self, schema: &Value) -> Option<Shape> {
        let schema = schema.as_object()?;
        if let Some(place) = schema.get("$ref") {
            let root = self.root;
            return self.shape(root.pointer(place.as_str()?.strip_prefix('#')?)?);
        }
        if let Some(value) = schema.get("const") {
            return Some(Shape::Choice(vec![value.to_string()]));
        }
        if let Some(values) = schema.get("enum") {
            return Some(Shape::Choice(values.as_array()?.iter().map(Value::to_string).collect()));
        }
        if let Some(several) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            let shapes = several.as_array()?.iter().map(|it| self.shape(it));
            return either(shapes.collect::<Option<_>>()?);
        }
        match schema.get("type")? {
            Value::String(kind) => self.of_kind(kind, schema),
            Value::Array(kinds) => {
                let shapes = kinds.iter().map(|it| self.of_kind(it.as_str()?, schema));
                either(shapes.collect::<Option<_>>()?)
            }
            _ => None,
        }
    }

    fn of_kind(&mut self, kind: &str, schema: &serde_json::Map<String, Value>) -> Option<Shape> {
        let size = |key: &str| schema.get(key).and_then(Value::as_u64).map(|it| it as usize);
        let negative = schema.get("minimum").and_then(Value::as_f64).is_none_or(|it| it < 0.0);
        Some(match kind {
            "null" => Shape::Choice(vec!["null".into()]),
            "boolean" => Shape::Choice(vec!["true".into(), "false".into()]),
            "string" => Shape::Text { most: size("maxLength").unwrap_or(usize::MAX) },
            "number" => Shape::Number { negative, fraction: true },
            "integer" => range(schema).unwrap_or(Shape::Number { negative, fraction: false }),
            "array" => Shape::List {
                item: Arc::new(self.shape(schema.get("items")?)?),
                least: size("minItems").unwrap_or(0),
                most: size("maxItems").unwrap_or(usize::MAX),
            },
            "object" => {
                let fields = schema.get("properties")?.as_object()?.iter();
                let fields = fields.map(|(name, schema)| {
                    let key = format!("{}:", Value::from(name.as_str()));
                    Some((key, Arc::new(self.shape(schema)?)))
                });
                Shape::Record(fields.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

fn range(schema: &serde_json::Map<String, Value>) -> Option<Shape> {
    let (least, most) = (schema.get("minimum")?.as_i64()?, schema.get("maximum")?.as_i64()?);
    let is_small = least <= most && most.checked_sub(least)? <= SMALL_RANGE;
    is_small.then(|| Shape::Choice((least..=most).map(|it| it.to_string()).collect()))
}

/// One of several shapes; `None` where a first byte does not tell which.
fn either(shapes: Vec<Shape>) -> Option<Shape> {
    let mut choices = vec![];
    let mut others = vec![];
    for shape in shapes {
        match shape {
            Shape::Choice(options) => choices.extend(options),
            other => others.push(Arc::new(other)),
        }
    }
    if !choices.is_empty() {
        others.push(Arc::new(Shape::Choice(choices)));
    }
    let is_clear = |byte| others.iter().filter(|it| it.starts_with(byte)).count() <= 1;
    (0..=u8::MAX).all(is_clear).then_some(Shape::Either(others))
}
