//! Small responses in the wire formats of the providers.

use llm::{Provider, Request};

use super::{ByteServer, Move};

/// A provider's wire format: its name, whether it uses the Responses API, and a sample response.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) provider: &'static str,
    pub(super) responses_api: bool,
    /// The response as a whole, not streamed.
    pub(super) whole: &'static str,
    /// The same response as a stream.
    pub(super) stream: &'static str,
}

/// The text of all responses. It has non-ASCII characters, which some tests split in the middle.
pub(super) const TEXT: &str = "Grüße!";

pub(super) const WIRES: [Wire; 5] = [
    Wire {
        provider: "openai-compatible",
        responses_api: false,
        whole: r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Grüße!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        stream: concat!(
            "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Grü\"}}]}\n\n",
            "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ße!\"}}]}\n\n",
            "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
            "data: [DONE]\n\n",
        ),
    },
    Wire {
        provider: "openai",
        responses_api: true,
        whole: r#"{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"g","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Grüße!","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":2}}"#,
        stream: concat!(
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n",
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"g\",\"output_index\":0,\"content_index\":0,\"delta\":\"Grü\"}\n\n",
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"g\",\"output_index\":0,\"content_index\":0,\"delta\":\"ße!\"}\n\n",
            "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"model\":\"m\",\"output\":[{\"type\":\"message\",\"id\":\"g\",\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"Grüße!\",\"annotations\":[]}]}],\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\n",
        ),
    },
    Wire {
        provider: "anthropic",
        responses_api: false,
        whole: r#"{"id":"a","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Grüße!"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#,
        stream: concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"a\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Grü\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"ße!\"}}\n\n",
            "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
    },
    Wire {
        provider: "google",
        responses_api: false,
        whole: r#"{"modelVersion":"m","candidates":[{"content":{"role":"model","parts":[{"text":"Grüße!"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}"#,
        stream: concat!(
            "data: {\"modelVersion\":\"m\",\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Grü\"}]}}]}\r\n\r\n",
            "data: {\"modelVersion\":\"m\",\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"ße!\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":2}}\r\n\r\n",
        ),
    },
    Wire {
        provider: "ollama",
        responses_api: false,
        whole: r#"{"model":"m","message":{"role":"assistant","content":"Grüße!"},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":2}"#,
        stream: concat!(
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Grü\"},\"done\":false}\n",
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"ße!\"},\"done\":false}\n",
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":2}\n",
        ),
    },
];

/// The wire format that most tests use.
pub(super) const CHAT: &Wire = &WIRES[0];

pub(super) fn hello() -> Request {
    Request::new("Hello!").max_tokens(100)
}

impl Wire {
    /// Returns this provider, with its base URL set to that of the server.
    pub(super) fn provider(&self, server: &ByteServer) -> Provider {
        let provider = server.provider(self.provider);
        if self.responses_api { provider.responses_api().unwrap() } else { provider }
    }

    /// Returns the plain HTTP response, which is not streamed, with a `Content-Length` header.
    pub(super) fn plain(&self) -> Vec<u8> {
        answer("200 OK", "", self.whole)
    }

    /// Returns the streamed HTTP response with chunked transfer encoding.
    pub(super) fn chunked(&self) -> Vec<u8> {
        let mut bytes = self.head("Transfer-Encoding: chunked");
        // These chunks end inside events, lines and characters.
        for chunk in self.stream.as_bytes().chunks(97) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }

    /// Returns the streamed HTTP response without a length. Only the end of the connection marks its end.
    pub(super) fn unbounded(&self) -> Vec<u8> {
        let mut bytes = self.head("Connection: close");
        bytes.extend(self.stream.as_bytes());
        bytes
    }

    pub(super) fn head(&self, header: &str) -> Vec<u8> {
        let kind = if self.provider == "ollama" { "x-ndjson" } else { "event-stream" };
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/{kind}\r\n{header}\r\n\r\n").into_bytes()
    }
}

/// Returns an HTTP response with a `Content-Length` header. `headers` are additional, complete header lines.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    (head + body).into_bytes()
}

/// Returns a script that writes bytes and leaves the connection open.
pub(super) fn write(bytes: impl Into<Vec<u8>>) -> Vec<Move> {
    vec![Move::Write(bytes.into())]
}
