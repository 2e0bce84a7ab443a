//! Conversion of JSON values to numbers and booleans, as pydantic does it.

use serde_json::Value;

type Conversion = Result<Value, (&'static str, &'static str)>;

pub(super) fn to_integer(value: &Value) -> Conversion {
    match value {
        Value::Number(number) if number.is_i64() || number.is_u64() => Ok(value.clone()),
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 1e18 => {
                Ok(Value::from(float as i64))
            }
            _ => Err((
                "int_from_float",
                "Input should be a valid integer, got a number with a fractional part",
            )),
        },
        Value::Bool(it) => Ok(Value::from(i64::from(*it))),
        Value::String(text) => parse_integer(text).map(Value::from).ok_or((
            "int_parsing",
            "Input should be a valid integer, unable to parse string as an integer",
        )),
        _ => Err(("int_type", "Input should be a valid integer")),
    }
}

pub(super) fn to_float(value: &Value) -> Conversion {
    let float = match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(it) => Some(f64::from(u8::from(*it))),
        Value::String(text) => {
            let float = text.trim().replace('_', "").parse::<f64>();
            return float.ok().filter(|it| it.is_finite()).map(Value::from).ok_or((
                "float_parsing",
                "Input should be a valid number, unable to parse string as a number",
            ));
        }
        _ => None,
    };
    float.map(Value::from).ok_or(("float_type", "Input should be a valid number"))
}

pub(super) fn to_boolean(value: &Value) -> Conversion {
    let parsed = match value {
        Value::Bool(_) => return Ok(value.clone()),
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => Some(false),
            Some(1.0) => Some(true),
            _ => None,
        },
        Value::String(text) => match text.to_lowercase().as_str() {
            "1" | "true" | "t" | "yes" | "y" | "on" => Some(true),
            "0" | "false" | "f" | "no" | "n" | "off" => Some(false),
            _ => None,
        },
        _ => return Err(("bool_type", "Input should be a valid boolean")),
    };
    let unreadable = ("bool_parsing", "Input should be a valid boolean, unable to interpret input");
    parsed.map(Value::Bool).ok_or(unreadable)
}

/// Parses an integer with optional sign, underscores between digits, and a fraction of zeros.
fn parse_integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|it| it == b'0') => whole,
        Some(_) => return None,
        None => text,
    };
    if whole.starts_with('_') || whole.ends_with('_') || whole.contains("__") {
        return None;
    }
    whole.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{to_boolean, to_integer};

    #[test]
    fn number_like_texts_pass_as_integers() {
        for (input, expected) in
            [(json!("07"), 7), (json!("2.0"), 2), (json!(4.0), 4), (json!(true), 1)]
        {
            assert_eq!(to_integer(&input), Ok(json!(expected)), "{input}");
        }
        assert_eq!(to_integer(&json!(4.5)).unwrap_err().0, "int_from_float");
        assert_eq!(to_integer(&json!("x")).unwrap_err().0, "int_parsing");
        assert_eq!(to_integer(&json!([])).unwrap_err().0, "int_type");
    }

    #[test]
    fn words_such_as_yes_are_converted_to_booleans() {
        assert_eq!(to_boolean(&json!("yes")), Ok(json!(true)));
        assert_eq!(to_boolean(&json!(2)).unwrap_err().0, "bool_parsing");
    }
}
