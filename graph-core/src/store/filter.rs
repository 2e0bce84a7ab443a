//! Filter: which values a search keeps.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Map, Value};

use super::put::kind;

/// Tests a value.
///
/// A field that is missing counts as null.
/// Numbers are equal by size, so `1` equals `1.0`.
/// Ordering compares integers exactly, otherwise as floats (a text may hold the number, and
/// true counts as 1), otherwise text with text; all else has no order and does not pass.
///
/// ```
/// use graph_core::store::Filter;
/// use serde_json::json;
///
/// let filter = Filter::gte("age", 18).and(Filter::within("home", Filter::eq("city", "London")));
/// assert!(filter.matches(&json!({"age": 36, "home": {"city": "London", "zip": "W1"}})));
///
/// let parsed = Filter::parse(&json!({"age": {"$gte": 18}, "home": {"city": "London"}}))?;
/// assert!(!parsed.matches(&json!({"age": 36, "home": {"city": "Paris"}})));
/// # Ok::<(), graph_core::store::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Filter {
    /// Passes what passes all of these; with none, everything.
    All(Vec<Self>),
    /// Passes objects whose fields pass; they may have more fields.
    Object(BTreeMap<String, Self>),
    /// Passes lists of the same length whose elements pass, one by one.
    List(Vec<Self>),
    /// Passes what compares so with the value.
    Compare(Comparison, Value),
}

/// Compares a value with the one in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// `$eq`: equal through and through.
    Eq,
    /// `$ne`: not equal.
    Ne,
    /// `$gt`: greater.
    Gt,
    /// `$gte`: greater or equal.
    Gte,
    /// `$lt`: less.
    Lt,
    /// `$lte`: less or equal.
    Lte,
}

/// Says why a filter in JSON form cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterError {
    /// The filter is not an object.
    #[error(r#"the filter is {found}; write an object of fields, such as {{"age": 18}}"#)]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// An operator has no field to test.
    #[error(r#"`{operator}` tests no field; write it as {{"field": {{"{operator}": ..}}}}"#)]
    NoField {
        /// The operator.
        operator: String,
    },
    /// A name stands where only operators may.
    #[error(
        "`{path}` is tested with `{operator}`, which is no operator; \
         operators are: $eq, $ne, $gt, $gte, $lt, $lte"
    )]
    UnknownOperator {
        /// The field tested.
        path: String,
        /// What was given as its operator.
        operator: String,
    },
    /// An operator that orders was given something without order.
    #[error("`{path}` is compared by `{operator}` with {found}; give a number or a text")]
    NoOrder {
        /// The field tested.
        path: String,
        /// The operator.
        operator: String,
        /// What it was given.
        found: &'static str,
    },
}

impl Filter {
    /// Reads the form that LangGraph has: `{"age": {"$gte": 18}, "name": "Ada"}`.
    ///
    /// A plain object asks for these fields and allows others; `$eq` allows no others.
    pub fn parse(filter: &Value) -> Result<Self, FilterError> {
        let Value::Object(fields) = filter else {
            return Err(FilterError::NotAnObject { found: kind(filter) });
        };
        match fields.keys().find(|it| it.starts_with('$')) {
            Some(operator) => Err(FilterError::NoField { operator: operator.clone() }),
            None => parse_fields(fields, ""),
        }
    }

    /// Passes objects whose `field` equals `value`, through and through.
    pub fn eq(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Eq, value.into()))
    }

    /// Passes objects whose `field` is missing or differs from `value`.
    pub fn ne(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Ne, value.into()))
    }

    /// Passes objects whose `field` is greater than `value`.
    pub fn gt(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Gt, value.into()))
    }

    /// Passes objects whose `field` is `value` or greater.
    pub fn gte(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Gte, value.into()))
    }

    /// Passes objects whose `field` is less than `value`.
    pub fn lt(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Lt, value.into()))
    }

    /// Passes objects whose `field` is `value` or less.
    pub fn lte(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Lte, value.into()))
    }

    /// Passes objects whose `field` passes `filter`.
    pub fn within(field: impl Into<String>, filter: Self) -> Self {
        Self::Object(BTreeMap::from([(field.into(), filter)]))
    }

    /// Passes what passes both.
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut filters) => {
                filters.push(other);
                Self::All(filters)
            }
            one => Self::All(vec![one, other]),
        }
    }

    /// Tells whether `value` passes.
    pub fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::All(filters), _) => filters.iter().all(|it| it.matches(value)),
            (Self::Object(filters), Value::Object(fields)) => filters
                .iter()
                .all(|(name, it)| it.matches(fields.get(name).unwrap_or(&Value::Null))),
            (Self::List(filters), Value::Array(list)) => {
                filters.len() == list.len() && filters.iter().zip(list).all(|(it, v)| it.matches(v))
            }
            (Self::Object(_) | Self::List(_), _) => false,
            (Self::Compare(comparison, operand), _) => comparison.holds(value, operand),
        }
    }
}

impl Default for Filter {
    /// Passes everything.
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Comparison {
    /// Tells whether `value` compares so with `operand`.
    pub fn holds(self, value: &Value, operand: &Value) -> bool {
        match self {
            Self::Eq => equal(value, operand),
            Self::Ne => !equal(value, operand),
            Self::Gt => order(value, operand).is_some_and(Ordering::is_gt),
            Self::Gte => order(value, operand).is_some_and(Ordering::is_ge),
            Self::Lt => order(value, operand).is_some_and(Ordering::is_lt),
            Self::Lte => order(value, operand).is_some_and(Ordering::is_le),
        }
    }

    fn named(operator: &str) -> Option<Self> {
        Some(match operator {
            "$eq" => Self::Eq,
            "$ne" => Self::Ne,
            "$gt" => Self::Gt,
            "$gte" => Self::Gte,
            "$lt" => Self::Lt,
            "$lte" => Self::Lte,
            _ => return None,
        })
    }
}

fn parse_fields(fields: &Map<String, Value>, path: &str) -> Result<Filter, FilterError> {
    let parse_field = |(name, value): (&String, &Value)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        Ok((name.clone(), parse_value(value, &path)?))
    };
    fields.iter().map(parse_field).collect::<Result<_, _>>().map(Filter::Object)
}

fn parse_value(value: &Value, path: &str) -> Result<Filter, FilterError> {
    match value {
        Value::Object(tests) if tests.keys().any(|it| it.starts_with('$')) => {
            let parse_test = |(name, value): (&String, &Value)| parse_test(name, value, path);
            tests.iter().map(parse_test).collect::<Result<_, _>>().map(Filter::All)
        }
        Value::Object(fields) => parse_fields(fields, path),
        Value::Array(list) => {
            let parse_element = |(n, it)| parse_value(it, &format!("{path}[{n}]"));
            list.iter().enumerate().map(parse_element).collect::<Result<_, _>>().map(Filter::List)
        }
        scalar => Ok(Filter::Compare(Comparison::Eq, scalar.clone())),
    }
}

fn parse_test(operator: &str, operand: &Value, path: &str) -> Result<Filter, FilterError> {
    let (path, operator) = (path.to_owned(), operator.to_owned());
    let Some(comparison) = Comparison::named(&operator) else {
        return Err(FilterError::UnknownOperator { path, operator });
    };
    let orders = !matches!(comparison, Comparison::Eq | Comparison::Ne);
    if orders && matches!(operand, Value::Null | Value::Array(_) | Value::Object(_)) {
        return Err(FilterError::NoOrder { path, operator, found: kind(operand) });
    }
    Ok(Filter::Compare(comparison, operand.clone()))
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => order(left, right).is_some_and(Ordering::is_eq),
        (Value::Array(l), Value::Array(r)) => {
            l.len() == r.len() && l.iter().zip(r).all(|(l, r)| equal(l, r))
        }
        (Value::Object(l), Value::Object(r)) => {
            l.len() == r.len() && l.iter().all(|(k, l)| r.get(k).is_some_and(|r| equal(l, r)))
        }
        _ => left == right,
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    // As floats, ids beyond 2^53 would all be their own neighbours.
    if let (Some(l), Some(r)) = (integer(left), integer(right)) {
        return Some(l.cmp(&r));
    }
    if let (Some(l), Some(r)) = (float(left), float(right)) {
        return l.partial_cmp(&r);
    }
    Some(left.as_str()?.cmp(right.as_str()?))
}

fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::String(text) => text.trim().parse().ok().filter(|it: &f64| it.is_finite()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
