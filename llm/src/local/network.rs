//! The transformer network, which computes the logits of the next token from the tokens before it.
//!
//! Two architectures are supported, `llama` and `qwen2`. They are the same decoder with two differences: qwen2 adds
//! biases to queries, keys and values, and pairs the dimensions of rotary embeddings differently (see
//! [`RotaryPairing`]).

use std::sync::Arc;

use candle_core::{
    DType, Device, Module, Result, Tensor,
    quantized::{QMatMul, QTensor},
};
use candle_nn::{
    ops::{rms_norm, softmax_last_dim},
    rotary_emb::{rope, rope_i},
};

use super::gguf::{ErrorMessage, Gguf};

/// Weights and hyperparameters of a network.
pub(super) struct Network {
    embedding: Arc<QTensor>,
    layers: Vec<Layer>,
    norm: Tensor,
    output: QMatMul,
    config: NetworkConfig,
}

/// Hyperparameters of a network.
struct NetworkConfig {
    heads: usize,
    /// Number of key and value heads. Each of them is shared by a group of query heads.
    key_heads: usize,
    head_size: usize,
    epsilon: f32,
    pairing: RotaryPairing,
    /// Angle, in radians, by which each pair of dimensions is rotated per position.
    frequencies: Vec<f32>,
    context: usize,
}

/// Which dimensions of a head form pairs for rotary position embeddings.
enum RotaryPairing {
    /// Adjacent dimensions.
    Interleaved,
    /// Dimensions that are half a head apart.
    Halves,
}

struct Layer {
    attention_norm: Tensor,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    forward_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

struct Linear {
    weights: QMatMul,
    bias: Option<Tensor>,
}

/// Keys and values of processed tokens. With the cache, only new tokens have to be processed.
#[derive(Default)]
pub(super) struct KvCache {
    layers: Vec<LayerKvCache>,
    length: usize,
}

/// Keys and values of one layer. The shape of both tensors is heads × capacity × head size, and only the first
/// [`KvCache::length`] positions are in use.
struct LayerKvCache {
    keys: Tensor,
    values: Tensor,
}

/// Initial capacity of a cache, in tokens. The capacity doubles when the cache is full.
const INITIAL_CAPACITY: usize = 256;

impl Network {
    pub(super) fn load(gguf: &mut Gguf) -> std::result::Result<Self, ErrorMessage> {
        let config = NetworkConfig::read(gguf)?;
        let (embedding, output) = if gguf.has_tensor("output.weight") {
            (
                gguf.stored_weights("token_embd.weight")?.into(),
                gguf.weights("output.weight")?.into(),
            )
        } else {
            let both = Arc::new(gguf.weights("token_embd.weight")?);
            (both.clone(), both)
        };
        let output = QMatMul::from_arc(output).map_err(|error| gguf.error(error))?;
        let layers = (0..gguf.number("block_count")?).map(|index| Layer::load(gguf, index));
        let layers = layers.collect::<std::result::Result<_, _>>()?;
        let norm = gguf.plain_weights("output_norm.weight")?;
        Ok(Self { embedding, layers, norm, output, config })
    }

    /// Returns the size of the context window that the model was trained for.
    pub(super) fn context(&self) -> usize {
        self.config.context
    }

    /// Processes tokens that follow those in the cache, and adds them to the cache. Returns the hidden state of the
    /// last token.
    pub(super) fn process(&self, tokens: &[u32], kv_cache: &mut KvCache) -> Result<Tensor> {
        let from = kv_cache.length;
        kv_cache.reserve(self, tokens.len())?;
        let positions = Positions::new(&self.config, from, tokens.len())?;
        let mut x = self.embedding.embedding(&Tensor::new(tokens, &Device::Cpu)?)?;
        for (layer, cache) in self.layers.iter().zip(&kv_cache.layers) {
            x = layer.forward(&x, &self.config, &positions, cache)?;
        }
        kv_cache.length += tokens.len();
        x.narrow(0, tokens.len() - 1, 1)
    }

    /// Returns the logits of the next token, given the hidden state of the last one.
    pub(super) fn predict(&self, last: &Tensor) -> Result<Vec<f32>> {
        let last = rms_norm(last, &self.norm, self.config.epsilon)?;
        self.output.forward(&last)?.squeeze(0)?.to_vec1()
    }
}

impl NetworkConfig {
    fn read(gguf: &mut Gguf) -> std::result::Result<Self, ErrorMessage> {
        let pairing = match gguf.architecture() {
            "llama" => RotaryPairing::Interleaved,
            "qwen2" => RotaryPairing::Halves,
            other => {
                return Err(gguf.error(format_args!(
                    "the architecture `{other}` is not supported (supported: `llama` and `qwen2`); \
                     use llama.cpp's server or Ollama for this model"
                )));
            }
        };
        if gguf.optional_number(&gguf.key("expert_count")).is_some_and(|it| it > 0) {
            return Err(gguf.error("mixtures of experts are not supported"));
        }
        let scaling = gguf.optional_text(&gguf.key("rope.scaling.type")).unwrap_or("none");
        if scaling != "none" {
            return Err(
                gguf.error(format_args!("scaled positions (`{scaling}`) are not supported"))
            );
        }
        let heads = gguf.number("attention.head_count")?;
        let key_heads = gguf.number("attention.head_count_kv").unwrap_or(heads);
        let width = gguf.number("embedding_length")?;
        if heads == 0 || key_heads == 0 || heads % key_heads != 0 || width % (2 * heads) != 0 {
            return Err(gguf.error(format_args!(
                "inconsistent sizes: {heads} query heads, {key_heads} key heads, width {width}"
            )));
        }
        let head_size = width / heads;
        Ok(Self {
            heads,
            key_heads,
            head_size,
            epsilon: gguf.float("attention.layer_norm_rms_epsilon")?,
            pairing,
            frequencies: frequencies(gguf, head_size)?,
            context: gguf.number("context_length")?,
        })
    }
}

fn frequencies(gguf: &mut Gguf, head_size: usize) -> std::result::Result<Vec<f32>, ErrorMessage> {
    let rotated = gguf.number("rope.dimension_count").unwrap_or(head_size);
    if rotated != head_size {
        return Err(gguf.error(format_args!(
            "rotating only {rotated} of {head_size} dimensions of a head is not supported"
        )));
    }
    let base = gguf.float("rope.freq_base").unwrap_or(10_000.0);
    let turn = |index| base.powf(-(index as f32) / head_size as f32);
    let mut frequencies: Vec<f32> = (0..head_size).step_by(2).map(turn).collect();
    // For Llama 3.1 and later, the file contains factors that slow down some rotations.
    if gguf.has_tensor("rope_freqs.weight") {
        let slower = gguf.plain_weights("rope_freqs.weight")?;
        let slower = slower.to_vec1::<f32>().map_err(|error| gguf.error(error))?;
        frequencies.iter_mut().zip(slower).for_each(|(turn, factor)| *turn /= factor);
    }
    Ok(frequencies)
}

impl Layer {
    fn load(gguf: &mut Gguf, index: usize) -> std::result::Result<Self, ErrorMessage> {
        let name = |part: &str| format!("blk.{index}.{part}");
        Ok(Self {
            attention_norm: gguf.plain_weights(&name("attn_norm.weight"))?,
            query: Linear::load(gguf, &name("attn_q"))?,
            key: Linear::load(gguf, &name("attn_k"))?,
            value: Linear::load(gguf, &name("attn_v"))?,
            output: Linear::load(gguf, &name("attn_output"))?,
            forward_norm: gguf.plain_weights(&name("ffn_norm.weight"))?,
            gate: Linear::load(gguf, &name("ffn_gate"))?,
            up: Linear::load(gguf, &name("ffn_up"))?,
            down: Linear::load(gguf, &name("ffn_down"))?,
        })
    }

    /// Applies a layer: attention, then the feed-forward network.
    fn forward(
        &self,
        x: &Tensor,
        config: &NetworkConfig,
        positions: &Positions,
        cache: &LayerKvCache,
    ) -> Result<Tensor> {
        let normed = rms_norm(x, &self.attention_norm, config.epsilon)?;
        let x = (x + self.attend(&normed, config, positions, cache)?)?;
        let normed = rms_norm(&x, &self.forward_norm, config.epsilon)?;
        let gated = (self.gate.forward(&normed)?.silu()? * self.up.forward(&normed)?)?;
        x + self.down.forward(&gated)?
    }

    fn attend(
        &self,
        x: &Tensor,
        config: &NetworkConfig,
        positions: &Positions,
        cache: &LayerKvCache,
    ) -> Result<Tensor> {
        let &NetworkConfig { heads, key_heads, head_size, .. } = config;
        let count = x.dim(0)?;
        let by_head = |x: Tensor, heads| {
            x.reshape((1, count, heads, head_size))?.transpose(1, 2)?.contiguous()
        };
        let queries = positions.rotate(&by_head(self.query.forward(x)?, heads)?)?;
        let keys = positions.rotate(&by_head(self.key.forward(x)?, key_heads)?)?;
        let values = by_head(self.value.forward(x)?, key_heads)?;
        cache.keys.slice_set(&keys.squeeze(0)?, 1, positions.from)?;
        cache.values.slice_set(&values.squeeze(0)?, 1, positions.from)?;
        let keys = cache.keys.narrow(1, 0, positions.from + count)?;
        let values = cache.values.narrow(1, 0, positions.from + count)?;

        // The query heads of a group are adjacent and share their keys, so they can be processed as one head.
        let grouped = (key_heads, heads / key_heads * count, head_size);
        let scale = 1.0 / (head_size as f64).sqrt();
        let scores = (queries.reshape(grouped)?.matmul(&keys.transpose(1, 2)?)? * scale)?;
        let scores = scores.reshape((heads, count, ()))?;
        let scores = softmax_last_dim(&positions.apply_causal_mask(scores)?)?;
        let seen = scores.reshape((key_heads, (), positions.from + count))?.matmul(&values)?;
        let seen = seen.reshape((heads, count, head_size))?.transpose(0, 1)?;
        self.output.forward(&seen.reshape((count, heads * head_size))?)
    }
}

impl Linear {
    /// Loads the weights with this name, and the bias if the file contains one.
    fn load(gguf: &mut Gguf, name: &str) -> std::result::Result<Self, ErrorMessage> {
        let weights = QMatMul::from_qtensor(gguf.weights(&format!("{name}.weight"))?);
        let weights = weights.map_err(|error| gguf.error(error))?;
        let bias = format!("{name}.bias");
        let bias = gguf.has_tensor(&bias).then(|| gguf.plain_weights(&bias)).transpose()?;
        Ok(Self { weights, bias })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.weights.forward(x)?;
        match &self.bias {
            Some(bias) => x.broadcast_add(bias),
            None => Ok(x),
        }
    }
}

/// Positions of the tokens that are being processed, with the data for rotary embeddings and masking.
struct Positions<'a> {
    pairing: &'a RotaryPairing,
    from: usize,
    cosines: Tensor,
    sines: Tensor,
    /// Causal mask, which hides later tokens. `None` for a single token, which has no later tokens.
    mask: Option<Tensor>,
}

impl<'a> Positions<'a> {
    fn new(config: &'a NetworkConfig, from: usize, count: usize) -> Result<Self> {
        let angles = |position| config.frequencies.iter().map(move |turn| position as f32 * turn);
        let angles: Vec<f32> = (from..from + count).flat_map(angles).collect();
        let angles = Tensor::from_vec(angles, (count, config.frequencies.len()), &Device::Cpu)?;
        let mask = (count > 1).then(|| mask(from, count)).transpose()?;
        Ok(Self {
            pairing: &config.pairing,
            from,
            cosines: angles.cos()?,
            sines: angles.sin()?,
            mask,
        })
    }

    fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        match self.pairing {
            RotaryPairing::Interleaved => rope_i(x, &self.cosines, &self.sines),
            RotaryPairing::Halves => rope(x, &self.cosines, &self.sines),
        }
    }

    fn apply_causal_mask(&self, scores: Tensor) -> Result<Tensor> {
        match &self.mask {
            Some(mask) => scores.broadcast_add(mask),
            None => Ok(scores),
        }
    }
}

fn mask(from: usize, count: usize) -> Result<Tensor> {
    let row = |index| {
        let hide = move |other| if other > from + index { f32::NEG_INFINITY } else { 0.0 };
        (0..from + count).map(hide)
    };
    let mask: Vec<f32> = (0..count).flat_map(row).collect();
    Tensor::from_vec(mask, (count, from + count), &Device::Cpu)
}

impl KvCache {
    /// Drops all but the first `length` tokens.
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    fn reserve(&mut self, network: &Network, count: usize) -> Result<()> {
        if self.layers.is_empty() {
            let layer = |_| LayerKvCache::new(&network.config, INITIAL_CAPACITY);
            self.layers = network.layers.iter().map(layer).collect::<Result<_>>()?;
        }
        let needed = self.length + count;
        for layer in &mut self.layers {
            let capacity = layer.keys.dim(1)?;
            if capacity < needed {
                *layer = layer.grow(&network.config, needed.max(2 * capacity), self.length)?;
            }
        }
        Ok(())
    }
}

impl LayerKvCache {
    fn new(config: &NetworkConfig, capacity: usize) -> Result<Self> {
        let shape = (config.key_heads, capacity, config.head_size);
        let zeros = || Tensor::zeros(shape, DType::F32, &Device::Cpu);
        Ok(Self { keys: zeros()?, values: zeros()? })
    }

    fn grow(&self, config: &NetworkConfig, capacity: usize, length: usize) -> Result<Self> {
        let larger = Self::new(config, capacity)?;
        if length == 0 {
            return Ok(larger);
        }
        larger.keys.slice_set(&self.keys.narrow(1, 0, length)?.contiguous()?, 1, 0)?;
        larger.values.slice_set(&self.values.narrow(1, 0, length)?.contiguous()?, 1, 0)?;
        Ok(larger)
    }
}
