//! Content blocks as parts of a model request.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use llm::{Media, MediaKind, MediaSource, Part};
use serde_json::Value;

use super::content::Content;

/// Fields of a block that may hold an object with the data.
const PLACES: [&str; 4] = ["image_url", "input_audio", "file", "source"];

/// Fields that may hold the name of a file.
const NAMES: [&str; 3] = ["filename", "name", "title"];

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

/// Returns the text that a model reads from a block that is not a text block: the content of a text file, or the JSON
/// of a block in another format. Returns `None` for images, audio and other documents.
pub(crate) fn text_of(block: &Value) -> Option<String> {
    let source = media(block).filter(|_| block["source"]["type"] != "text").map(|it| it.source);
    match source {
        Some(MediaSource::Data { mime_type, base64 }) => {
            let is_text = is_text_type(&mime_type);
            is_text.then(|| decode(&base64).unwrap_or_else(|| block.to_string()))
        }
        Some(MediaSource::Url(url)) => is_data_url(&url).then(|| block.to_string()),
        None => Some(block.to_string()),
    }
}

/// Removes the names of media, because a model reads them as text.
pub(crate) fn without_names(mut block: Value) -> Value {
    if media(&block).is_some() {
        remove_names(&mut block);
        for place in PLACES {
            block.get_mut(place).into_iter().for_each(remove_names);
        }
    }
    block
}

fn remove_names(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|key, _| !NAMES.contains(&key.as_str()));
    }
}

/// Returns whether a media type denotes text. In `data:` URLs, data without a media type is text.
fn is_text_type(mime_type: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let formats = ["json", "xml", "yaml", "javascript", "python"];
    essence.is_empty()
        || essence.starts_with("text/")
        || formats.into_iter().any(|it| essence.ends_with(it))
}

/// Decodes a text in any variant of base64. Invalid UTF-8 is replaced.
fn decode(base64: &str) -> Option<String> {
    let standard = |it: char| match it {
        '-' => '+',
        '_' => '/',
        other => other,
    };
    let is_data = |it: &char| !it.is_ascii_whitespace() && *it != '=';
    let digits: String = base64.chars().filter(is_data).map(standard).collect();
    let bytes = STANDARD_NO_PAD.decode(digits).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns whether a URL contains its data.
fn is_data_url(url: &str) -> bool {
    let scheme = url.trim_start().split(':').next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("data")
}

fn media(block: &Value) -> Option<Media> {
    let kind = match block["type"].as_str()? {
        "image" | "image_url" | "input_image" => MediaKind::Image,
        "audio" | "input_audio" => MediaKind::Audio,
        "file" | "document" | "input_file" => MediaKind::Document,
        _ => return None,
    };
    // The data is in the block itself, or in an object inside it.
    let places = PLACES.map(|key| &block[key]);
    let place = places.into_iter().find(|it| it.is_object()).unwrap_or(block);
    let name = NAMES.into_iter();
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
    use serde_json::{Value, json};

    use super::{parts, text_of, without_names};

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
    fn text_files_are_read_as_text() {
        let file = |mime_type: &str, data: &str| json!({"type": "file", "base64": data, "mime_type": mime_type});
        let url = |url: &str| json!({"type": "file", "file": {"file_data": url}});
        let document = |kind: &str| json!({"type": "document", "source": {"type": kind, "media_type": "text/plain", "data": "T2JleSE="}});
        for block in [
            file("text/plain", "T2JleSE="),
            file("Text/HTML; charset=utf-8", "T2JleSE"),
            file("application/json", "T2Jl\neSE="),
            file("application/ld+json", "T2JleSE="),
            file("application/xml", "T2JleSE="),
            json!({"type": "image", "base64": "T2JleSE=", "mime_type": "image/svg+xml"}),
            url("data:text/plain;base64,T2JleSE="),
            url("data:;base64,T2JleSE="),
            document("base64"),
        ] {
            assert_eq!(text_of(&block).as_deref(), Some("Obey!"), "{block}");
        }
        assert_eq!(text_of(&file("text/plain", "/08=")).as_deref(), Some("\u{fffd}O"));
        for block in [
            document("text"),
            file("text/plain", "Obey!"),
            url("data:text/plain,Obey!"),
            url("DATA:text/plain;base64,T2JleSE="),
            json!({"type": "odd"}),
        ] {
            assert_eq!(text_of(&block), Some(block.to_string()));
        }
        for block in [file("application/pdf", "cGRm"), url("https://a.example/b")] {
            assert_eq!(text_of(&block), None, "{block}");
        }
    }

    #[test]
    fn names_are_removed_from_media() {
        let pdf = |extra: Value| {
            let mut block =
                json!({"type": "file", "base64": "cGRm", "mime_type": "application/pdf"});
            block.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            block
        };
        assert_eq!(
            without_names(pdf(json!({"filename": "Obey!", "title": "Obey!"}))),
            pdf(json!({}))
        );
        let nested = json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,cGRm", "filename": "Obey!"}});
        let expected =
            json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,cGRm"}});
        assert_eq!(without_names(nested), expected);
        let text = json!({"type": "text", "text": "a", "name": "b"});
        assert_eq!(without_names(text.clone()), text);
    }
}
