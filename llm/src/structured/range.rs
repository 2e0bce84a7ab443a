//! Checks numbers against the ranges of a schema.

use serde_json::{Map, Value};

use super::coerce;

/// A bound that a number violates.
pub(crate) struct Bound {
    /// The nearest allowed number. `None` for an exclusive bound on a number that is not an integer.
    pub(crate) nearest: Option<Value>,
    /// Description of the violation, such as `above the allowed 10`.
    pub(crate) rule: String,
}

/// Returns the bound that a number violates, if any.
pub(crate) fn violated_bound(
    schema: &Map<String, Value>,
    number: f64,
    whole: bool,
) -> Option<Bound> {
    let beside =
        |bound: f64, step: f64| if whole { coerce::to_integer(bound + step) } else { None };
    let bounds = [("minimum", 1.0, false), ("maximum", -1.0, false)];
    let exclusive = [("exclusiveMinimum", 1.0, true), ("exclusiveMaximum", -1.0, true)];
    bounds.into_iter().chain(exclusive).find_map(|(keyword, inward, excluded)| {
        let limit = schema.get(keyword)?;
        let bound = limit.as_f64()?;
        let excess = (bound - number) * inward;
        if excess < 0.0 || (excess == 0.0 && !excluded) {
            return None;
        }
        let nearest = if excluded { beside(bound, inward) } else { Some(limit.clone()) };
        let side = if inward > 0.0 { "below" } else { "above" };
        Some(Bound { nearest, rule: format!("{side} the allowed {bound}") })
    })
}

/// Parses a text that consists of a number. If the text states a scale, as in `8/10`, and the schema has a maximum, the
/// scale must equal the maximum.
pub(crate) fn parse_scaled_number(schema: &Map<String, Value>, text: &str) -> Option<f64> {
    let written = coerce::parse_number(text)?;
    let most = schema.get("maximum").and_then(Value::as_f64);
    match (written.out_of, most) {
        (Some(out_of), Some(most)) if out_of != most => None,
        _ => Some(written.number),
    }
}
