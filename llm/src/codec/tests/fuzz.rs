//! Fuzz target for streamed responses: no bytes make the reader panic, and the result does not depend on how the bytes
//! are split.

use fuzz_testkit::Fuzzer;

use crate::{
    ErrorKind, Listener, Piece,
    codec::{CallError, DecodedResponse, Protocol, Quirks, StreamReader},
};

const PROTOCOLS: [Protocol; 5] = [
    Protocol::Anthropic,
    Protocol::Gemini,
    Protocol::Ollama,
    Protocol::OpenAiChat(Quirks::OPENAI),
    Protocol::OpenAiResponses,
];

/// One short stream for each protocol, in the order of [`PROTOCOLS`].
const STREAMS: [&str; 5] = [
    concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":3}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n",
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    ),
    concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"},{\"functionCall\":{\"name\":\"f\",\"args\":{}}}]}}]}\r\n\r\n",
        "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3}}\r\n\r\n",
    ),
    concat!(
        "{\"model\":\"m\",\"message\":{\"content\":\"hi\",\"thinking\":\"so\"},\"done\":false}\n",
        "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]},\"done\":false}\n",
        "{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":2,\"prompt_eval_count\":3}\n",
    ),
    concat!(
        "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\",\"refusal\":null}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":3}}\n\n",
        "data: [DONE]\n\n",
    ),
    concat!(
        "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\"}}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"hi\"}\n\n",
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]}}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]}],\"usage\":{\"input_tokens\":3}}}\n\n",
    ),
];

const WORDS: [&str; 16] = [
    "data: ", "data:", ": ", "\n\n", "\r\n", "\r", "\u{feff}", "[DONE]",
    "\"error\":{\"message\":\"x\",\"code\":429}", "null", "[]", "{}", "\"\\ud800\"", "-1e999",
    "18446744073709551616", "\"index\":99",
];

/// Longer than every input, so that the limit on events is not reached.
const MAX_EVENT: usize = 1 << 20;

type Outcome = Result<(DecodedResponse, Vec<Piece>), CallError>;

fn read(protocol: Protocol, body: &[u8], chunk: usize) -> Outcome {
    let mut pieces = Vec::new();
    let mut on_piece = |piece| pieces.push(piece);
    let listener = &mut Listener::new(&mut on_piece);
    let mut reader = StreamReader::new(protocol, MAX_EVENT);
    for bytes in body.chunks(chunk) {
        reader.push(bytes, listener)?;
    }
    let response = reader.finish(listener)?;
    Ok((response, pieces))
}

/// Reads a body as a stream of the protocol that the first byte selects. The second byte sets the length of the chunks.
fn target(input: &[u8]) -> Option<(usize, Result<(usize, usize), ErrorKind>)> {
    let (&[protocol, chunk], body) = input.split_first_chunk()?;
    let index = usize::from(protocol) % PROTOCOLS.len();
    let outcome = read(PROTOCOLS[index], body, usize::from(chunk).max(1));
    assert_eq!(outcome, read(PROTOCOLS[index], body, usize::MAX));
    let counts = outcome.map(|(response, pieces)| (response.content.len(), pieces.len()));
    Some((index, counts.map_err(|error| error.kind)))
}

#[test]
fn streams_are_read_in_any_chunks() {
    let seed =
        |(index, stream): (usize, &&str)| [&[index as u8, 7][..], stream.as_bytes()].concat();
    for input in STREAMS.iter().enumerate().map(seed) {
        let (_, counts) = target(&input).unwrap();
        assert!(counts.is_ok_and(|it| it.0 >= 1), "{}", input.escape_ascii());
    }
    let seeds = STREAMS.iter().enumerate().map(seed);
    Fuzzer::new("streams").seeds(seeds).words(WORDS).run(target);
}
