//! Reads the metadata and the weights in GGUF files.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{Content, Value},
    },
};

/// Message that describes what is wrong with a file and what to do.
pub(super) type ErrorMessage = String;

/// An open GGUF file.
pub(super) struct Gguf {
    path: PathBuf,
    file: BufReader<File>,
    content: Content,
    architecture: String,
}

impl Gguf {
    pub(super) fn open(path: &Path) -> Result<Self, ErrorMessage> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut file = BufReader::new(file);
        let content = Content::read(&mut file)
            .map_err(|error| format!("{} is not a readable GGUF file: {error}", path.display()))?;
        let mut gguf = Self { path: path.into(), file, content, architecture: String::new() };
        gguf.architecture = gguf.text("general.architecture")?.to_owned();
        Ok(gguf)
    }

    /// Returns the architecture of the network, such as `llama`.
    pub(super) fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Creates an error message that starts with the path of the file.
    pub(super) fn error(&self, what: impl std::fmt::Display) -> ErrorMessage {
        format!("{}: {what}", self.path.display())
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, ErrorMessage> {
        match self.content.metadata.get(key) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.error(format_args!("`{key}` is not a string"))),
            None => Err(self.error(format_args!("`{key}` is missing"))),
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<&str>, ErrorMessage> {
        let texts = self.list(key)?.iter().map(|value| match value {
            Value::String(text) => Ok(text.as_str()),
            _ => Err(self.error(format_args!("`{key}` is not a list of strings"))),
        });
        texts.collect()
    }

    pub(super) fn list(&self, key: &str) -> Result<&[Value], ErrorMessage> {
        match self.content.metadata.get(key) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(self.error(format_args!("`{key}` is missing or not a list"))),
        }
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        matches!(self.content.metadata.get(key), Some(Value::Bool(true)))
    }

    /// Returns the integer with this key, or `None` if it is missing or not an integer.
    pub(super) fn optional_number(&self, key: &str) -> Option<usize> {
        self.content.metadata.get(key).and_then(as_usize)
    }

    /// Returns the integer whose key is `key` with the architecture as prefix, such as `llama.context_length`.
    pub(super) fn number(&self, key: &str) -> Result<usize, ErrorMessage> {
        let key = self.key(key);
        let number = self.optional_number(&key);
        number.ok_or_else(|| self.error(format_args!("`{key}` is missing or not an integer")))
    }

    /// Returns the float whose key is `key` with the architecture as prefix.
    pub(super) fn float(&self, key: &str) -> Result<f32, ErrorMessage> {
        match self.content.metadata.get(&self.key(key)) {
            Some(Value::F32(number)) => Ok(*number),
            Some(Value::F64(number)) => Ok(*number as f32),
            _ => Err(self.error(format_args!("`{}` is missing or not a number", self.key(key)))),
        }
    }

    /// Returns a key with the architecture as prefix.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// Returns the string with this key, or `None` if it is missing or not a string.
    pub(super) fn optional_text(&self, key: &str) -> Option<&str> {
        self.text(key).ok()
    }

    pub(super) fn has_tensor(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    /// Returns weights with the quantization that they have in the file.
    pub(super) fn stored_weights(&mut self, name: &str) -> Result<QTensor, ErrorMessage> {
        let weights = self.content.tensor(&mut self.file, name, &Device::Cpu);
        weights.map_err(|error| self.error(format_args!("weights `{name}`: {error}")))
    }

    /// Returns weights in a quantization that is fast to compute with. Quantizations for which candle has no fast
    /// code are converted to eight bits. In measurements with two models, this made prompt processing about six times
    /// faster. The conversion costs memory and changes a weight by at most 0.4 % of the largest weight in its block.
    pub(super) fn weights(&mut self, name: &str) -> Result<QTensor, ErrorMessage> {
        let weights = self.stored_weights(name)?;
        match weights.dtype() {
            GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1 => {
                let plain = weights.dequantize(&Device::Cpu);
                let rewritten = plain.and_then(|it| QTensor::quantize(&it, GgmlDType::Q8_0));
                rewritten.map_err(|error| self.error(format_args!("weights `{name}`: {error}")))
            }
            _ => Ok(weights),
        }
    }

    /// Returns weights as floats, for small tensors.
    pub(super) fn plain_weights(&mut self, name: &str) -> Result<Tensor, ErrorMessage> {
        let weights = self.stored_weights(name)?.dequantize(&Device::Cpu);
        weights.map_err(|error| self.error(format_args!("weights `{name}`: {error}")))
    }
}

/// Converts an integer of any width. Returns `None` if the value is negative or not an integer.
pub(super) fn as_usize(value: &Value) -> Option<usize> {
    match *value {
        Value::U8(it) => Some(it.into()),
        Value::U16(it) => Some(it.into()),
        Value::U32(it) => it.try_into().ok(),
        Value::U64(it) => it.try_into().ok(),
        Value::I8(it) => it.try_into().ok(),
        Value::I16(it) => it.try_into().ok(),
        Value::I32(it) => it.try_into().ok(),
        Value::I64(it) => it.try_into().ok(),
        _ => None,
    }
}
