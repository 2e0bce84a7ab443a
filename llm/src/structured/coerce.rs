//! Coercions: from what a model wrote to the number, truth value or choice that it plainly means.
//!
//! Only what can be read in one way is read. A number with a unit is not a number: nobody knows whether `8%`
//! is eight or a twelfth.

use serde_json::{Number, Value};

/// A number in words: `8`, `-0.5`, `8/10`, `8 out of 10`.
pub(crate) struct WrittenNumber {
    pub(crate) number: f64,
    /// What it is out of, where it says so.
    pub(crate) out_of: Option<f64>,
}

/// Reads a number that is the whole text.
pub(crate) fn parse_number(text: &str) -> Option<WrittenNumber> {
    let (written, rest) = leading_number(text.trim())?;
    rest.is_empty().then_some(written)
}

/// Reads the number that a text begins with, and gives the rest of the text.
pub(crate) fn leading_number(text: &str) -> Option<(WrittenNumber, &str)> {
    let (number, rest) = plain_number(text)?;
    let after = rest.trim_start();
    let scale = after.strip_prefix('/').or_else(|| after.strip_prefix("out of"));
    match scale.and_then(|it| plain_number(it.trim_start())) {
        Some((out_of, rest)) => Some((WrittenNumber { number, out_of: Some(out_of) }, rest)),
        None => Some((WrittenNumber { number, out_of: None }, rest)),
    }
}

/// A number as JSON has it, but for a leading plus; infinities and names of numbers are none.
fn plain_number(text: &str) -> Option<(f64, &str)> {
    let digits = |from: usize| {
        from + text.as_bytes()[from..].iter().take_while(|it| it.is_ascii_digit()).count()
    };
    let sign = usize::from(text.starts_with(['-', '+']));
    let mut end = digits(sign);
    if end == sign {
        return None;
    }
    // A dot without a digit after it ends a sentence.
    if text[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, &text[end..]))
}

/// Reads a truth value.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match normalize(text).as_str() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// The nearest whole number, the even one of two that are as near.
pub(crate) fn to_integer(number: f64) -> Option<Value> {
    let rounded = number.round_ties_even();
    // Beyond this a float does not know its last digits.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (rounded.abs() <= EXACT).then(|| Value::from(rounded as i64))
}

/// A number as JSON has it, whole where it is.
pub(crate) fn to_json(number: f64) -> Option<Value> {
    if number.fract() == 0.0 {
        return to_integer(number);
    }
    Number::from_f64(number).map(Value::Number)
}

/// A name without what people write differently: case, spaces, hyphens, underscores, emphasis.
pub(crate) fn normalize(name: &str) -> String {
    name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
