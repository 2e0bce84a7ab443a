//! Recognizes random text by its characters.

/// Minimum length of a value that counts as a generated key.
pub(crate) const MIN_KEY: usize = 10;

/// Minimum length of a sequence of letters and digits that counts as random text.
const MIN_RANDOM: usize = 16;

/// Returns whether a value looks like a generated key: it is long, and letters and digits alternate often.
pub(crate) fn is_generated(value: &str) -> bool {
    let value = value.strip_prefix("0x").unwrap_or(value);
    let length = value.chars().count();
    if length < MIN_KEY || value.contains(char::is_whitespace) || !value.is_ascii() {
        return false;
    }
    let class = |it: u8| match it {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        b'a'..=b'z' => 2,
        _ => 3,
    };
    let classes: Vec<u8> = value.bytes().map(class).collect();
    let n_changes =
        classes.windows(2).filter(|it| it[0] != it[1] && it[0] != 3 && it[1] != 3).count();
    let has_digit = classes.contains(&0);
    let has_letter = classes.iter().any(|it| matches!(it, 1 | 2));
    let is_hexadecimal = length >= 16 && value.bytes().all(|it| it.is_ascii_hexdigit());
    let is_mixed = n_changes * 6 >= length
        || (length >= 24 && n_changes >= 4)
        || (is_hexadecimal && has_digit);
    has_letter && (has_digit || length >= 16) && is_mixed && entropy(value) >= 2.5
}

/// Returns whether digits and letters of one case alternate as often as in random text.
pub(crate) fn is_one_case_random(text: &str) -> bool {
    let bytes = text.as_bytes();
    let n_changes =
        bytes.windows(2).filter(|it| it[0].is_ascii_digit() != it[1].is_ascii_digit()).count();
    let is_only = |test: fn(&u8) -> bool| bytes.iter().all(|it| it.is_ascii_digit() || test(it));
    (is_only(u8::is_ascii_lowercase) || is_only(u8::is_ascii_uppercase))
        && n_changes > 0
        && n_changes * 6 >= bytes.len()
}

/// Returns whether a text has letters of both cases and digits that alternate as often as in random text. In random
/// text, they alternate at 62 % of the positions; in names, rarely at 40 % or more.
pub(crate) fn is_random(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.bytes().any(|it| test(&it));
    if !(has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase)) {
        return false;
    }
    let class = |it: u8| (it.is_ascii_digit(), it.is_ascii_uppercase());
    let n_changes =
        |it: &str| it.as_bytes().windows(2).filter(|it| class(it[0]) != class(it[1])).count();
    let mut n_all_changes = 0;
    for part in text.split(|it: char| !it.is_ascii_alphanumeric()) {
        if part.len() >= MIN_RANDOM && n_changes(part) * 5 >= part.len() * 2 {
            return true;
        }
        n_all_changes += n_changes(part);
    }
    // Random text may also contain separators.
    text.len() >= 2 * MIN_RANDOM && n_all_changes * 20 >= text.len() * 9
}

/// Returns the Shannon entropy of a text in bits per byte, computed from the frequencies of its bytes.
pub(crate) fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = f64::from(u32::try_from(text.len().max(1)).unwrap_or(u32::MAX));
    let shares = counts.iter().filter(|it| **it > 0).map(|it| f64::from(*it) / length);
    -shares.map(|it| it * it.log2()).sum::<f64>()
}
