//! Converts text from a model to numbers, booleans and enum values.
//!
//! Only unambiguous text is accepted. A number with a unit is rejected, because `8%` could mean 8 or 0.08.

use serde_json::{Number, Value};

/// A number written as text: `8`, `-0.5`, `8/10`, `8 out of 10`.
pub(crate) struct WrittenNumber {
    pub(crate) number: f64,
    /// The maximum of the scale, if the text states one: 10 in `8/10`.
    pub(crate) out_of: Option<f64>,
}

/// Parses a text that consists of a number and nothing else.
pub(crate) fn parse_number(text: &str) -> Option<WrittenNumber> {
    let (written, rest) = leading_number(text.trim())?;
    rest.is_empty().then_some(written)
}

/// Parses the number at the start of a text and returns the rest of the text.
pub(crate) fn leading_number(text: &str) -> Option<(WrittenNumber, &str)> {
    let (number, rest) = plain_number(text)?;
    let after = rest.trim_start();
    let scale = after.strip_prefix('/').or_else(|| after.strip_prefix("out of"));
    match scale.and_then(|it| plain_number(it.trim_start())) {
        Some((out_of, rest)) => Some((WrittenNumber { number, out_of: Some(out_of) }, rest)),
        None => Some((WrittenNumber { number, out_of: None }, rest)),
    }
}

/// Parses the number at the start of a text and returns the rest of the text. The syntax is that of JSON, except
/// that a plus sign and leading zeros are allowed and an exponent is not.
fn plain_number(text: &str) -> Option<(f64, &str)> {
    let digits = |from: usize| {
        from + text.as_bytes()[from..].iter().take_while(|it| it.is_ascii_digit()).count()
    };
    let sign = usize::from(text.starts_with(['-', '+']));
    let mut end = digits(sign);
    if end == sign {
        return None;
    }
    // A dot without a digit after it ends a sentence and is not part of the number.
    if text[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, &text[end..]))
}

/// Parses `true`, `yes`, `false` or `no`, ignoring case and punctuation.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match normalize(text).as_str() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// Rounds a number to the nearest integer, ties to even. Returns `None` if the result may be inexact.
pub(crate) fn to_integer(number: f64) -> Option<Value> {
    let rounded = number.round_ties_even();
    // Above 2^53, not every integer can be represented as an `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (rounded.abs() <= EXACT).then(|| Value::from(rounded as i64))
}

/// Converts a number to JSON; a number without a fraction becomes an integer.
pub(crate) fn to_json(number: f64) -> Option<Value> {
    if number.fract() == 0.0 {
        return to_integer(number);
    }
    Number::from_f64(number).map(Value::Number)
}

/// Normalises a name for comparison: converts it to lower case and keeps only letters and digits.
pub(crate) fn normalize(name: &str) -> String {
    name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
