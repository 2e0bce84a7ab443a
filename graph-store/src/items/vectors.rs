//! The stored form of an item's vectors: the dimension, followed by the components of all vectors in little-endian
//! order.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

/// One or more vectors with the same dimension. They are stored as bytes because bytes are smaller and faster to
/// decode than a list of numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Vectors {
    dims: usize,
    numbers: Vec<f32>,
}

impl Vectors {
    /// Returns `None` if there are no vectors, or if the vectors have no components.
    pub(super) fn new(vectors: &[Vec<f32>]) -> Option<Self> {
        let dims = vectors.first()?.len();
        // The index has verified that all vectors have this dimension. An empty vector is not similar to any other
        // vector.
        (dims > 0).then(|| Self { dims, numbers: vectors.concat() })
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.dims)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (dims, bytes) = bytes.split_first_chunk()?;
        let dims = usize::try_from(u32::from_le_bytes(*dims)).ok()?;
        let (numbers, rest) = bytes.as_chunks();
        let whole = rest.is_empty() && dims > 0 && numbers.len().is_multiple_of(dims);
        let numbers = numbers.iter().map(|it| f32::from_le_bytes(*it));
        whole.then(|| Self { dims, numbers: numbers.collect() })
    }
}

impl Serialize for Vectors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dims = u32::try_from(self.dims).map_err(serde::ser::Error::custom)?;
        let mut bytes = Vec::with_capacity(4 + 4 * self.numbers.len());
        bytes.extend(dims.to_le_bytes());
        bytes.extend(self.numbers.iter().flat_map(|it| it.to_le_bytes()));
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Vectors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vectors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of one or more vectors")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vectors, E> {
        Vectors::parse(bytes).ok_or_else(|| E::custom("the length of the vectors is wrong"))
    }
}

#[cfg(test)]
mod tests {
    use super::Vectors;
    use crate::codec::Codec;

    #[test]
    fn vectors_round_trip_bit_by_bit() {
        let vectors = [vec![0.1, -0.0, f32::MAX], vec![f32::MIN_POSITIVE, 1.0, 1e-40]];
        let stored = Vectors::new(&vectors).unwrap();
        let codec = Codec::new(1_000);
        let bytes = codec.encode(String::new, &stored).unwrap();
        let read: Vectors = codec.decode(String::new, &bytes).unwrap();
        let bits = |it: &[f32]| it.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        assert_eq!(read.each().map(bits).collect::<Vec<_>>(), vectors.map(|it| bits(&it)));
    }

    #[test]
    fn empty_vectors_and_truncated_bytes_are_rejected() {
        assert_eq!(Vectors::new(&[]), None);
        assert_eq!(Vectors::new(&[vec![]]), None);
        for bytes in [&[][..], &[1, 0, 0], &[0; 8], &[2, 0, 0, 0, 1, 2, 3, 4], &[1, 0, 0, 0, 1]] {
            assert_eq!(Vectors::parse(bytes), None, "{bytes:?}");
        }
    }
}
