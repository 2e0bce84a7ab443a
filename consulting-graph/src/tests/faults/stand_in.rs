//! A provider on this machine that answers with the canned model and injects faults.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use llm::{Llm, Provider, Request, Timeouts, testkit};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{
    config::{Config, DEFAULT},
    models::RESPONSE_LIMITS,
    tests::canned,
};

/// Time limit of calls in cases with a provider that hangs.
const SHORT: Duration = Duration::from_millis(400);

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Fault {
            $($(#[$doc])* $name,)+
        }

        pub(super) const FAULTS: &[Fault] = &[$(Fault::$name),+];
    };
}

faults! {
    /// Status 429 with a wait of a few milliseconds.
    ShortWait,
    /// Status 429 with a wait that is longer than the run allows.
    LongWait,
    /// Status 429 without a wait.
    RateLimited,
    ServerError,
    Unauthorized,
    HangBeforeFirstByte,
    HangAfterFirstByte,
    TruncatedStream,
    Html,
    /// An answer that does not match the schema of the request. Calls without a schema get the correct answer.
    WrongSchema,
    Refusal,
    Empty,
    /// An answer of 10 MB.
    Huge,
    /// Status 429 with a date in the far future until which to wait.
    WaitUntilDate,
    /// Status 200 with an error as the body.
    ErrorBody,
    Redirect,
    /// Comments that keep the connection open, and never an answer.
    KeepAlive,
    /// A connection that ends before the announced length.
    WrongLength,
    /// A body that is neither text nor JSON.
    Binary,
    /// An answer that the provider's filter stops.
    ContentFilter,
    /// A call of a tool that the request does not offer.
    ToolCall,
    /// An answer of invisible characters.
    Invisible,
    ForeignRefusal,
    /// An answer that fits the schema of the request and refuses in its fields.
    RefusalInFields,
    /// An answer that repeats the prompt.
    Echo,
    /// Status 503 with a date in the past until which to wait.
    PastWait,
    /// Status 425, after which a call may be repeated.
    TooEarly,
    /// An error in the middle of a stream.
    ErrorInStream,
    /// The correct answer, without token counts.
    Uncounted,
    /// The correct answer, without an end marker after the finish reason and the token counts.
    NoEndMarker,
    /// The correct answer, without an end marker and token counts after the finish reason.
    NoEndMarkerUncounted,
    /// The start of an answer with token counts, without a finish reason.
    CutAfterUsage,
    /// The start of the correct answer, which ends at the token limit. Calls without a schema get the whole answer.
    AtTokenLimit,
    /// A response without a body.
    NoBody,
}

impl Fault {
    /// Returns whether the fault makes a call hang.
    pub(super) fn hangs(self) -> bool {
        matches!(self, Self::HangBeforeFirstByte | Self::HangAfterFirstByte | Self::KeepAlive)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Synthesizer,
    Inference,
    Analyst,
    Critic,
    Maker,
    Scorer,
}

pub(super) const ROLES: [Role; 6] =
    [Role::Synthesizer, Role::Inference, Role::Analyst, Role::Critic, Role::Maker, Role::Scorer];

/// Calls that a fault applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The call at this position in the order of arrival, starting at 0, with all its retries.
    Call(usize),
    Role(Role),
    Debates,
    Everything,
    /// The calls that arrive after this number of others.
    After(usize),
}

/// A fault with the calls and the number of attempts that it applies to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Injection {
    pub(super) fault: Fault,
    pub(super) scope: Scope,
    /// Number of attempts that fail. `usize::MAX` means until the provider recovers.
    pub(super) attempts: usize,
}

/// The provider.
pub(super) struct StandIn {
    address: String,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    injections: Vec<Injection>,
    /// Distinct requests in the order in which they arrived.
    seen: Vec<Value>,
    bill: Bill,
}

/// What the provider charges for: all calls that it did not reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bill {
    pub(super) calls: u64,
    /// Number of calls whose tokens the provider did not report.
    pub(super) uncounted_calls: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

impl Bill {
    /// Adds the call that is answered with these bytes.
    fn add(&mut self, response: &str) {
        if !response.starts_with("HTTP/1.1 200") && !response.is_empty() {
            return;
        }
        let is_counted = response.contains(&usage());
        self.calls += 1;
        self.uncounted_calls += u64::from(!is_counted);
        self.input_tokens += if is_counted { INPUT_TOKENS } else { 0 };
        self.output_tokens += if is_counted { OUTPUT_TOKENS } else { 0 };
    }
}

impl StandIn {
    pub(super) async fn start(injections: Vec<Injection>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}/v1", listener.local_addr()?);
        let shared =
            Arc::new(Mutex::new(Shared { injections, seen: Vec::new(), bill: Bill::default() }));
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(serving.clone(), stream));
            }
        });
        Ok(Self { address, shared })
    }

    /// Stops injecting faults.
    pub(super) fn recover(&self) {
        self.shared.lock().unwrap().injections.clear();
    }

    pub(super) fn bill(&self) -> Bill {
        self.shared.lock().unwrap().bill
    }

    /// Returns a model that calls this provider.
    pub(super) fn model(&self) -> Llm {
        let injections = self.shared.lock().unwrap().injections.clone();
        let mut timeouts = Timeouts::default();
        if injections.iter().any(|it| it.fault.hangs()) {
            (timeouts.first_byte, timeouts.idle) = (SHORT, SHORT);
        }
        if injections.iter().any(|it| it.fault == Fault::KeepAlive) {
            timeouts.total = 2 * SHORT;
        }
        let provider = Provider::new("openai-compatible").unwrap().base_url(&self.address);
        let provider = provider.model("board").timeouts(timeouts).limits(RESPONSE_LIMITS);
        provider.build().unwrap()
    }
}

impl Shared {
    /// Returns the fault to inject into a call, if any, and counts it.
    fn fault(&mut self, body: &Value, request: &Request) -> Option<Fault> {
        let number = self.seen.iter().position(|it| it == body).unwrap_or_else(|| {
            self.seen.push(body.clone());
            self.seen.len() - 1
        });
        let role = role(request);
        let applies = |it: &&mut Injection| {
            it.attempts > 0
                && match it.scope {
                    Scope::Call(call) => call == number,
                    Scope::Role(of) => of == role,
                    Scope::Debates => matches!(role, Role::Critic | Role::Maker | Role::Scorer),
                    Scope::Everything => true,
                    Scope::After(calls) => number >= calls,
                }
        };
        let injection = self.injections.iter_mut().find(applies)?;
        if injection.attempts != usize::MAX {
            injection.attempts -= 1;
        }
        let needs_schema = matches!(injection.fault, Fault::WrongSchema | Fault::AtTokenLimit);
        Some(injection.fault).filter(|_| !needs_schema || request.schema.is_some())
    }
}

fn role(request: &Request) -> Role {
    static CRITIC: LazyLock<String> =
        LazyLock::new(|| Config::parse(DEFAULT).unwrap().critic.system_prompt);
    match request.schema.as_ref().map(|it| it.name.as_str()) {
        Some("FindingsDraft" | "SingleFinding") => Role::Inference,
        Some("MovesDraft") => Role::Analyst,
        Some("Scores") => Role::Scorer,
        _ if request.system.as_ref().is_some_and(|it| it.contains(CRITIC.trim())) => Role::Critic,
        _ if request.prompt().starts_with("Write the ") => Role::Synthesizer,
        _ => Role::Maker,
    }
}

async fn serve(shared: Arc<Mutex<Shared>>, stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let body = testkit::read_body(&mut stream).await?;
    let request = testkit::request(&body);
    let fault = shared.lock().unwrap().fault(&body, &request);
    let error = |status: &str, headers: &str| {
        let message = json!({ "error": { "message": format!("injected status {status}") } });
        let (message, length) = (message.to_string(), message.to_string().len());
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\
             connection: close\r\n\r\n{message}"
        )
    };
    let charge = |response: &str| shared.lock().unwrap().bill.add(response);
    let text = match fault {
        Some(Fault::HangBeforeFirstByte) => {
            charge("");
            return wait_for_disconnect(stream).await;
        }
        Some(Fault::ShortWait) => error("429 Too Many Requests", "retry-after-ms: 5\r\n"),
        Some(Fault::LongWait) => error("429 Too Many Requests", "retry-after: 3600\r\n"),
        Some(Fault::RateLimited) => error("429 Too Many Requests", ""),
        Some(Fault::ServerError) => error("500 Internal Server Error", ""),
        Some(Fault::Unauthorized) => error("401 Unauthorized", ""),
        Some(Fault::Html) => {
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>Welcome</html>".to_owned()
        }
        Some(Fault::HangAfterFirstByte) => {
            let start = HEAD.to_owned() + &event("I hold that");
            charge(&start);
            stream.write_all(start.as_bytes()).await.ok()?;
            return wait_for_disconnect(stream).await;
        }
        Some(Fault::WaitUntilDate) => {
            error("429 Too Many Requests", "retry-after: Fri, 31 Dec 2100 23:59:59 GMT\r\n")
        }
        Some(Fault::PastWait) => {
            error("503 Service Unavailable", "retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n")
        }
        Some(Fault::TooEarly) => error("425 Too Early", ""),
        Some(Fault::ErrorInStream) => {
            let failure = json!({ "error": { "message": "the model crashed", "code": 502 } });
            format!("{HEAD}{}data: {failure}\n\ndata: [DONE]\n\n", event("I hold that"))
        }
        Some(Fault::Uncounted) => {
            let response = canned::model().generate(request).await.ok()?;
            format!("{HEAD}{}{}data: [DONE]\n\n", event(&response.text()), end("stop"))
        }
        Some(Fault::NoEndMarker) => {
            let response = canned::model().generate(request).await.ok()?;
            format!("{HEAD}{}{}{}", event(&response.text()), end("stop"), usage())
        }
        Some(Fault::NoEndMarkerUncounted) => {
            let response = canned::model().generate(request).await.ok()?;
            format!("{HEAD}{}{}", event(&response.text()), end("stop"))
        }
        Some(Fault::AtTokenLimit) => {
            let text = canned::model().generate(request).await.ok()?.text();
            let start = &text[..text.floor_char_boundary(text.len() * 6 / 10)];
            format!("{HEAD}{}{}{}data: [DONE]\n\n", event(start), end("length"), usage())
        }
        Some(Fault::NoBody) => HEAD.to_owned(),
        Some(Fault::CutAfterUsage) => format!("{HEAD}{}{}", event("I hold that"), usage()),
        Some(Fault::ErrorBody) => error("200 OK", ""),
        Some(Fault::Redirect) => error("302 Found", "location: http://127.0.0.1:1/v1\r\n"),
        Some(Fault::KeepAlive) => {
            charge(HEAD);
            return keep_alive(stream).await;
        }
        Some(Fault::WrongLength) => {
            HEAD.replace("connection", "content-length: 100000\r\nconnection") + &event("I hold")
        }
        Some(Fault::Binary) => format!("{HEAD}\u{1f}\u{8b}\u{8}\u{0}\u{0}\n\u{3}"),
        Some(Fault::ContentFilter) => {
            let end = end("content_filter") + &usage();
            format!("{HEAD}{}{end}data: [DONE]\n\n", event("I hold that"))
        }
        Some(Fault::ToolCall) => {
            let function = json!({ "name": "search", "arguments": "{}" });
            let call = json!({ "index": 0, "id": "c1", "function": function });
            let delta = json!({ "tool_calls": [call] });
            let chunk = json!({ "choices": [{ "index": 0, "delta": delta }] });
            format!("{HEAD}data: {chunk}\n\n{}{}data: [DONE]\n\n", end("tool_calls"), usage())
        }
        Some(Fault::Invisible) => whole(&[" \n\u{200b}\u{feff}\u{0}"]),
        Some(Fault::ForeignRefusal) => whole(&["Lo siento, pero no puedo ayudarte con eso."]),
        Some(Fault::RefusalInFields) if request.schema.is_some() => whole(&[&refusal_in_fields()]),
        Some(Fault::Echo) => whole(&[&request.prompt()]),
        Some(Fault::TruncatedStream) => HEAD.to_owned() + &event("I hold that"),
        Some(Fault::WrongSchema) => whole(&[r#"{ "unexpected": true }"#]),
        Some(Fault::Refusal | Fault::RefusalInFields) => whole(&["I'm sorry, but I can't help with that."]),
        Some(Fault::Empty) => whole(&[]),
        // The client stops reading before the token counts.
        Some(Fault::Huge) => whole(&vec!["All is well. "; 10_000_000 / 13]).replace(&usage(), ""),
        None => {
            let response = canned::model().generate(request).await.ok()?;
            whole(&[&response.text()])
        }
    };
    charge(&text);
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

/// Token counts of each answer.
const INPUT_TOKENS: u64 = 100;
const OUTPUT_TOKENS: u64 = 20;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

fn event(text: &str) -> String {
    let chunk =
        json!({ "model": "board", "choices": [{ "index": 0, "delta": { "content": text } }] });
    format!("data: {chunk}\n\n")
}

fn end(reason: &str) -> String {
    let chunk = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] });
    format!("data: {chunk}\n\n")
}

fn usage() -> String {
    let usage = json!({ "prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS });
    format!("data: {}\n\n", json!({ "choices": [], "usage": usage }))
}

/// Returns a complete streamed response.
fn whole(pieces: &[&str]) -> String {
    let text: String = pieces.chunks(10_000).map(|it| event(&it.concat())).collect();
    format!("{HEAD}{text}{}{}data: [DONE]\n\n", end("stop"), usage())
}

/// Returns an answer that fits all schemas.
fn refusal_in_fields() -> String {
    let refusal = "I'm sorry, but I can't help with that.";
    let answer = json!({
        "claim": refusal, "findings": [{ "claim": refusal, "strength": 1 }],
        "moves": [{ "title": refusal, "risk_level": "low", "thesis": refusal }],
        "impact": 7, "feasibility": 7, "risk_adjusted_return": 7, "strategic_alignment": 7,
        "reasoning": refusal,
    });
    format!("{answer:#}")
}

/// Sends comments until the client disconnects.
async fn keep_alive(mut stream: BufReader<TcpStream>) -> Option<()> {
    stream.write_all(HEAD.as_bytes()).await.ok()?;
    loop {
        stream.write_all(b": waiting\n\n").await.ok()?;
        tokio::time::sleep(SHORT / 8).await;
    }
}

async fn wait_for_disconnect(mut stream: BufReader<TcpStream>) -> Option<()> {
    stream.read_u8().await.ok().map(drop)
}
