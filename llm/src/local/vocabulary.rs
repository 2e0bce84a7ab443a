//! The vocabulary of a model. Converts text to tokens and tokens to bytes.
//!
//! candle can also build a tokenizer from a GGUF file, but it ignores the rules `llama-bpe` and `smollm`, and it
//! converts text that looks like a special token to that token, so the text of a message could end the message.

use tokenizers::{
    Tokenizer,
    models::bpe::{BPE, Vocab},
    normalizers::unicode::NFC,
    pre_tokenizers::{
        PreTokenizerWrapper,
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
    tokenizer::SplitDelimiterBehavior,
};

use super::gguf::{ErrorMessage, Gguf, as_usize};

/// Vocabulary and tokenizer of a model.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    /// Bytes of each token, which may contain incomplete characters. `None` for a special token, such as the end of a
    /// message.
    bytes: Vec<Option<Box<[u8]>>>,
    names: Vec<String>,
}

/// Token type of special tokens in GGUF files.
const CONTROL: usize = 3;
/// Token type of unused tokens in GGUF files.
const UNUSED: usize = 5;
/// Token type of user-defined tokens in GGUF files. The name of such a token is its text.
const USER_DEFINED: usize = 4;

impl Vocabulary {
    pub(super) fn load(gguf: &Gguf) -> Result<Self, ErrorMessage> {
        let kind = gguf.text("tokenizer.ggml.model")?;
        if kind != "gpt2" {
            return Err(gguf.error(format_args!(
                "the tokenizer `{kind}` is not supported (supported: `gpt2`, which is byte-level BPE); \
                 use llama.cpp's server or Ollama for this model"
            )));
        }
        let names = gguf.texts("tokenizer.ggml.tokens")?;
        let kinds = gguf.list("tokenizer.ggml.token_type")?;
        if names.len() != kinds.len() {
            return Err(gguf.error(
                "`tokenizer.ggml.token_type` and `tokenizer.ggml.tokens` differ in length",
            ));
        }
        let bytes = |(name, kind)| token_bytes(name, as_usize(kind).unwrap_or_default());
        let bytes = names.iter().copied().zip(kinds).map(bytes).collect();
        let tokenizer = tokenizer(gguf, &names)?;
        let names = names.into_iter().map(str::to_owned).collect();
        Ok(Self { tokenizer, bytes, names })
    }

    /// Converts text to tokens. Text that looks like a special token is treated as ordinary text, so it cannot end
    /// a message.
    pub(super) fn tokens(&self, text: &str) -> Result<Vec<u32>, ErrorMessage> {
        match self.tokenizer.encode_fast(text, false) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(format!("cannot tokenize the text: {error}")),
        }
    }

    /// Returns the special token with this name.
    pub(super) fn special_token(&self, name: &str) -> Option<u32> {
        let index = self.names.iter().position(|it| it == name)?;
        u32::try_from(index).ok()
    }

    /// Returns the bytes of a token, or `None` for a special token.
    pub(super) fn bytes(&self, token: u32) -> Option<&[u8]> {
        self.bytes.get(token as usize)?.as_deref()
    }
}

fn token_bytes(name: &str, kind: usize) -> Option<Box<[u8]>> {
    match kind {
        CONTROL | UNUSED => None,
        USER_DEFINED => Some(name.as_bytes().into()),
        _ => Some(name.chars().filter_map(byte_of).collect()),
    }
}

/// Returns the byte that a character in the name of a token represents. Printable bytes are represented by the
/// character with the same code. The other bytes are represented by the characters from U+0100 on.
fn byte_of(name: char) -> Option<u8> {
    let prints = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    match u8::try_from(name) {
        Ok(byte) => Some(byte).filter(prints),
        Err(_) => (0..=255).filter(|it| !prints(it)).nth((name as usize).checked_sub(256)?),
    }
}

fn tokenizer(gguf: &Gguf, names: &[&str]) -> Result<Tokenizer, ErrorMessage> {
    let rules = PreTokenizerRules::read(gguf)?;
    let ids: Vocab = names.iter().zip(0..).map(|(name, id)| ((*name).to_owned(), id)).collect();
    let pair = |merge: &str| {
        let (left, right) = merge.split_once(' ')?;
        Some((left.to_owned(), right.to_owned()))
    };
    let merges: Option<Vec<_>> =
        gguf.texts("tokenizer.ggml.merges")?.into_iter().map(pair).collect();
    let merges = merges.ok_or_else(|| gguf.error("a merge rule of the tokenizer is not a pair"))?;
    let bpe = BPE::builder().vocab_and_merges(ids, merges);
    let bpe = bpe.ignore_merges(rules.match_whole_words).build();
    let mut tokenizer = Tokenizer::new(bpe.map_err(|error| gguf.error(error))?);
    if rules.normalize {
        tokenizer.with_normalizer(Some(NFC)).map_err(|error| gguf.error(error))?;
    }
    tokenizer.with_pre_tokenizer(Some(rules.pre_tokenizer));
    Ok(tokenizer)
}

/// Rules for splitting text into words before the words are converted to tokens.
struct PreTokenizerRules {
    normalize: bool,
    pre_tokenizer: PreTokenizerWrapper,
    /// Whether a word that is a token itself becomes that token, without applying the merge rules.
    match_whole_words: bool,
}

impl PreTokenizerRules {
    fn read(gguf: &Gguf) -> Result<Self, ErrorMessage> {
        let name = gguf.text("tokenizer.ggml.pre")?;
        let bytes = |cuts| ByteLevel::new(false, true, cuts);
        let split = |pattern: String| {
            let pattern = SplitPattern::Regex(pattern);
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
            let split = split.map_err(|error| gguf.error(error))?;
            Ok::<_, ErrorMessage>(Sequence::new(vec![split.into(), bytes(false).into()]).into())
        };
        let (pre_tokenizer, normalize, match_whole_words) = match name {
            "qwen2" => (split(word_pattern(1))?, true, false),
            "llama-bpe" => (split(word_pattern(3))?, false, true),
            "smollm" => {
                let digits = Digits::new(true);
                (Sequence::new(vec![digits.into(), bytes(true).into()]).into(), false, false)
            }
            "gpt-2" => (bytes(true).into(), false, false),
            other => {
                return Err(gguf.error(format_args!(
                    "the pre-tokenizer `{other}` is not supported (supported: `qwen2`, `llama-bpe`, `smollm` and \
                     `gpt-2`); use llama.cpp's server or Ollama for this model"
                )));
            }
        };
        Ok(Self { normalize, pre_tokenizer, match_whole_words })
    }
}

/// Returns the regular expression for words in qwen2 and llama 3. The two differ only in the maximum number of digits
/// per word.
fn word_pattern(digits: u32) -> String {
    [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        &format!(r"\p{{N}}{{1,{digits}}}"),
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
    .join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_represented_by_a_character() {
        let mut bytes: Vec<u8> = ('\0'..'\u{144}').filter_map(byte_of).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!("Ġa".chars().filter_map(byte_of).collect::<Vec<u8>>(), b" a");
        assert_eq!("ÃŁ".chars().filter_map(byte_of).collect::<Vec<u8>>(), "ß".as_bytes());
    }
}
