//! The trace context of requests, as defined by the W3C recommendation "Trace Context".

use axum::http::HeaderMap;

/// Returns the value of the header `traceparent`. Returns `None` if the header is missing or invalid.
pub(super) fn trace_parent(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("traceparent")?.to_str().ok()?;
    let is_hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    // The version, the id of the trace, the id of the parent span, and flags.
    let has_lengths = value.split('-').map(str::len).eq([2, 32, 16, 2]);
    let has_ids = value.split('-').skip(1).take(2).all(|it| it.bytes().any(|it| it != b'0'));
    let is_valid = has_lengths && has_ids && value.bytes().all(|it| it == b'-' || is_hex(it));
    is_valid.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn invalid_trace_contexts_are_ignored() {
        let parsed = |value: &'static str| {
            trace_parent(&HeaderMap::from_iter([(
                "traceparent".parse().unwrap(),
                HeaderValue::from_static(value),
            )]))
        };
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(parsed(valid).as_deref(), Some(valid));
        let invalid = [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ];
        for value in invalid {
            assert_eq!(parsed(value), None, "{value}");
        }
        assert_eq!(trace_parent(&HeaderMap::new()), None);
    }
}
