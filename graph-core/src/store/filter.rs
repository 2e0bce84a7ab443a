//! Filters, which restrict a search to values that meet a condition.

#[cfg(test)]
mod tests;

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Map, Value};

use crate::state::field::json_type;

/// A condition on a value.
///
/// A missing field counts as null. Numbers are compared by value, so `1` equals `1.0`.
///
/// The ordering operators compare two integers exactly. Otherwise, they compare both sides as floats if both can be
/// converted: strings are parsed, `true` is 1 and `false` is 0. Strings that cannot be compared as floats are compared
/// lexicographically. All other pairs have no order and do not match.
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
    /// Matches if all filters match. An empty list matches everything.
    All(Vec<Self>),
    /// Matches objects whose fields match. The object may have further fields.
    Object(BTreeMap<String, Self>),
    /// Matches arrays of the same length whose elements match pairwise.
    List(Vec<Self>),
    /// Matches values for which the comparison with the operand holds.
    Compare(Comparison, Value),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// `$eq`: deeply equal.
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

/// The error returned when a filter in JSON form is invalid.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterError {
    /// The filter is not an object.
    #[error(r#"the filter is {found}, not an object; write it as {{"age": 18}}"#)]
    NotAnObject {
        /// The JSON type of the filter, such as "an array".
        found: &'static str,
    },
    /// An operator is used without a field.
    #[error(r#"operator `{operator}` has no field; write {{"field": {{"{operator}": ..}}}}"#)]
    OperatorWithoutField {
        /// The operator.
        operator: String,
    },
    /// The operator of a field is unknown.
    #[error(
        "unknown operator `{operator}` for field `{path}`; \
         the operators are $eq, $ne, $gt, $gte, $lt and $lte"
    )]
    UnknownOperator {
        /// Path of the field.
        path: String,
        /// The unknown operator.
        operator: String,
    },
    /// The operand of an ordering operator has a type whose values cannot be ordered.
    #[error(
        "operator `{operator}` for field `{path}` needs a number, string or boolean, not {found}"
    )]
    NotOrderable {
        /// Path of the field.
        path: String,
        /// The operator.
        operator: String,
        /// The JSON type of the operand, such as "an array".
        found: &'static str,
    },
}

crate::readable_debug!(FilterError);

impl Filter {
    /// Parses LangGraph's form of a filter: `{"age": {"$gte": 18}, "name": "Ada"}`.
    ///
    /// A nested object also matches objects that have further fields. Use `$eq` for an exact match.
    pub fn parse(filter: &Value) -> Result<Self, FilterError> {
        let Value::Object(fields) = filter else {
            return Err(FilterError::NotAnObject { found: json_type(filter) });
        };
        match fields.keys().find(|it| it.starts_with('$')) {
            Some(operator) => Err(FilterError::OperatorWithoutField { operator: operator.clone() }),
            None => parse_fields(fields, ""),
        }
    }

    /// Creates a filter that matches objects whose `field` is deeply equal to `value`.
    pub fn eq(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Eq, value.into()))
    }

    /// Creates a filter that matches objects whose `field` differs from `value` or is missing.
    pub fn ne(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Ne, value.into()))
    }

    /// Creates a filter that matches objects whose `field` is greater than `value`.
    pub fn gt(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Gt, value.into()))
    }

    /// Creates a filter that matches objects whose `field` is greater than or equal to `value`.
    pub fn gte(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Gte, value.into()))
    }

    /// Creates a filter that matches objects whose `field` is less than `value`.
    pub fn lt(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Lt, value.into()))
    }

    /// Creates a filter that matches objects whose `field` is less than or equal to `value`.
    pub fn lte(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::within(field, Self::Compare(Comparison::Lte, value.into()))
    }

    /// Creates a filter that matches objects whose `field` matches `filter`.
    pub fn within(field: impl Into<String>, filter: Self) -> Self {
        Self::Object(BTreeMap::from([(field.into(), filter)]))
    }

    /// Creates a filter that matches if both filters match.
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut filters) => {
                filters.push(other);
                Self::All(filters)
            }
            one => Self::All(vec![one, other]),
        }
    }

    /// Returns whether `value` matches the filter.
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
    /// Returns the filter that matches everything.
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Comparison {
    /// Returns whether the comparison of `value` with `operand` holds.
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

    fn parse(operator: &str) -> Option<Self> {
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
    let Some(comparison) = Comparison::parse(&operator) else {
        return Err(FilterError::UnknownOperator { path, operator });
    };
    let is_ordering = !matches!(comparison, Comparison::Eq | Comparison::Ne);
    if is_ordering && matches!(operand, Value::Null | Value::Array(_) | Value::Object(_)) {
        return Err(FilterError::NotOrderable { path, operator, found: json_type(operand) });
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
    // As floats, neighbouring integers above 2^53 would be equal.
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
