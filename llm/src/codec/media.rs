//! Encodes images, documents and audio.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::call_error::CallError;
use crate::{ErrorKind, Media, MediaKind, MediaSource, Message, Part, Request, Role};

/// Returns an error if the request contains media outside of user messages, or media for which `reason` returns the
/// reason for a rejection.
pub(super) fn check(
    request: &Request,
    reason: impl Fn(&Media) -> Option<&'static str>,
) -> Result<(), CallError> {
    for message in &request.messages {
        for media in all(message) {
            let misplaced = (message.role != Role::User)
                .then_some("images, documents and audio must be in user messages");
            if let Some(reason) = misplaced.or_else(|| reason(media)) {
                return Err(CallError::new(ErrorKind::BadRequest, reason));
            }
        }
    }
    Ok(())
}

/// Returns the media of a message.
pub(super) fn all(message: &Message) -> impl Iterator<Item = &Media> {
    message.parts.iter().filter_map(|part| match part {
        Part::Media(media) => Some(media),
        _ => None,
    })
}

/// Encodes media as a content block of Anthropic's Messages API.
pub(super) fn anthropic(media: &Media) -> Value {
    let source = match &media.source {
        MediaSource::Url(url) => json!({ "type": "url", "url": url }),
        MediaSource::Data { mime_type, base64 } => match plain_text(media) {
            Some(text) => json!({ "type": "text", "media_type": "text/plain", "data": text }),
            None => json!({ "type": "base64", "media_type": mime_type, "data": base64 }),
        },
    };
    let kind = if media.kind == MediaKind::Image { "image" } else { "document" };
    let mut block = json!({ "type": kind, "source": source });
    if let (Some(name), "document") = (&media.name, kind) {
        block["title"] = name.as_str().into();
    }
    block
}

pub(super) fn anthropic_rejects(media: &Media) -> Option<&'static str> {
    (media.kind == MediaKind::Audio).then_some("Anthropic's models do not accept audio")
}

/// Encodes media as a content part of OpenAI's chat completions.
pub(super) fn chat(media: &Media) -> Value {
    match (media.kind, &media.source) {
        (MediaKind::Image, source) => {
            json!({ "type": "image_url", "image_url": { "url": url(source) } })
        }
        (MediaKind::Audio, MediaSource::Data { mime_type, base64 }) => {
            let audio = json!({ "data": base64, "format": audio_format(mime_type) });
            json!({ "type": "input_audio", "input_audio": audio })
        }
        (_, source) => {
            let file = json!({ "filename": file_name(media), "file_data": url(source) });
            json!({ "type": "file", "file": file })
        }
    }
}

pub(super) fn chat_rejects(media: &Media) -> Option<&'static str> {
    match (media.kind, &media.source) {
        (MediaKind::Audio, MediaSource::Url(_)) => Some("audio must be sent as data, not as a URL"),
        (MediaKind::Document, MediaSource::Url(_)) => Some(
            "documents must be sent as data, not as a URL; with OpenAI, the Responses API accepts URLs",
        ),
        _ => None,
    }
}

/// Encodes media as a content part of OpenAI's Responses API.
pub(super) fn responses(media: &Media) -> Value {
    match (media.kind, &media.source) {
        (MediaKind::Image, source) => json!({ "type": "input_image", "image_url": url(source) }),
        (_, MediaSource::Url(url)) => json!({ "type": "input_file", "file_url": url }),
        (_, source) => json!({
            "type": "input_file", "filename": file_name(media), "file_data": url(source),
        }),
    }
}

pub(super) fn responses_rejects(media: &Media) -> Option<&'static str> {
    (media.kind == MediaKind::Audio)
        .then_some("OpenAI's Responses API does not accept audio; use chat completions")
}

/// Encodes media as a part of Gemini's API.
pub(super) fn gemini(media: &Media) -> Value {
    match &media.source {
        MediaSource::Url(url) => json!({ "fileData": { "fileUri": url } }),
        MediaSource::Data { mime_type, base64 } => {
            json!({ "inlineData": { "mimeType": mime_type, "data": base64 } })
        }
    }
}

/// Encodes an image as an entry of a message's `images` in Ollama's API.
pub(super) fn ollama(media: &Media) -> Option<&str> {
    match &media.source {
        MediaSource::Data { base64, .. } => Some(base64),
        MediaSource::Url(_) => None,
    }
}

pub(super) fn ollama_rejects(media: &Media) -> Option<&'static str> {
    match (media.kind, &media.source) {
        (MediaKind::Image, MediaSource::Data { .. }) => None,
        (MediaKind::Image, MediaSource::Url(_)) => {
            Some("Ollama does not download images; send the image as data")
        }
        _ => Some("Ollama accepts images, but no documents or audio; send their text"),
    }
}

/// Returns the URL of the media, or a `data:` URL with the data.
fn url(source: &MediaSource) -> String {
    match source {
        MediaSource::Url(url) => url.clone(),
        MediaSource::Data { mime_type, base64 } => format!("data:{mime_type};base64,{base64}"),
    }
}

/// Returns the text of a text document.
fn plain_text(media: &Media) -> Option<String> {
    match (&media.source, media.kind) {
        (MediaSource::Data { mime_type, base64 }, MediaKind::Document)
            if mime_type.starts_with("text/") =>
        {
            String::from_utf8(STANDARD.decode(base64).ok()?).ok()
        }
        _ => None,
    }
}

/// Returns the file name, which OpenAI requires.
fn file_name(media: &Media) -> &str {
    let default = match &media.source {
        MediaSource::Data { mime_type, .. } if mime_type.starts_with("text/") => "document.txt",
        _ => "document.pdf",
    };
    media.name.as_deref().unwrap_or(default)
}

fn audio_format(mime_type: &str) -> &str {
    match mime_type.split_once('/').map_or(mime_type, |it| it.1) {
        "mpeg" => "mp3",
        "x-wav" | "wave" | "vnd.wave" => "wav",
        other => other,
    }
}
