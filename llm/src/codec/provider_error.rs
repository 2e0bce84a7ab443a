//! Maps provider errors to [`ErrorKind`].
//!
//! Providers identify an error by its HTTP status, a code, a type, or only by its message, and not always consistently.
//! This module collects all codes, types and reasons from the response body (here called names) and matches them from
//! the most to the least specific.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{call_error::CallError, json_util};
use crate::ErrorKind;

/// Decodes a response with an error status.
pub(crate) fn decode_error(status: u16, headers: &HeaderMap, body: &[u8]) -> CallError {
    let body_error = match serde_json::from_slice(body) {
        Ok(body) => ErrorBody::from_json(&body),
        Err(_) => ErrorBody::from_text(&String::from_utf8_lossy(body)),
    };
    let retry_after = retry_after(headers);
    let mut error = body_error.into_call_error(Some(status), retry_after);
    error.retry_after = retry_after.or(error.retry_after);
    error.should_retry = header(headers, "x-should-retry").and_then(|it| it.parse().ok());
    let request_id = header(headers, "request-id").or_else(|| header(headers, "x-request-id"));
    error.request_id = request_id.map(str::to_owned).or(error.request_id);
    if error.message.is_empty() {
        error.message = format!("status {status} without a message");
    }
    error
}

/// Decodes an error that the provider sent in place of a response, either with a success status or in the middle of a
/// stream.
pub(super) fn from_body(body: &Value) -> CallError {
    let body_error = ErrorBody::from_json(body);
    let status = body_error.status;
    body_error.into_call_error(status, None)
}

/// The parts of an error body that are used to classify and describe the error.
#[derive(Default)]
struct ErrorBody {
    message: String,
    /// Types, codes and reasons of the error, in lower case.
    names: Vec<String>,
    /// HTTP status stated in the body.
    status: Option<u16>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
}

impl ErrorBody {
    fn from_text(text: &str) -> Self {
        Self { message: json_util::capped(text), ..Self::default() }
    }

    fn from_json(body: &Value) -> Self {
        // In a stream, Gemini wraps each error in a list.
        let body = body.get(0).unwrap_or(body);
        let error = body.get("error").unwrap_or(body);
        let mut body_error = Self::from_text(&message(body, error));
        body_error.request_id = body["request_id"].as_str().map(str::to_owned);
        body_error.status = error["code"].as_u64().and_then(|it| u16::try_from(it).ok());
        for name in ["type", "code", "status"] {
            body_error.add_name(&error[name]);
        }
        body_error.add_name(&error["details"]["error_code"]);
        body_error.add_name(&error["metadata"]["error_type"]);
        for detail in json_util::list(error, "details") {
            body_error.add_name(&detail["reason"]);
            for violation in json_util::list(detail, "violations") {
                body_error.add_name(&violation["quotaId"]);
            }
            let delay = json_util::text(detail, "retryDelay").strip_suffix('s').and_then(seconds);
            body_error.retry_after = body_error.retry_after.or(delay);
        }
        body_error
    }

    fn add_name(&mut self, name: &Value) {
        self.names.extend(name.as_str().map(str::to_ascii_lowercase));
    }

    fn into_call_error(self, status: Option<u16>, retry_after: Option<Duration>) -> CallError {
        let kind = match status {
            // Status 402 means that the credit is used up, unless the provider says when to retry.
            Some(402) if retry_after.is_none() => ErrorKind::QuotaExhausted,
            Some(402) => ErrorKind::RateLimited,
            _ => self.kind(status),
        };
        let Self { message, retry_after, request_id, .. } = self;
        CallError { retry_after, request_id, ..CallError::new(kind, message) }
    }

    fn kind(&self, status: Option<u16>) -> ErrorKind {
        let status_is_specific = matches!(status, Some(401 | 403 | 404 | 413 | 429 | 500..));
        let generic = || if status_is_specific { None } else { self.kind_by_name(GENERIC_NAMES) };
        self.kind_by_name(SPECIFIC_NAMES).or_else(generic).unwrap_or_else(|| kind_by_status(status))
    }

    fn kind_by_name(&self, names: &[Names]) -> Option<ErrorKind> {
        let message = self.message.to_ascii_lowercase();
        let is = |(_, names, phrases): &&Names| {
            let named = self.names.iter().any(|name| names.iter().any(|it| name.contains(it)));
            named || phrases.iter().any(|it| message.contains(it))
        };
        names.iter().find(is).map(|(kind, ..)| *kind)
    }
}

/// An error kind, the names that providers use for it, and phrases that identify it in an error message.
type Names = (ErrorKind, &'static [&'static str], &'static [&'static str]);

/// Names that are more specific than any status. The first match is used.
const SPECIFIC_NAMES: &[Names] = &[
    (
        ErrorKind::QuotaExhausted,
        &["insufficient_quota", "billing", "spend_limit", "credit", "perday"],
        // "quota exceeded" is not listed, because Google also uses it for limits per minute.
        &["credit balance is too low"],
    ),
    (
        ErrorKind::RequestTooLong,
        &["context_length", "request_too_large", "exceed_context_size"],
        &[
            "prompt is too long", "input is too long", "maximum context length",
            "maximum prompt length", "exceed context limit", "exceeds the context window",
            "exceeds the context length", "exceeds the available context size",
            "exceeds the maximum number of tokens", "exceeds max length", "reduce the length of",
            "`inputs` tokens + `max_new_tokens`",
        ],
    ),
    (
        ErrorKind::Refused,
        &["content_policy", "content_filter", "moderation", "invalid_prompt", "prohibited_content"],
        &["requires moderation", "flagged as potentially violating"],
    ),
    (
        ErrorKind::Auth,
        &["authentication", "permission", "invalid_api_key", "api_key_invalid", "unauthenticated"],
        &[],
    ),
    (ErrorKind::NotFound, &["not_found_error", "model_not_found"], &["is not a valid model id"]),
];

/// Names with several meanings. They are used only if the HTTP status does not determine the error kind.
const GENERIC_NAMES: &[Names] = &[
    (ErrorKind::RateLimited, &["rate_limit", "resource_exhausted", "too_many_requests"], &[]),
    (
        ErrorKind::Overloaded,
        &["overloaded", "api_error", "server_error", "unavailable", "timeout", "deadline_exceeded"],
        &[],
    ),
    (ErrorKind::BadRequest, &["invalid_request", "invalid_argument", "not_supported"], &[]),
];

fn kind_by_status(status: Option<u16>) -> ErrorKind {
    match status {
        Some(401 | 403) => ErrorKind::Auth,
        Some(404) => ErrorKind::NotFound,
        Some(413) => ErrorKind::RequestTooLong,
        Some(429) => ErrorKind::RateLimited,
        Some(501) => ErrorKind::BadRequest,
        // Timeout, conflict, too early, no capacity, cancelled, or an internal error. If there is no status, the
        // provider accepted the request and then failed.
        Some(408 | 409 | 425 | 498 | 499 | 500..) | None => ErrorKind::Overloaded,
        Some(_) => ErrorKind::BadRequest,
    }
}

/// Returns the error message. Providers put it in different fields.
fn message(body: &Value, error: &Value) -> String {
    let candidates =
        [&error["message"], error, &body["message"], &body["detail"], &body["detail"][0]["msg"]];
    let text = candidates.into_iter().find_map(Value::as_str);
    let text = text.map_or_else(|| body.to_string(), str::to_owned);
    // The message of a router such as OpenRouter only says that another provider failed, so that provider's message is
    // appended.
    match error["metadata"]["raw"].as_str() {
        Some(raw) => format!("{text}: {raw}"),
        None => text,
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let millis = header(headers, "retry-after-ms").and_then(seconds).map(|it| it / 1000);
    millis.or_else(|| {
        let value = header(headers, "retry-after")?;
        seconds(value).or_else(|| until(value, header(headers, "date")))
    })
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

/// Returns the time until a date. `now` is the provider's `date` header; without it, the local clock is used.
fn until(date: &str, now: Option<&str>) -> Option<Duration> {
    let date = httpdate::parse_http_date(date.trim()).ok()?;
    let now = now.and_then(|it| httpdate::parse_http_date(it).ok()).unwrap_or_else(SystemTime::now);
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn http_error(
        status: u16,
        headers: &[(&'static str, &'static str)],
        body: &Value,
    ) -> CallError {
        let header =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let headers = headers.iter().map(header).collect();
        decode_error(status, &headers, body.to_string().as_bytes())
    }

    #[track_caller]
    fn check(status: u16, error: &Value, kind: ErrorKind) {
        let error = http_error(status, &[], &json!({ "error": error }));
        assert_eq!(error.kind, kind, "{error:?}");
    }

    #[test]
    fn statuses_and_names_map_to_kinds() {
        check(401, &json!({ "message": "who?" }), ErrorKind::Auth);
        check(
            400,
            &json!({ "status": "INVALID_ARGUMENT", "details": [{ "reason": "API_KEY_INVALID" }] }),
            ErrorKind::Auth,
        );
        check(429, &json!({ "code": "insufficient_quota" }), ErrorKind::QuotaExhausted);
        check(
            429,
            &json!({ "details": { "error_code": "enforced_spend_limit_reached" } }),
            ErrorKind::QuotaExhausted,
        );
        check(
            400,
            &json!({ "message": "Your credit balance is too low" }),
            ErrorKind::QuotaExhausted,
        );
        check(429, &json!({ "code": "rate_limit_exceeded" }), ErrorKind::RateLimited);
        check(400, &json!({ "code": "context_length_exceeded" }), ErrorKind::RequestTooLong);
        check(400, &json!({ "message": "prompt is too long: 9 > 8" }), ErrorKind::RequestTooLong);
        check(413, &json!("too big"), ErrorKind::RequestTooLong);
        check(400, &json!({ "code": "content_policy_violation" }), ErrorKind::Refused);
        check(
            400,
            &json!({ "type": "invalid_request_error", "message": "no" }),
            ErrorKind::BadRequest,
        );
        check(422, &json!("no"), ErrorKind::BadRequest);
        check(425, &json!("later"), ErrorKind::Overloaded);
        check(529, &json!({ "type": "overloaded_error" }), ErrorKind::Overloaded);
        check(500, &json!("sorry"), ErrorKind::Overloaded);
        check(404, &json!("nothing here"), ErrorKind::NotFound);
    }

    #[test]
    fn providers_phrase_overflow_differently() {
        for message in [
            "Input is too long for requested model.",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "the input length exceeds the context length",
            "Prompt exceeds max length",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
        ] {
            for status in [400, 422] {
                let error = json!({ "type": "invalid_request_error", "message": message });
                check(status, &error, ErrorKind::RequestTooLong);
            }
        }
        // This is a limit on tokens per minute, so waiting helps.
        let throttled = json!({ "message": "Too many tokens, please wait before trying again." });
        check(429, &throttled, ErrorKind::RateLimited);
    }

    #[test]
    fn specific_status_wins_over_generic_name() {
        let vague =
            json!({ "type": "invalid_request_error", "code": null, "message": "Invalid URL" });
        check(404, &vague, ErrorKind::NotFound);
        check(401, &vague, ErrorKind::Auth);
        // Groq sends this error if a single request exceeds the limit on tokens per minute. With status 413, it must
        // not count as a rate limit, because waiting does not help.
        let too_large = json!({ "type": "tokens", "code": "rate_limit_exceeded", "message": "Request too large" });
        check(413, &too_large, ErrorKind::RequestTooLong);
        check(429, &too_large, ErrorKind::RateLimited);
        check(429, &json!({ "type": "server_error" }), ErrorKind::RateLimited);
        check(503, &vague, ErrorKind::Overloaded);
        check(501, &vague, ErrorKind::BadRequest);
        // Specific names take precedence over any status.
        check(403, &json!({ "code": "content_policy_violation" }), ErrorKind::Refused);
        check(404, &json!({ "code": "insufficient_quota" }), ErrorKind::QuotaExhausted);
    }

    /// An exceeded quota per minute maps to `RateLimited`, and an exceeded quota per day maps to `QuotaExhausted`.
    /// Google's errors for the two differ only in the id of the quota.
    #[test]
    fn quotas_per_minute_and_per_day_differ() {
        let error = |quota: &str| {
            json!({
                "code": 429,
                "status": "RESOURCE_EXHAUSTED",
                "message": "You exceeded your current quota, please check your plan and billing details.",
                "details": [{ "violations": [{ "quotaId": quota }] }, { "retryDelay": "46s" }],
            })
        };
        check(
            429,
            &error("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
            ErrorKind::RateLimited,
        );
        check(
            429,
            &error("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
            ErrorKind::QuotaExhausted,
        );
    }

    #[test]
    fn payment_error_with_retry_after_is_a_rate_limit() {
        let error = json!({ "error": { "code": 402, "message": "credits" } });
        assert_eq!(http_error(402, &[], &error).kind, ErrorKind::QuotaExhausted);
        assert_eq!(http_error(402, &[("retry-after", "9")], &error).kind, ErrorKind::RateLimited);
    }

    #[test]
    fn retry_after_is_parsed() {
        let wait = |headers: &[_]| http_error(429, headers, &json!({})).retry_after;
        assert_eq!(wait(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(
            wait(&[("retry-after-ms", "250"), ("retry-after", "9")]),
            Some(Duration::from_millis(250))
        );
        let date = &[
            ("retry-after", "Sun, 15 Nov 2026 10:00:30 GMT"),
            ("date", "Sun, 15 Nov 2026 10:00:00 GMT"),
        ];
        assert_eq!(wait(date), Some(Duration::from_secs(30)));
        let past = &[
            ("retry-after", "Sun, 15 Nov 2026 09:00:00 GMT"),
            ("date", "Sun, 15 Nov 2026 10:00:00 GMT"),
        ];
        assert_eq!(wait(past), Some(Duration::ZERO));
        for nonsense in ["soon", "-1", "NaN", "inf", ""] {
            assert_eq!(seconds(nonsense), None, "{nonsense}");
        }
        let body = json!({ "error": { "details": [{ "retryDelay": "46.5s" }] } });
        assert_eq!(http_error(429, &[], &body).retry_after, Some(Duration::from_millis(46_500)));
    }

    #[test]
    fn retry_hint_and_request_id_are_read() {
        let headers = &[("x-should-retry", "false"), ("request-id", "req_1")];
        let said = http_error(500, headers, &json!({ "request_id": "req_2" }));
        assert_eq!(said.should_retry, Some(false));
        assert_eq!(said.request_id.as_deref(), Some("req_1"));
        assert_eq!(
            http_error(500, &[], &json!({ "request_id": "req_2" })).request_id.as_deref(),
            Some("req_2")
        );
    }

    #[test]
    fn message_is_found_in_any_body() {
        let message = |body: &[u8]| decode_error(503, &HeaderMap::new(), body).message;
        assert_eq!(message(b""), "status 503 without a message");
        assert_eq!(message(b"<h1>Busy</h1>\n"), "<h1>Busy</h1>");
        assert_eq!(message(b"{\"error\":{\"mess"), "{\"error\":{\"mess");
        assert_eq!(message(b"{\"detail\":[{\"msg\":\"missing\"}]}"), "missing");
        assert_eq!(message(b"[{\"error\":{\"message\":\"listed\"}}]"), "listed");
        assert!(message(&[b'x'; 100_000]).len() < 20_000);
        let routed = json!({ "error": { "message": "failed", "metadata": { "raw": "down" } } });
        assert_eq!(http_error(502, &[], &routed).message, "failed: down");
    }

    #[test]
    fn errors_with_success_status_are_classified() {
        assert_eq!(from_body(&json!({ "error": { "code": 429 } })).kind, ErrorKind::RateLimited);
        assert_eq!(
            from_body(&json!({ "error": { "type": "overloaded_error" } })).kind,
            ErrorKind::Overloaded
        );
        assert_eq!(from_body(&json!({ "error": "something" })).kind, ErrorKind::Overloaded);
    }
}
