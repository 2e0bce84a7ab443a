//! Reads recorded HTTP interactions from YAML files.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::codec::{Protocol, Quirks};

/// A recorded request and its response.
#[derive(Debug)]
pub(super) struct Recording {
    /// Name of the directory, which is the provider's name.
    pub(super) provider: String,
    /// Path of the file, for messages.
    pub(super) file: String,
    pub(super) path: String,
    pub(super) request_body: String,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Recording {
    /// Returns the protocol of the endpoint, or `None` if the endpoint does not generate text.
    pub(super) fn protocol(&self) -> Option<Protocol> {
        let ends = |end| self.path.ends_with(end);
        match () {
            // A request without a body lists models or uses another protocol.
            () if self.request_body.is_empty() => None,
            () if ends("/chat/completions") => Some(Protocol::OpenAiChat(self.quirks())),
            () if ends("/responses") => Some(Protocol::OpenAiResponses),
            () if ends("/v1/messages") => Some(Protocol::Anthropic),
            () if ends(":generateContent") || ends(":streamGenerateContent") => {
                Some(Protocol::Gemini)
            }
            () if ends("/api/chat") => Some(Protocol::Ollama),
            () => None,
        }
    }

    fn quirks(&self) -> Quirks {
        match self.provider.as_str() {
            "openai" => Quirks::OPENAI,
            "groq" => Quirks::GROQ,
            "openrouter" => Quirks::OPENROUTER,
            _ => Quirks::SERVER,
        }
    }

    /// Returns whether the response is a stream.
    pub(super) fn is_stream(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        kind.starts_with(b"text/event-stream") || kind.starts_with(b"application/x-ndjson")
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Returns the hand-written recordings of this repository.
pub(super) fn own() -> Vec<Recording> {
    let recordings = read_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wire"));
    assert!(recordings.len() >= 12, "the repository's own recordings are missing");
    recordings
}

/// Returns all recordings: those of this repository and those in `LLM_CASSETTES`.
pub(super) fn all() -> &'static [Recording] {
    static ALL: LazyLock<Vec<Recording>> = LazyLock::new(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut recordings = own();
        let others = env::var_os("LLM_CASSETTES").map(PathBuf::from);
        let others = others.unwrap_or_else(|| here.join("../../shared/cassettes"));
        if others.is_dir() {
            recordings.extend(read_dir(&others));
        } else {
            println!(
                "SKIPPED: no recordings of real providers at {}; set LLM_CASSETTES to their \
                 directory. Only the {} recordings of this repository are run.",
                others.display(),
                recordings.len(),
            );
        }
        recordings
    });
    &ALL
}

fn read_dir(root: &Path) -> Vec<Recording> {
    let mut files = Vec::new();
    find(root, &mut files);
    files.sort();
    files.iter().flat_map(|file| read(root, file)).collect()
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
    {
        let path = entry.unwrap().path();
        let is_yaml = path.extension().is_some_and(|it| it == "yaml" || it == "yml");
        if path.is_dir() {
            find(&path, files);
        } else if is_yaml {
            files.push(path);
        }
    }
}

fn read(root: &Path, file: &Path) -> Vec<Recording> {
    let text = fs::read_to_string(file).unwrap();
    let turns: Vec<Interaction> = serde_saphyr::from_multiple(&text)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let name = file.strip_prefix(root).unwrap();
    let provider = name.components().next().unwrap().as_os_str().to_string_lossy();
    let recording = |Interaction { when, then }: Interaction| Recording {
        provider: provider.trim_end_matches(".yaml").to_owned(),
        file: name.display().to_string(),
        path: when.path,
        request_body: when.body.unwrap_or_default(),
        status: then.status,
        headers: then.header.into_iter().flatten().filter_map(Header::parse).collect(),
        body: then.body.unwrap_or_default(),
    };
    turns.into_iter().map(recording).collect()
}

#[derive(Deserialize)]
struct Interaction {
    when: RecordedRequest,
    then: RecordedResponse,
}

#[derive(Deserialize)]
struct RecordedRequest {
    path: String,
    body: Option<String>,
}

#[derive(Deserialize)]
struct RecordedResponse {
    status: u16,
    header: Option<Vec<Header>>,
    body: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Header {
    name: String,
    value: String,
}

impl Header {
    fn parse(self) -> Option<(HeaderName, HeaderValue)> {
        Some((self.name.parse().ok()?, self.value.parse().ok()?))
    }
}
