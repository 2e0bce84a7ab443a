//! Embeddings: vectors whose similarity reflects the similarity of texts.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{Backoff, Error, ModelId, Usage};

/// A model that converts texts to vectors.
///
/// ```
/// use async_trait::async_trait;
/// use llm::{Embedder, EmbeddingModel, Embeddings, Error, ModelId};
///
/// /// Counts the letters `a` and `e`.
/// #[derive(Debug)]
/// struct Vowels;
///
/// #[async_trait]
/// impl EmbeddingModel for Vowels {
///     fn id(&self) -> ModelId {
///         ModelId::new("local", "vowels")
///     }
///
///     async fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
///         let count = |text: &str, letter| text.matches(letter).count() as f32;
///         let vectors = texts.iter().map(|it| vec![count(it, 'a'), count(it, 'e')]).collect();
///         Ok(Embeddings { vectors, usage: None })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert_eq!(Embedder::new(Vowels).embed(["tea"]).await?.vectors, [[1.0, 1.0]]);
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait EmbeddingModel: Send + Sync + fmt::Debug {
    /// Returns the names of the provider and the model.
    fn id(&self) -> ModelId;

    /// Returns one vector per text, in the same order.
    async fn embed(&self, texts: &[String]) -> Result<Embeddings, Error>;
}

/// Vectors of texts.
///
/// ```
/// use llm::{Embedder, Embeddings, ScriptedEmbeddings};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let embedder = Embedder::new(ScriptedEmbeddings::new(|text| vec![text.len() as f32]));
/// let Embeddings { vectors, usage } = embedder.embed(["tea", "coffee"]).await?;
/// assert_eq!(vectors, [[3.0], [6.0]]);
/// assert_eq!(usage, None); // A scripted model uses no tokens.
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// One vector per text, in the order of the texts.
    pub vectors: Vec<Vec<f32>>,
    /// Token counts, if the provider reports them.
    pub usage: Option<Usage>,
}

/// A shared handle to an embedding model. Cheap to clone.
///
/// With the feature `graph`, it is an embedder for the semantic search of a store.
///
/// ```
/// use llm::{Embedder, ScriptedEmbeddings};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // For a real provider: `Provider::new("openai")?.build_embedder()?`, with the API key in OPENAI_API_KEY.
/// let embedder = Embedder::new(ScriptedEmbeddings::words(64));
/// let vectors = embedder.embed(["the old river", "a river so old", "tax law"]).await?.vectors;
/// let similarity = |a: usize, b: usize| -> f32 { vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum() };
/// assert!(similarity(0, 1) > similarity(0, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embedder {
    model: Arc<dyn EmbeddingModel>,
}

impl Embedder {
    /// Wraps an embedding model.
    pub fn new(model: impl EmbeddingModel + 'static) -> Self {
        Self { model: Arc::new(model) }
    }

    /// Returns the names of the provider and the model.
    pub fn id(&self) -> ModelId {
        self.model.id()
    }

    /// Returns one vector per text, in the same order.
    pub async fn embed<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Embeddings, Error> {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        self.model.embed(&texts).await
    }

    /// Retries failed calls if they are [retryable](Error::is_retryable).
    pub fn retry(self, backoff: Backoff) -> Self {
        Self::new(Retried { inner: self, backoff })
    }
}

#[derive(Debug)]
struct Retried {
    inner: Embedder,
    backoff: Backoff,
}

#[async_trait]
impl EmbeddingModel for Retried {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
        let mut attempts = 1;
        loop {
            let error = match self.inner.model.embed(texts).await {
                Ok(embeddings) => return Ok(embeddings),
                Err(error) => error,
            };
            self.backoff.wait_after(attempts, error).await?;
            attempts += 1;
        }
    }
}

#[cfg(feature = "graph")]
#[async_trait]
impl graph_core::store::Embed for Embedder {
    async fn embed(
        &self,
        texts: &[String],
    ) -> Result<Vec<Vec<f32>>, graph_core::store::StoreError> {
        let embeddings = self.model.embed(texts).await;
        Ok(embeddings.map_err(graph_core::store::StoreError::embed)?.vectors)
    }
}

/// An embedding model whose vectors come from a function, for tests and runs without an API key.
///
/// ```
/// use llm::{Embedder, ScriptedEmbeddings};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // A vector of one number: the length of the text.
/// let embedder = Embedder::new(ScriptedEmbeddings::new(|text| vec![text.len() as f32]));
/// assert_eq!(embedder.embed(["tea", "coffee"]).await?.vectors, [[3.0], [6.0]]);
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ScriptedEmbeddings {
    vector: Box<dyn Fn(&str) -> Vec<f32> + Send + Sync>,
}

impl ScriptedEmbeddings {
    /// Creates a model with this function.
    pub fn new(vector: impl Fn(&str) -> Vec<f32> + Send + Sync + 'static) -> Self {
        Self { vector: Box::new(vector) }
    }

    /// Creates a model that counts words: the more words two texts share, the more similar are their vectors.
    ///
    /// Case is ignored. Vectors have `dims` dimensions and unit length; the vector of a text without words is zero.
    pub fn words(dims: usize) -> Self {
        Self::new(move |text| word_vector(text, dims))
    }
}

fn word_vector(text: &str, dims: usize) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dims];
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
    for word in words.take_while(|_| dims > 0) {
        vector[(hash(&word.to_lowercase()) % dims as u64) as usize] += 1.0;
    }
    let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|it| *it /= length);
    }
    vector
}

/// Returns the FNV-1a hash of a text, which is the same on every machine.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[async_trait]
impl EmbeddingModel for ScriptedEmbeddings {
    fn id(&self) -> ModelId {
        ModelId::new(crate::Scripted::PROVIDER, "embeddings")
    }

    async fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
        let vectors = texts.iter().map(|text| (self.vector)(text)).collect();
        Ok(Embeddings { vectors, usage: None })
    }
}

impl fmt::Debug for ScriptedEmbeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedEmbeddings")
    }
}
