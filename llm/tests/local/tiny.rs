//! Generates a tiny model: a GGUF file in the same format as those of large models, but with random weights. Its
//! answers are meaningless.

use std::{fs::File, path::PathBuf};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{Value, write},
    },
};
use llm::LocalModel;
use tempfile::TempDir;

const WIDTH: usize = 64;
const KEY_WIDTH: usize = 32;
const INNER: usize = 96;
const LAYERS: usize = 2;

/// A GGUF file under construction.
pub(crate) struct Tiny {
    metadata: Vec<(String, Value)>,
    tensors: Vec<(String, QTensor)>,
    chance: u64,
}

impl Tiny {
    pub(crate) fn new(architecture: &str) -> Self {
        let mut tiny = Self { metadata: vec![], tensors: vec![], chance: 1 };
        let string = |text: &str| Value::String(text.into());
        let mut set = |key: &str, value| tiny.metadata.push((key.into(), value));
        set("general.architecture", string(architecture));
        for (key, number) in [
            ("block_count", LAYERS),
            ("embedding_length", WIDTH),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 2),
            ("context_length", 1 << 30),
        ] {
            set(&format!("{architecture}.{key}"), Value::U32(number as u32));
        }
        set(&format!("{architecture}.attention.layer_norm_rms_epsilon"), Value::F32(1e-5));
        let (tokens, kinds) = vocabulary();
        let list = |items: &[String]| Value::Array(items.iter().map(|it| string(it)).collect());
        set("tokenizer.ggml.model", string("gpt2"));
        set("tokenizer.ggml.pre", string("gpt-2"));
        set("tokenizer.ggml.tokens", list(&tokens));
        set("tokenizer.ggml.token_type", Value::Array(kinds.into_iter().map(Value::I32).collect()));
        set("tokenizer.ggml.merges", list(&["e n".to_owned()]));
        set(
            "tokenizer.chat_template",
            string("{{ '<|im_start|>' + role + content + '<|im_end|>' }}"),
        );
        tiny.weights(architecture, tokens.len());
        tiny
    }

    /// Sets a metadata value, replacing the default.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.metadata.retain(|(it, _)| it != key);
        self.metadata.push((key.into(), value));
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        self.metadata.retain(|(it, _)| it != key);
        self.tensors.retain(|(it, _)| it != key);
        self
    }

    /// Writes the file to a new temporary directory.
    pub(crate) fn write(&self) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.gguf");
        let metadata: Vec<_> = self.metadata.iter().map(|(key, it)| (key.as_str(), it)).collect();
        let tensors: Vec<_> = self.tensors.iter().map(|(name, it)| (name.as_str(), it)).collect();
        write(&mut File::create(&path).unwrap(), &metadata, &tensors).unwrap();
        (folder, path)
    }

    pub(crate) fn open(&self) -> LocalModel {
        let (_folder, path) = self.write();
        LocalModel::open(path).unwrap()
    }

    fn weights(&mut self, architecture: &str, tokens: usize) {
        self.matrix("token_embd.weight", [tokens, WIDTH]);
        self.vector("output_norm.weight", WIDTH, 1.0);
        // In these tests, llama has separate output weights, and qwen2 uses the embedding weights for its output.
        if architecture == "llama" {
            self.matrix("output.weight", [tokens, WIDTH]);
        }
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            self.vector(&name("attn_norm.weight"), WIDTH, 1.0);
            self.matrix(&name("attn_q.weight"), [WIDTH, WIDTH]);
            self.matrix(&name("attn_k.weight"), [KEY_WIDTH, WIDTH]);
            self.matrix(&name("attn_v.weight"), [KEY_WIDTH, WIDTH]);
            self.matrix(&name("attn_output.weight"), [WIDTH, WIDTH]);
            self.vector(&name("ffn_norm.weight"), WIDTH, 1.0);
            self.matrix(&name("ffn_gate.weight"), [INNER, WIDTH]);
            self.matrix(&name("ffn_up.weight"), [INNER, WIDTH]);
            self.matrix(&name("ffn_down.weight"), [WIDTH, INNER]);
            if architecture == "qwen2" {
                self.vector(&name("attn_q.bias"), WIDTH, 0.0);
                self.vector(&name("attn_k.bias"), KEY_WIDTH, 0.0);
                self.vector(&name("attn_v.bias"), KEY_WIDTH, 0.0);
            }
        }
    }

    /// Adds a matrix of random weights, quantized to five bits as in real files. The weights are large enough for
    /// every layer to affect the answer.
    fn matrix(&mut self, name: &str, shape: [usize; 2]) {
        let numbers: Vec<f32> = (0..shape[0] * shape[1]).map(|_| 0.3 * self.next()).collect();
        let tensor = Tensor::from_vec(numbers, shape.as_slice(), &Device::Cpu).unwrap();
        self.tensors.push((name.into(), QTensor::quantize(&tensor, GgmlDType::Q5_0).unwrap()));
    }

    /// Adds a vector of random weights that are centred on `around`.
    fn vector(&mut self, name: &str, length: usize, around: f32) {
        let numbers: Vec<f32> = (0..length).map(|_| around + 0.3 * self.next()).collect();
        let tensor = Tensor::from_vec(numbers, length, &Device::Cpu).unwrap();
        self.tensors.push((name.into(), QTensor::quantize(&tensor, GgmlDType::F32).unwrap()));
    }

    fn next(&mut self) -> f32 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.chance >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Returns a token for each byte, one for a pair of bytes, and the special tokens, each with its type.
fn vocabulary() -> (Vec<String>, Vec<i32>) {
    let prints = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut others = '\u{100}'..;
    let name = |byte: u8| if prints(&byte) { char::from(byte) } else { others.next().unwrap() };
    let mut tokens: Vec<String> = (0..=255).map(name).map(String::from).collect();
    tokens.extend(["en", "<|im_start|>", "<|im_end|>"].map(str::to_owned));
    let kinds = tokens.iter().map(|it| if it.starts_with("<|") { 3 } else { 1 }).collect();
    (tokens, kinds)
}
