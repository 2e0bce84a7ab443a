//! An embedder that compares texts by their words, so that the store can be searched without a model.

use std::hash::{DefaultHasher, Hash, Hasher};

use async_trait::async_trait;
use graph_core::store::{Embed, StoreError};

/// Number of dimensions of the vectors.
pub(crate) const DIMENSIONS: usize = 64;

/// Embeds a text as the number of its words in each of [`DIMENSIONS`] buckets.
pub(crate) struct Words;

#[async_trait]
impl Embed for Words {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        Ok(texts.iter().map(|it| count_words(it)).collect())
    }
}

fn count_words(text: &str) -> Vec<f32> {
    let mut counts = vec![0.0; DIMENSIONS];
    for word in text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()) {
        let mut hasher = DefaultHasher::new();
        word.to_lowercase().hash(&mut hasher);
        let bucket = usize::try_from(hasher.finish() % 64).unwrap_or_default();
        counts[bucket] += 1.0;
    }
    counts
}
