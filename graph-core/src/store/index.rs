//! Semantic index, which finds items by the similarity of embedded texts.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    shared::{IntoShared, impl_into_shared},
    store::{
        error::StoreError,
        path::FieldPath,
        put::{Index, Put},
    },
};

/// Converts texts into vectors, so that texts with similar meanings get similar vectors.
///
/// Wrap failures, such as a network error, with [`StoreError::embed`].
#[async_trait]
pub trait Embed: Send + Sync {
    /// Returns one vector per text, in the same order.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError>;
}

impl_into_shared!(Embed);

/// Configures which texts a store indexes and which embedder it uses.
///
/// ```
/// use graph_core::store::{Embed, IndexConfig, InMemoryStore, Search, Store, StoreError};
/// use serde_json::json;
///
/// /// Embeds a text as its number of vowels and of other letters.
/// struct Letters;
///
/// #[async_trait::async_trait]
/// impl Embed for Letters {
///     async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
///         let vector = |text: &String| {
///             let vowels = text.chars().filter(|it| "aeiou".contains(*it)).count();
///             vec![vowels as f32, (text.len() - vowels) as f32]
///         };
///         Ok(texts.iter().map(vector).collect())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), StoreError> {
/// let index = IndexConfig::new(Letters, 2).fields(&["text"])?;
/// let store = InMemoryStore::new().with_index(index);
/// store.put(&["words"], "1", json!({"text": "rhythm"})).await?;
/// store.put(&["words"], "2", json!({"text": "aerie"})).await?;
///
/// let hits = store.search(Search::under(&["words"])?.query("queue").limit(1)).await?;
/// assert_eq!(hits[0].value["text"], "aerie");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct IndexConfig {
    embedder: Arc<dyn Embed>,
    dims: usize,
    fields: Vec<FieldPath>,
}

impl IndexConfig {
    /// Creates an index of whole values. `dims` is the number of dimensions of the embedder's vectors.
    pub fn new<M>(embedder: impl IntoShared<dyn Embed, M>, dims: usize) -> Self {
        Self { embedder: embedder.into_shared(), dims, fields: vec![FieldPath::whole()] }
    }

    /// Indexes these fields instead of whole values. See [`FieldPath`] for the syntax.
    pub fn fields(mut self, paths: &[&str]) -> Result<Self, StoreError> {
        self.fields = FieldPath::parse_all(paths)?;
        Ok(self)
    }

    /// Returns the texts to index for a put.
    pub fn texts(&self, put: &Put) -> Vec<String> {
        let fields = match &put.index {
            Index::Default => &self.fields,
            Index::Skip => return Vec::new(),
            Index::Fields(fields) => fields,
        };
        let value = Value::Object(put.value.clone());
        fields.iter().flat_map(|it| it.texts(&value)).collect()
    }

    /// Embeds texts and returns one validated vector of unit length per text, ready for [`similarity`].
    ///
    /// Does not call the embedder if `texts` is empty.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let mut vectors = self.embedder.embed(texts).await?;
        if vectors.len() != texts.len() {
            return Err(StoreError::VectorCount { texts: texts.len(), vectors: vectors.len() });
        }
        for (text, vector) in texts.iter().zip(&mut vectors) {
            self.check(text, vector)?;
            normalise(vector);
        }
        Ok(vectors)
    }

    fn check(&self, text: &str, vector: &[f32]) -> Result<(), StoreError> {
        let text = text.to_owned();
        if vector.len() != self.dims {
            return Err(StoreError::DimensionMismatch {
                text,
                expected: self.dims,
                found: vector.len(),
            });
        }
        match vector.iter().position(|it| !it.is_finite()) {
            Some(position) => {
                Err(StoreError::NotFinite { text, position, component: vector[position] })
            }
            None => Ok(()),
        }
    }
}

impl fmt::Debug for IndexConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexConfig")
            .field("dims", &self.dims)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// Returns the cosine similarity of two vectors of unit length, from -1 to 1.
///
/// The similarity to the zero vector is 0.
pub fn similarity(left: &[f32], right: &[f32]) -> f32 {
    // `Iterator::sum` starts at -0.0, which `total_cmp` sorts below 0.0, so equal scores might no longer tie.
    left.iter().zip(right).fold(0.0, |sum, (l, r)| sum + l * r).clamp(-1.0, 1.0)
}

fn normalise(vector: &mut [f32]) {
    // The square of a large `f32` overflows `f32`, but not `f64`.
    let length = vector.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|it| *it = (f64::from(*it) / length) as f32);
    }
}
