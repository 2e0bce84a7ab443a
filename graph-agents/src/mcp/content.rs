//! Content of MCP results as content of messages, with bounded size.

use rmcp::model::{ContentBlock, ResourceContents};
use serde_json::{Value, json};

use super::options::McpOptions;
use crate::message::{Content, text_block};

/// Converts blocks to content: a text if all blocks are texts, and a list of blocks otherwise.
///
/// Text beyond [`McpOptions::max_text`] is cut off. Binary data beyond [`McpOptions::max_binary`] is replaced with a
/// note.
pub(super) fn to_content(blocks: Vec<ContentBlock>, options: &McpOptions) -> Content {
    let mut bounds = Bounds { text: options.max_text, binary: options.max_binary };
    let blocks: Vec<Value> = blocks.into_iter().map(|it| bounds.block(it)).collect();
    if blocks.iter().all(|it| it["type"] == "text") {
        let texts: Vec<_> = blocks.iter().filter_map(|it| it["text"].as_str()).collect();
        return Content::Text(texts.join("\n"));
    }
    Content::Blocks(blocks)
}

/// Cuts a text off after `limit` characters, with a note.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((end, _)) => {
            let length = text.chars().count();
            format!("{}\n[cut off: the first {limit} of {length} characters]", &text[..end])
        }
    }
}

/// Remaining size of a result.
struct Bounds {
    text: usize,
    binary: usize,
}

impl Bounds {
    fn block(&mut self, block: ContentBlock) -> Value {
        match block {
            ContentBlock::Text(it) => self.text(&it.text),
            ContentBlock::Image(it) => self.binary("image", &it.data, &it.mime_type),
            ContentBlock::Audio(it) => self.binary("audio", &it.data, &it.mime_type),
            ContentBlock::Resource(it) => match it.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.text(&format!("[{uri}]\n{text}"))
                }
                ResourceContents::BlobResourceContents { blob, mime_type, .. } => {
                    let mime_type = mime_type.as_deref().unwrap_or("application/octet-stream");
                    let kind = mime_type.split('/').next().unwrap_or_default();
                    let kind = ["image", "audio"].into_iter().find(|it| *it == kind);
                    self.binary(kind.unwrap_or("file"), &blob, mime_type)
                }
                other => self.text(&format!("[unknown resource] {other:?}")),
            },
            ContentBlock::ResourceLink(it) => {
                self.text(&format!("[resource `{}`: {}]", it.name, it.uri))
            }
            other => self.text(&format!("[unknown content] {other:?}")),
        }
    }

    fn text(&mut self, text: &str) -> Value {
        let bounded = shorten(text, self.text);
        self.text = self.text.saturating_sub(text.chars().count());
        text_block(&bounded)
    }

    fn binary(&mut self, kind: &str, data: &str, mime_type: &str) -> Value {
        if data.len() > self.binary {
            let note =
                format!("[omitted {mime_type}: its {} base64 bytes exceed the limit]", data.len());
            return self.text(&note);
        }
        self.binary -= data.len();
        json!({ "type": kind, "base64": data, "mime_type": mime_type })
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ContentBlock;
    use serde_json::json;

    use super::to_content;
    use crate::{mcp::McpOptions, message::Content};

    #[test]
    fn results_have_a_maximum_size() {
        let options = McpOptions::new().max_text(5).max_binary(4);
        let texts = vec![ContentBlock::text("äbc"), ContentBlock::text("defg")];
        let expected = "äbc\nde\n[cut off: the first 2 of 4 characters]";
        assert_eq!(to_content(texts, &options), Content::from(expected));
        let images = ["AAAA", "BBBB"].map(|it| ContentBlock::image(it, "image/png")).to_vec();
        let Content::Blocks(blocks) = to_content(images, &options) else { panic!("not blocks") };
        assert_eq!(blocks[0], json!({"type": "image", "base64": "AAAA", "mime_type": "image/png"}));
        assert_eq!(blocks[1]["type"], "text");
    }
}
