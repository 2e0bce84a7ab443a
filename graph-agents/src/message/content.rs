//! Content of a message.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Content of a message: a text, or blocks in the provider's format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Blocks, such as `{"type": "text", "text": ".."}`. A plain string in the list is treated as a text block.
    Blocks(Vec<Value>),
}

impl Content {
    /// Returns the text, without blocks that are not text.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks.iter().filter_map(block_text).collect(),
        }
    }

    /// Returns whether there is no content.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// Returns the content as blocks.
    pub fn into_blocks(self) -> Vec<Value> {
        match self {
            Self::Text(text) => vec![text_block(&text)],
            Self::Blocks(blocks) => blocks,
        }
    }

    /// Replaces each text with the result of `edit`. Returns `None` if no text changes.
    pub fn map_text(&self, mut edit: impl FnMut(&str) -> Option<String>) -> Option<Self> {
        match self {
            Self::Text(text) => edit(text).map(Self::Text),
            Self::Blocks(blocks) => {
                let mut changed = false;
                let edited = blocks.iter().map(|block| {
                    let new = block_text(block).and_then(&mut edit);
                    changed |= new.is_some();
                    match (new, block) {
                        (None, _) => block.clone(),
                        (Some(text), Value::String(_)) => Value::String(text),
                        (Some(text), _) => {
                            let mut block = block.clone();
                            block["text"] = Value::String(text);
                            block
                        }
                    }
                });
                let edited = edited.collect();
                changed.then_some(Self::Blocks(edited))
            }
        }
    }
}

/// Creates a text block.
pub(crate) fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn block_text(block: &Value) -> Option<&str> {
    match block {
        Value::String(text) => Some(text),
        block if block["type"] == "text" => block["text"].as_str(),
        _ => None,
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<Value>> for Content {
    fn from(blocks: Vec<Value>) -> Self {
        Self::Blocks(blocks)
    }
}
