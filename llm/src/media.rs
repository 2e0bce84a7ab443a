//! Images, documents and audio in messages.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// An image, a document or audio in a user message.
///
/// ```
/// use llm::{Media, Message, Part, Role};
///
/// let image = Media::image("image/png", b"\x89PNG");
/// let question = Message::new(Role::User, vec![image.into(), Part::text("What is this?")]);
/// # let _ = question;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Kind of the media.
    pub kind: MediaKind,
    /// The data, or where the provider finds it.
    pub source: MediaSource,
    /// File name, for documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Kind of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    /// An image.
    Image,
    /// A document, such as a PDF file.
    Document,
    /// Audio.
    Audio,
}

/// Data of media, or where the provider finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaSource {
    /// The data itself.
    Data {
        /// MIME type, such as `image/png`.
        mime_type: String,
        /// The data in base64.
        base64: String,
    },
    /// An address from which the provider downloads the data.
    Url(String),
}

impl Media {
    /// Creates an image from its bytes.
    pub fn image(mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(MediaKind::Image, MediaSource::bytes(mime_type, bytes))
    }

    /// Creates an image that the provider downloads.
    pub fn image_url(url: impl Into<String>) -> Self {
        Self::new(MediaKind::Image, MediaSource::Url(url.into()))
    }

    /// Creates a document from its bytes.
    pub fn document(mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(MediaKind::Document, MediaSource::bytes(mime_type, bytes))
    }

    /// Creates a document that the provider downloads.
    pub fn document_url(url: impl Into<String>) -> Self {
        Self::new(MediaKind::Document, MediaSource::Url(url.into()))
    }

    /// Creates audio from its bytes.
    pub fn audio(mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(MediaKind::Audio, MediaSource::bytes(mime_type, bytes))
    }

    /// Creates media without a name.
    pub fn new(kind: MediaKind, source: MediaSource) -> Self {
        Self { kind, source, name: None }
    }

    /// Sets the file name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl MediaSource {
    /// Encodes bytes.
    pub fn bytes(mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::Data { mime_type: mime_type.into(), base64: STANDARD.encode(bytes) }
    }
}
