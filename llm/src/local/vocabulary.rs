//! The vocabulary: from text to tokens, and from tokens to bytes.

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

/// The tokens of a model.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    tokens: Vec<Token>,
    names: Vec<String>,
}

/// What a token stands for.
enum Token {
    /// Bytes of text, not always whole characters.
    Bytes(Box<[u8]>),
    /// A mark of the conversation, as the end of a message.
    Special,
}

/// The number that a GGUF file gives to marks.
const CONTROL: usize = 3;
/// The number that it gives to tokens that nothing uses.
const UNUSED: usize = 5;
/// The number that it gives to tokens which stand for their own text.
const USER_DEFINED: usize = 4;

impl Vocabulary {
    pub(super) fn load(gguf: &Gguf) -> Result<Self, ErrorMessage> {
        let kind = gguf.text("tokenizer.ggml.model")?;
        if kind != "gpt2" {
            return Err(gguf.error(format_args!(
                "its tokenizer is of the kind `{kind}`; `gpt2` (byte-level BPE) can be read here, and \
                 llama.cpp's server or ollama read the others"
            )));
        }
        let names = gguf.texts("tokenizer.ggml.tokens")?;
        let kinds = gguf.list("tokenizer.ggml.token_type")?;
        if names.len() != kinds.len() {
            return Err(gguf.error("`tokenizer.ggml.token_type` is not as long as the tokens"));
        }
        let token = |(name, kind)| Token::new(name, as_usize(kind).unwrap_or_default());
        let tokens = names.iter().copied().zip(kinds).map(token).collect();
        let tokenizer = tokenizer(gguf, &names)?;
        let names = names.into_iter().map(str::to_owned).collect();
        Ok(Self { tokenizer, tokens, names })
    }

    /// The tokens of a text. What looks like a mark in it is text all the same, so nobody can end a message
    /// from inside it.
    pub(super) fn tokens(&self, text: &str) -> Result<Vec<u32>, ErrorMessage> {
        match self.tokenizer.encode_fast(text, false) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(format!("the text cannot be cut into tokens: {error}")),
        }
    }

    /// The mark of this name.
    pub(super) fn special_token(&self, name: &str) -> Option<u32> {
        let index = self.names.iter().position(|it| it == name)?;
        u32::try_from(index).ok()
    }

    /// The bytes that a token stands for; none for a mark.
    pub(super) fn bytes(&self, token: u32) -> Option<&[u8]> {
        match self.tokens.get(token as usize)? {
            Token::Bytes(bytes) => Some(bytes),
            Token::Special => None,
        }
    }
}

impl Token {
    fn new(name: &str, kind: usize) -> Self {
        match kind {
            CONTROL | UNUSED => Self::Special,
            USER_DEFINED => Self::Bytes(name.as_bytes().into()),
            _ => Self::Bytes(name.chars().filter_map(byte_of).collect()),
        }
    }
}

/// The byte that a character of a token's name stands for: bytes that print stand for themselves, the others
/// were given the characters from 256 on.
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
    let merges = merges.ok_or_else(|| gguf.error("a merge of the tokenizer is not a pair"))?;
    let bpe = BPE::builder().vocab_and_merges(ids, merges);
    let bpe = bpe.ignore_merges(rules.match_whole_words).build();
    let mut tokenizer = Tokenizer::new(bpe.map_err(|error| gguf.error(error))?);
    if rules.normalize {
        tokenizer.with_normalizer(Some(NFC)).map_err(|error| gguf.error(error))?;
    }
    tokenizer.with_pre_tokenizer(Some(rules.words));
    Ok(tokenizer)
}

/// How a text is cut into words, in which tokens are looked for.
struct PreTokenizerRules {
    normalize: bool,
    words: PreTokenizerWrapper,
    /// Whether a word that is a token is taken as it is.
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
        Ok(match name {
            "qwen2" => Self { normalize: true, words: split(word_pattern(1))?, match_whole_words: false },
            "llama-bpe" => Self { normalize: false, words: split(word_pattern(3))?, match_whole_words: true },
            "smollm" => {
                let words = Sequence::new(vec![Digits::new(true).into(), bytes(true).into()]);
                Self { normalize: false, words: words.into(), match_whole_words: false }
            }
            "gpt-2" => Self { normalize: false, words: bytes(true).into(), match_whole_words: false },
            other => {
                return Err(gguf.error(format_args!(
                    "its tokenizer cuts words by the rules `{other}`; `qwen2`, `llama-bpe`, `smollm` and \
                     `gpt-2` are known here, and llama.cpp's server or ollama know the others"
                )));
            }
        })
    }
}

/// The words of qwen2 and llama 3, which differ in how many digits stay together.
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
    fn every_byte_has_its_character() {
        let mut bytes: Vec<u8> = ('\0'..'\u{144}').filter_map(byte_of).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!("Ġa".chars().filter_map(byte_of).collect::<Vec<u8>>(), b" a");
        assert_eq!("ÃŁ".chars().filter_map(byte_of).collect::<Vec<u8>>(), "ß".as_bytes());
    }
}
