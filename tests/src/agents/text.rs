//! Converts texts from `graph-agents` to the wording of the case files.

/// Converts a text to the wording of the case files: shortens validation reports, removes advice that the case files do
/// not contain, and replaces errors of the JSON parser.
pub(super) fn shown(text: &str) -> String {
    let text = cut_report(text);
    let text = without_advice(&text);
    python_json_error(&text)
}

/// Replaces the report of a failed validation with `<<SCHEMA: FIELD KIND, ...>>`.
fn cut_report(text: &str) -> String {
    const START: &str = "Failed to parse data to ";
    let Some((before, rest)) = text.split_once(START) else { return text.to_owned() };
    let Some((schema, rest)) = rest.split_once(": ") else { return text.to_owned() };
    let Some(end) = rest.rfind(']') else { return text.to_owned() };
    let (report, after) = (&rest[..end], &rest[end + 1..]);
    let faults = report.split("]; ").filter_map(|fault| {
        let (path, rest) = fault.split_once(": ")?;
        let (_, kind) = rest.rsplit_once('[')?;
        Some(format!("{path} {kind}"))
    });
    let faults: Vec<_> = faults.collect();
    format!("{before}{START}{schema}: <<{schema}: {}>>{after}", faults.join(", "))
}

fn without_advice(text: &str) -> String {
    match text.split_once("\n\nRegister the tools with") {
        Some((problem, _)) => problem.to_owned(),
        None => text.to_owned(),
    }
}

/// Replaces an error of serde_json with the wording of Python's JSON parser.
fn python_json_error(text: &str) -> String {
    const FAILED: &str = "but parsing failed: ";
    let Some((before, error)) = text.split_once(FAILED) else { return text.to_owned() };
    let position = |error: &str| -> Option<(u32, u32)> {
        let (_, rest) = error.split_once(" at line ")?;
        let (line, rest) = rest.split_once(" column ")?;
        Some((line.parse().ok()?, rest.trim_end_matches('.').parse().ok()?))
    };
    let Some((line, column)) = position(error) else { return text.to_owned() };
    let column = column.max(1);
    let wording =
        if error.starts_with("trailing characters") { "Extra data" } else { "Expecting value" };
    format!("{before}{FAILED}{wording}: line {line} column {column} (char {})..", column - 1)
}
