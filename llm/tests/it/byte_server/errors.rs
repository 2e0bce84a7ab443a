//! Tests of errors that providers return.

use std::time::{Duration, SystemTime};

use llm::{Error, ErrorKind, Provider};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    ByteServer, KEY,
    answers::{WIRES, answer, hello, write},
};

/// Makes a plain and a streamed call to every provider and returns the errors. The server answers every request with
/// this status, these headers and this body.
async fn errors(status: &str, headers: &str, body: &str) -> Vec<Error> {
    let server = ByteServer::start([write(answer(status, headers, body))]).await;
    let mut errors = vec![];
    for wire in &WIRES {
        let llm = wire.provider(&server).build().unwrap();
        errors.push(llm.generate(hello()).await.unwrap_err());
        errors.push(llm.stream(hello()).response().await.unwrap_err());
    }
    errors
}

#[tokio::test]
async fn rate_limit_errors_carry_retry_after() {
    let second = Duration::from_secs(1);
    let cases = [
        ("", None),
        ("Retry-After: 7\r\n", Some(7 * second)),
        ("Retry-After: 0.5\r\n", Some(second / 2)),
        ("retry-after-ms: 1500\r\nRetry-After: 2\r\n", Some(3 * second / 2)),
        ("Retry-After: soon\r\n", None),
    ];
    for (headers, expect) in cases {
        for error in
            errors("429 Too Many Requests", headers, r#"{"error":{"message":"slow down"}}"#).await
        {
            assert_eq!(error.kind, ErrorKind::RateLimited, "{headers}");
            assert_eq!(error.retry_after, expect, "{headers}");
            assert_eq!((error.status, error.is_retryable()), (Some(429), true));
            assert_eq!(error.message, "slow down");
        }
    }
}

#[tokio::test]
async fn retry_after_may_be_a_date() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    for error in errors("429 Too Many Requests", &format!("Retry-After: {date}\r\n"), "{}").await {
        let wait = error.retry_after.unwrap();
        assert!(wait <= Duration::from_secs(100) && wait > Duration::from_secs(60), "{wait:?}");
    }
}

#[tokio::test]
async fn error_kinds_follow_from_status_and_body() {
    let cases = [
        (
            "529 Overloaded",
            r#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#,
            ErrorKind::Overloaded,
        ),
        (
            "503 Service Unavailable",
            r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
            ErrorKind::Overloaded,
        ),
        ("502 Bad Gateway", "<html><h1>Bad Gateway</h1></html>", ErrorKind::Overloaded),
        ("500 Internal Server Error", "", ErrorKind::Overloaded),
        ("401 Unauthorized", r#"{"error":{"message":"no"}}"#, ErrorKind::Auth),
        ("404 Not Found", r#"{"error":"model 'm' not found"}"#, ErrorKind::NotFound),
        ("400 Bad Request", r#"{"error":{"message":"what?"}}"#, ErrorKind::BadRequest),
        // Without a location, this is not a redirect.
        ("300 Multiple Choices", r#"{"error":{"message":"which?"}}"#, ErrorKind::BadRequest),
    ];
    for (status, body, expect) in cases {
        for error in errors(status, "", body).await {
            assert_eq!(error.kind, expect, "{status}");
            assert!(error.status.is_some() && !error.message.is_empty(), "{status}: {error:?}");
        }
    }
}

#[tokio::test]
async fn messages_are_safe_to_display() {
    let echo = format!("bad key {KEY}\\u0007\\nsee \\u001b[31mhere ");
    let body = format!(r#"{{"error":{{"message":"{echo}{}"}}}}"#, "long ".repeat(10_000));
    for error in errors("401 Unauthorized", "", &body).await {
        assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
        assert!(error.message.starts_with("bad key [key]"), "{error}");
        assert!(!error.message.contains(char::is_control), "{error}");
        assert!(error.message.chars().count() <= 1001, "{error}");
    }
}

/// No part of the API key remains in an error message, wherever the message is truncated.
#[tokio::test]
async fn truncated_messages_contain_no_part_of_the_key() {
    for n_before in [480, 490, 500, 570, 580, 590, 980, 990, 1000] {
        let text = format!("{}{KEY} {}", "x".repeat(n_before), "y".repeat(20_000));
        let cases = [
            ("401 Unauthorized", text.clone()),
            // The same text with a success status, in place of a response.
            ("200 OK", text.clone()),
            ("200 OK", format!(r#"{{"error":{{"message":"{text}"}}}}"#)),
        ];
        for (status, body) in cases {
            for error in errors(status, "", &body).await {
                assert!(!error.message.contains(&KEY[..8]), "{error}");
            }
        }
    }
}

/// Secrets in headers and in the URL are redacted, like the API key.
#[tokio::test]
async fn secrets_in_headers_and_url_are_redacted() {
    let body = "bearer-0123456789, whole-header-value, query+token/1=, query%2Btoken%2F1%3D, pass-0123456789, v1";
    let server = ByteServer::start([write(answer("400 Bad Request", "", body))]).await;
    let base = server.url().replace("http://", "http://user:pass-0123456789@");
    let llm = server
        .provider("openai-compatible")
        .base_url(format!("{base}/?token=query%2Btoken%2F1%3D&version=v1"))
        .header("Authorization", "Bearer bearer-0123456789")
        .header("x-gate", "whole-header-value")
        .build()
        .unwrap();
    let error = llm.generate(hello()).await.unwrap_err();
    assert_eq!(error.message, "[key], [key], [key], [key], [key], v1");
}

#[tokio::test]
async fn error_with_success_status_is_an_error() {
    for error in errors("200 OK", "", r#"{"error":{"message":"upstream","code":502}}"#).await {
        assert_ne!(error.kind, ErrorKind::BadRequest, "{error}");
        assert_eq!(error.status, Some(200));
    }
}

#[tokio::test]
async fn short_key_does_not_change_messages() {
    let body = r#"{"error":{"message":"the model failed"}}"#;
    let server = ByteServer::start([write(answer("500 Internal Server Error", "", body))]).await;
    let llm = server.provider("openai-compatible").key("e").build().unwrap();
    assert_eq!(llm.generate(hello()).await.unwrap_err().message, "the model failed");
}

#[tokio::test]
async fn invalid_bodies_are_retryable_errors() {
    for body in ["", "{", "null", "[]", "<html></html>", "{\"choices\":[]}", "\"\u{1}"] {
        for error in errors("200 OK", "", body).await {
            assert!(error.is_retryable() && error.status == Some(200), "{body}: {error:?}");
        }
    }
}

/// If the server truncates a prompt, the call fails. Ollama itself reports no error, but silently drops messages that
/// do not fit.
#[tokio::test]
async fn truncated_prompt_is_detected() {
    let ollama = WIRES.iter().find(|it| it.provider == "ollama").unwrap();
    let server = ByteServer::start([write(ollama.plain()), write(ollama.chunked())]).await;
    let llm = server.llm("ollama");
    let prompt = "These are five words more.";
    let plain = llm.generate(prompt).await.unwrap_err();
    let streamed = llm.stream(prompt).response().await.unwrap_err();
    for error in [plain, streamed] {
        assert_eq!(error.kind, ErrorKind::RequestTooLong);
        assert!(
            error.message.starts_with("the server read 3 tokens of a prompt of 5 words"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn invalid_http_is_an_error() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases = [
        ("220 mail.example ESMTP\r\n\r\n".to_owned(), ErrorKind::Network),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(), ErrorKind::Network),
        (format!("{chunked}zz\r\n"), ErrorKind::Truncated),
        (format!("{chunked}5\r\nmore than five\r\n"), ErrorKind::Truncated),
        (format!("{chunked}fffffffffffffffff\r\n"), ErrorKind::Truncated),
    ];
    for (bytes, expect) in cases {
        let server = ByteServer::start([write(bytes.clone())]).await;
        for wire in &WIRES {
            let llm = wire.provider(&server).build().unwrap();
            assert_eq!(llm.generate(hello()).await.unwrap_err().kind, expect, "{bytes}");
            let streamed = llm.stream(hello()).response().await;
            assert_eq!(streamed.unwrap_err().kind, expect, "{bytes}");
        }
        server.n_open(0).await;
    }
}

#[tokio::test]
async fn https_url_of_a_plain_http_server_is_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // The connection stays open until the client closes it. Otherwise, the client might see a reset instead.
        while stream.read_u8().await.is_ok() {}
    });
    let provider = Provider::new("openai-compatible").unwrap().base_url(url).model("m");
    let error = provider.build().unwrap().generate(hello()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.message.contains("write http:// instead of https://"), "{error}");
}
