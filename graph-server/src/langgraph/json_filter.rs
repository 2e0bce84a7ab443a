//! Filters on JSON objects. Searches in memory and in all databases follow the same rules.

use serde_json::{Map, Number, Value};

/// Returns whether an object contains all entries of `filter`. An object inside the filter matches any object that
/// contains it; all other values must be equal.
pub(super) fn contains_all(object: &Map<String, Value>, filter: &Map<String, Value>) -> bool {
    filter.iter().all(|(key, filter)| object.get(key).is_some_and(|it| contains(it, filter)))
}

fn contains(value: &Value, filter: &Value) -> bool {
    match (value, filter) {
        (Value::Object(object), Value::Object(filter)) => contains_all(object, filter),
        _ => equal(value, filter),
    }
}

/// Compares two values. Numbers are compared by value: 1 equals 1.0. PostgreSQL compares the decimal forms, which
/// differ from the values for some floating-point numbers from 1e16 on.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => equal_numbers(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_equal = |(key, a)| b.get(key).is_some_and(|b| equal(a, b));
            a.len() == b.len() && a.iter().all(is_equal)
        }
        _ => a == b,
    }
}

fn equal_numbers(a: &Number, b: &Number) -> bool {
    a == b || (a.is_f64() != b.is_f64() && integer(a).is_some_and(|it| integer(b) == Some(it)))
}

/// Returns the exact value of a number without a fraction. `None` for floating-point numbers that are too large to
/// equal a JSON integer.
fn integer(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = number.as_u64() {
        return Some(integer.into());
    }
    // Without a fraction, the text contains the exact value.
    number.as_f64().filter(|it| it.fract() == 0.0).and_then(|it| format!("{it:.0}").parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_contained_and_other_values_are_equal() {
        let object = json!({ "n": 1, "list": ["a", 2], "inner": { "x": null, "y": [{ "z": 1 }] } });
        let contained = [
            json!({}),
            json!({ "n": 1.0 }),
            json!({ "list": ["a", 2.0] }),
            json!({ "inner": {} }),
            json!({ "inner": { "x": null } }),
            json!({ "inner": { "y": [{ "z": 1 }] }, "n": 1 }),
        ];
        let other = [
            json!({ "n": "1" }),
            json!({ "n": null }),
            json!({ "missing": null }),
            json!({ "list": ["a"] }),
            json!({ "list": [2, "a"] }),
            json!({ "list": { "0": "a" } }),
            json!({ "inner": { "y": [{}] } }),
        ];
        let is_contained =
            |it: &Value| contains_all(object.as_object().unwrap(), it.as_object().unwrap());
        for filter in &contained {
            assert!(is_contained(filter), "{filter}");
        }
        for filter in &other {
            assert!(!is_contained(filter), "{filter}");
        }
    }

    #[test]
    fn large_numbers_are_compared_exactly() {
        let is_equal = |a: Value, b: Value| equal(&a, &b) && equal(&b, &a);
        assert!(is_equal(json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992.0)));
        assert!(!is_equal(json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0)));
        assert!(is_equal(json!(i64::MIN), json!(-9_223_372_036_854_775_808.0)));
        assert!(!is_equal(json!(u64::MAX), json!(18_446_744_073_709_551_616.0)));
        assert!(is_equal(json!(0), json!(-0.0)));
        assert!(!is_equal(json!(1), json!(1.5)));
        assert!(is_equal(json!(1e300), json!(1e300)));
    }
}
