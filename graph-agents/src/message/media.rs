//! Content blocks as parts of a model request.

use llm::{Media, MediaKind, MediaSource, Part};
use serde_json::Value;

use super::content::Content;

/// Converts content to parts: texts, and the images, documents and audio in the formats of LangChain, OpenAI and
/// Anthropic. Blocks in other formats become JSON text.
pub(super) fn parts(content: &Content) -> Vec<Part> {
    match content {
        Content::Text(text) => vec![Part::text(text)],
        Content::Blocks(blocks) => blocks.iter().map(part).collect(),
    }
}

fn part(block: &Value) -> Part {
    match block {
        Value::String(text) => Part::text(text),
        block if block["type"] == "text" => Part::text(block["text"].as_str().unwrap_or_default()),
        block => media(block).map_or_else(|| Part::text(block.to_string()), Part::Media),
    }
}

/// Returns whether a block is an image, audio or a document. A document that contains plain text is not: models read it
/// like a text.
pub(crate) fn is_media(block: &Value) -> bool {
    block["source"]["type"] != "text" && media(block).is_some()
}

fn media(block: &Value) -> Option<Media> {
    let kind = match block["type"].as_str()? {
        "image" | "image_url" | "input_image" => MediaKind::Image,
        "audio" | "input_audio" => MediaKind::Audio,
        "file" | "document" | "input_file" => MediaKind::Document,
        _ => return None,
    };
    // The data is in the block itself, or in an object inside it.
    let places = ["image_url", "input_audio", "file", "source"].map(|key| &block[key]);
    let place = places.into_iter().find(|it| it.is_object()).unwrap_or(block);
    let name = ["filename", "name", "title"].into_iter();
    let name = name.flat_map(|key| [&place[key], &block[key]]).find_map(Value::as_str);
    let media = Media::new(kind, source(place, kind)?);
    Some(match name {
        Some(name) => media.named(name),
        None => media,
    })
}

fn source(place: &Value, kind: MediaKind) -> Option<MediaSource> {
    let first = |keys: &[&str]| keys.iter().find_map(|key| place[*key].as_str());
    if let Some(url) = first(&["url", "image_url", "file_data", "file_url"]) {
        return Some(from_url(url));
    }
    let base64 = first(&["base64", "data"])?.to_owned();
    let mime_type = first(&["mime_type", "media_type"]).map(str::to_owned);
    let mime_type = mime_type.or_else(|| Some(format!("audio/{}", place["format"].as_str()?)));
    let default = match kind {
        MediaKind::Image => "image/png",
        MediaKind::Audio => "audio/wav",
        MediaKind::Document => "application/pdf",
    };
    Some(MediaSource::Data { mime_type: mime_type.unwrap_or_else(|| default.to_owned()), base64 })
}

/// Returns the data of a `data:` URL, or the URL itself.
fn from_url(url: &str) -> MediaSource {
    let data = url.strip_prefix("data:").and_then(|it| it.split_once(";base64,"));
    match data {
        Some((mime_type, base64)) => {
            MediaSource::Data { mime_type: mime_type.to_owned(), base64: base64.to_owned() }
        }
        None => MediaSource::Url(url.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use llm::{Media, Part};
    use serde_json::json;

    use super::{is_media, parts};

    #[test]
    fn blocks_of_all_formats_become_media() {
        let png = || Part::Media(Media::image("image/png", b"png"));
        let url = || Part::Media(Media::image_url("https://a.example/b"));
        let wav = || Part::Media(Media::audio("audio/wav", b"wav"));
        let pdf = || Part::Media(Media::document("application/pdf", b"pdf").named("a.pdf"));
        let cases = [
            (json!("text"), Part::text("text")),
            (json!({"type": "text", "text": "text"}), Part::text("text")),
            (json!({"type": "image", "base64": "cG5n", "mime_type": "image/png"}), png()),
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}}),
                png(),
            ),
            (
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}}),
                png(),
            ),
            (json!({"type": "image", "url": "https://a.example/b"}), url()),
            (json!({"type": "image_url", "image_url": "https://a.example/b"}), url()),
            (
                json!({"type": "image", "source": {"type": "url", "url": "https://a.example/b"}}),
                url(),
            ),
            (json!({"type": "audio", "base64": "d2F2", "mime_type": "audio/wav"}), wav()),
            (
                json!({"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}}),
                wav(),
            ),
            (
                json!({"type": "file", "base64": "cGRm", "mime_type": "application/pdf", "filename": "a.pdf"}),
                pdf(),
            ),
            (
                json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,cGRm", "filename": "a.pdf"}}),
                pdf(),
            ),
            (json!({"type": "odd"}), Part::text(r#"{"type":"odd"}"#)),
            (json!({"type": "image"}), Part::text(r#"{"type":"image"}"#)),
        ];
        for (block, part) in cases {
            assert_eq!(parts(&vec![block.clone()].into()), [part], "{block}");
        }
    }

    #[test]
    fn documents_of_plain_text_are_not_media() {
        let document = |kind: &str| json!({"type": "document", "source": {"type": kind, "media_type": "text/plain", "data": "T2JleSE="}});
        assert!(is_media(&document("base64")));
        assert!(!is_media(&document("text")));
    }
}
