//! Compression of stored values with DEFLATE.

use std::io::{Read, Write};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};

/// Returns `prefix` followed by the compressed data.
pub(super) fn compress(prefix: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(prefix.len() + data.len() / 2);
    bytes.extend_from_slice(prefix);
    let mut encoder = DeflateEncoder::new(bytes, Compression::default());
    encoder.write_all(data).expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

/// Decompresses data. Fails if the result has more than `limit` bytes.
pub(super) fn decompress(compressed: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let mut data = Vec::with_capacity(compressed.len().saturating_mul(3).min(limit));
    let mut decoder = DeflateDecoder::new(compressed).take((limit as u64).saturating_add(1));
    decoder
        .read_to_end(&mut data)
        .map_err(|error| format!("it cannot be decompressed: {error}"))?;
    if data.len() > limit {
        return Err(format!("its decompressed size exceeds the limit of {limit} bytes"));
    }
    Ok(data)
}
