//! Names in error messages.

/// Lists names for an error message.
pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// Returns a question with the name that the user may have meant, or nothing if no name is similar.
pub(crate) fn suggestion(name: &str, known: &[String]) -> String {
    let nearest = known.iter().map(|it| (strsim::levenshtein(name, it), it)).min();
    match nearest {
        Some((distance, it)) if distance <= 1 + name.len() / 4 => {
            format!(" (did you mean `{it}`?)")
        }
        _ => String::new(),
    }
}
