//! Masks that keep a recognisable part of personal data.

/// Masks personal data of this kind.
pub(super) fn mask(kind: &str, found: &str) -> String {
    match kind {
        "email" => mask_email(found),
        "credit_card" => mask_card(found),
        "ip" => format!("*.*.*.{}", found.rsplit('.').next().unwrap_or_default()),
        "mac_address" => {
            let separator = if found.contains(':') { ":" } else { "-" };
            let last: String =
                found.chars().skip(found.chars().count().saturating_sub(2)).collect();
            let mut parts = vec!["**"; 5];
            parts.push(&last);
            parts.join(separator)
        }
        "url" => "[MASKED_URL]".to_owned(),
        _ => mask_other(found),
    }
}

fn mask_email(found: &str) -> String {
    match found.split_once('@') {
        Some((user, domain)) => match domain.rsplit_once('.') {
            Some((_, last)) => format!("{user}@****.{last}"),
            None => format!("{user}@****"),
        },
        None => "****".to_owned(),
    }
}

fn mask_card(found: &str) -> String {
    let digits: Vec<char> = found.chars().filter(char::is_ascii_digit).collect();
    let last: String = digits[digits.len().saturating_sub(4)..].iter().collect();
    let separator = ["-", " "].into_iter().find(|it| found.contains(it)).unwrap_or("");
    ["****", "****", "****", &last].join(separator)
}

fn mask_other(found: &str) -> String {
    let length = found.chars().count();
    if length > 4 {
        let last: String = found.chars().skip(length - 4).collect();
        return format!("****{last}");
    }
    "****".to_owned()
}
