//! Formats the numbers in the documents. Every table cell contains its unit, so that a quotation from a table can be
//! understood without the table.

/// Formats dollars in millions: `$12,345m`, `-$7m`, `$2.5m`. Amounts below one million are shown in full.
pub(crate) fn dollars(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let size = value.unsigned_abs();
    if (1..1_000_000).contains(&size) {
        return format!("{sign}${}", grouped(size));
    }
    if size.is_multiple_of(1_000_000) || size >= 100_000_000 {
        return format!("{sign}${}m", grouped((size + 500_000) / 1_000_000));
    }
    let tenths = (size + 50_000) / 100_000;
    format!("{sign}${}.{}m", grouped(tenths / 10), tenths % 10)
}

/// Formats a fraction as a percentage: 0.413 becomes `41.3%`.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.1}%", share * 100.0);
    if text == "-0.0%" { "0.0%".to_owned() } else { text }
}

/// Formats a number of shares in millions: `2,460m`.
pub(crate) fn shares(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}m", grouped((value.unsigned_abs() + 500_000) / 1_000_000))
}

/// Formats a price given in cents: `$131.29`.
pub(crate) fn cents(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let size = value.unsigned_abs();
    format!("{sign}${}.{:02}", grouped(size / 100), size % 100)
}

/// Formats a multiple: `2.4x`. Small ones have a second decimal place: `0.05x`.
pub(crate) fn multiple(value: f64) -> String {
    if value.abs() < 0.1 { format!("{value:.2}x") } else { format!("{value:.1}x") }
}

/// Formats a whole number with thousands separators: `1,234,567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (idx, it) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            text.push(',');
        }
        text.push(it);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn dollars_are_shown_in_millions() {
        assert_eq!(dollars(12_345_000_000), "$12,345m");
        assert_eq!(dollars(-7_250_000), "-$7.3m");
        assert_eq!(dollars(45_000), "$45,000");
    }
}
