//! Parsers for command-line values.

/// Parses a positive amount in dollars, with or without a leading `$`.
pub fn dollars(text: &str) -> Result<f64, String> {
    let dollars = text.trim_start_matches('$').parse::<f64>().ok();
    let dollars = dollars.filter(|it| it.is_finite() && *it > 0.0);
    dollars.ok_or_else(|| "expected a positive amount in dollars, such as 2.50".to_owned())
}

/// Parses an integer of at least 1.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|it| *it > 0);
    number.ok_or_else(|| "expected an integer of at least 1".to_owned())
}

/// Parses a host name.
pub fn host(text: &str) -> Result<String, String> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.');
    let is_valid = !text.is_empty() && text.chars().all(is_name);
    is_valid
        .then(|| text.to_owned())
        .ok_or_else(|| "expected a host name without a port".to_owned())
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn only_positive_dollar_amounts_are_accepted() {
        assert_eq!(dollars("$2.50"), Ok(2.5));
        for invalid in ["0", "-1", "NaN", "inf", "much"] {
            assert!(dollars(invalid).is_err(), "{invalid}");
        }
    }
}
