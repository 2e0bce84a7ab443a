//! Chat formats. Each family of models delimits messages with its own special tokens.

use crate::{Message, Part, Request, Role};

use super::{
    gguf::{ErrorMessage, Gguf},
    vocabulary::Vocabulary,
};

/// Chat format of a family of models.
pub(super) struct ChatFormat {
    /// Token before the whole conversation, if the format has one.
    begin: Option<u32>,
    /// Token before the role.
    header_start: u32,
    /// Separator between the role and the message.
    header_end: HeaderEnd,
    /// Token after a message.
    end: u32,
    after: &'static str,
    ends: Vec<u32>,
}

/// Separator between the role and the message.
enum HeaderEnd {
    Newline,
    Token(u32),
}

/// Tokens that end an answer, in addition to the one that the file specifies.
const END_TOKENS: [&str; 5] =
    ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"];

impl ChatFormat {
    pub(super) fn load(gguf: &Gguf, vocabulary: &Vocabulary) -> Result<Self, ErrorMessage> {
        let Some(template) = gguf.optional_text("tokenizer.chat_template") else {
            return Err(gguf.error(
                "no chat template, so this is a base model that cannot answer; use a model with \
                 `instruct` or `chat` in its name",
            ));
        };
        let mark = |name: &str| {
            let mark = vocabulary.special_token(name).filter(|_| template.contains(name));
            mark.ok_or_else(|| {
                gguf.error(
                    "unsupported chat template (supported: `<|im_start|>` and `<|start_header_id|>`); \
                     use llama.cpp's server or Ollama for this model",
                )
            })
        };
        let begin = gguf.flag("tokenizer.ggml.add_bos_token");
        let begin = begin.then(|| token(gguf, "tokenizer.ggml.bos_token_id")).flatten();
        let last = token(gguf, "tokenizer.ggml.eos_token_id");
        let ends = END_TOKENS
            .iter()
            .filter_map(|name| vocabulary.special_token(name))
            .chain(last)
            .collect();
        if template.contains("<|start_header_id|>") {
            return Ok(Self {
                begin: begin.or_else(|| vocabulary.special_token("<|begin_of_text|>")),
                header_start: mark("<|start_header_id|>")?,
                header_end: HeaderEnd::Token(mark("<|end_header_id|>")?),
                end: mark("<|eot_id|>")?,
                after: "",
                ends,
            });
        }
        Ok(Self {
            begin,
            header_start: mark("<|im_start|>")?,
            header_end: HeaderEnd::Newline,
            end: mark("<|im_end|>")?,
            after: "\n",
            ends,
        })
    }

    /// Returns whether a token ends an answer.
    pub(super) fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// Encodes a request as tokens, up to the point where the answer starts.
    pub(super) fn tokens(
        &self,
        request: &Request,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<u32>, ErrorMessage> {
        let mut tokens = Vec::from_iter(self.begin);
        let mut message = |role: &str, text: &str| {
            self.header_start(role, &mut tokens, vocabulary)?;
            tokens.extend(vocabulary.tokens(text)?);
            tokens.push(self.end);
            tokens.extend(vocabulary.tokens(self.after)?);
            Ok::<_, ErrorMessage>(())
        };
        if let Some(system) = &request.system {
            message("system", system)?;
        }
        for it in &request.messages {
            let role = match it.role {
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::System => "system",
            };
            message(role, &message_text(it)?)?;
        }
        self.header_start("assistant", &mut tokens, vocabulary)?;
        Ok(tokens)
    }

    fn header_start(
        &self,
        role: &str,
        tokens: &mut Vec<u32>,
        vocabulary: &Vocabulary,
    ) -> Result<(), ErrorMessage> {
        tokens.push(self.header_start);
        match self.header_end {
            HeaderEnd::Newline => tokens.extend(vocabulary.tokens(&format!("{role}\n"))?),
            HeaderEnd::Token(mark) => {
                tokens.extend(vocabulary.tokens(role)?);
                tokens.push(mark);
                tokens.extend(vocabulary.tokens("\n\n")?);
            }
        }
        Ok(())
    }
}

fn token(gguf: &Gguf, key: &str) -> Option<u32> {
    gguf.optional_number(key)?.try_into().ok()
}

/// Returns the text of a message, or an error if the message contains anything else.
fn message_text(message: &Message) -> Result<String, ErrorMessage> {
    let is_tool = |part: &Part| {
        matches!(part, Part::ToolCall(_) | Part::InvalidToolCall(_) | Part::ToolResult { .. })
    };
    if message.parts.iter().any(is_tool) {
        return Err("local models do not support tools; describe tool results as text".into());
    }
    if message.parts.iter().any(|it| matches!(it, Part::Media(_))) {
        return Err("local models read only text; remove images, documents and audio".into());
    }
    Ok(message.text())
}
