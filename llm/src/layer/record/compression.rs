//! Compressed lines of a recording file.
//!
//! A compressed line is DEFLATE data as Base64 text. The calls of a run resemble each other, so each line is compressed
//! with the lines before it as the dictionary. Every line can still be appended on its own, and the file remains a text
//! file with one line per call. A line that starts with `{` is not compressed.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Maximum size of the dictionary in bytes. DEFLATE refers back to at most 32 KiB.
const DICTIONARY_BYTES: usize = 32 << 10;

/// Maximum size of a decompressed line. Without a limit, a small file could exhaust the memory. Longer lines are stored
/// without compression.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Decodes the lines of a [`Recording`](crate::Recording) file, in order. With this type, a program can read a
/// recording while another process writes it.
#[derive(Debug, Default)]
pub struct RecordingDecoder {
    /// The end of the text before the next line, without line feeds. At least the last [`DICTIONARY_BYTES`] bytes.
    text: Vec<u8>,
}

impl RecordingDecoder {
    /// Returns the JSON of the next line of the file. `line` does not include the line feed. The error describes why
    /// the line cannot be decoded.
    pub fn decode<'a>(&mut self, line: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        let json = if line.first() == Some(&b'{') {
            Cow::Borrowed(line)
        } else {
            Cow::Owned(decompress(self.dictionary(), line, MAX_LINE_BYTES)?)
        };
        self.add(&json);
        Ok(json)
    }

    /// Encodes JSON as the next line of the file. Compresses it, unless compression makes the line longer or the JSON
    /// exceeds [`MAX_LINE_BYTES`].
    pub(super) fn encode(&mut self, json: Vec<u8>) -> Vec<u8> {
        let compressed =
            (json.len() <= MAX_LINE_BYTES).then(|| compress(self.dictionary(), &json)).flatten();
        self.add(&json);
        compressed.filter(|it| it.len() < json.len()).unwrap_or(json)
    }

    /// Adds a line to the dictionary of the next line.
    pub(super) fn add(&mut self, json: &[u8]) {
        self.text.extend_from_slice(&json[json.len().saturating_sub(DICTIONARY_BYTES)..]);
        // Removes old text only occasionally, because each removal moves the dictionary.
        if self.text.len() > 2 * DICTIONARY_BYTES {
            self.text.drain(..self.text.len() - DICTIONARY_BYTES);
        }
    }

    fn dictionary(&self) -> &[u8] {
        &self.text[self.text.len().saturating_sub(DICTIONARY_BYTES)..]
    }
}

/// Compresses a line. Returns `None` if that fails.
fn compress(dictionary: &[u8], json: &[u8]) -> Option<Vec<u8>> {
    let mut deflate = Compress::new(Compression::default(), false);
    deflate.set_dictionary(dictionary).ok()?;
    let mut bytes = Vec::with_capacity(json.len() / 2 + 64);
    loop {
        let rest = &json[usize::try_from(deflate.total_in()).ok()?..];
        match deflate.compress_vec(rest, &mut bytes, FlushCompress::Finish).ok()? {
            Status::StreamEnd => return Some(STANDARD_NO_PAD.encode(bytes).into_bytes()),
            Status::Ok | Status::BufError => bytes.reserve(bytes.capacity()),
        }
    }
}

/// Decompresses a line. Fails if the result has more than `limit` bytes.
fn decompress(dictionary: &[u8], line: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let invalid = |problem: &dyn std::fmt::Display| format!("it cannot be decompressed: {problem}");
    let bytes = STANDARD_NO_PAD.decode(line).map_err(|error| invalid(&error))?;
    let mut inflate = Decompress::new(false);
    inflate.set_dictionary(dictionary).map_err(|error| invalid(&error))?;
    let mut json = Vec::with_capacity((bytes.len() * 4).min(limit) + 1);
    loop {
        let read = usize::try_from(inflate.total_in()).unwrap_or(bytes.len());
        let status = inflate.decompress_vec(&bytes[read..], &mut json, FlushDecompress::Finish);
        let status = status.map_err(|error| invalid(&error))?;
        if json.len() > limit {
            return Err(invalid(&format!("it has more than {limit} bytes")));
        }
        match status {
            Status::StreamEnd => return Ok(json),
            _ if json.len() == json.capacity() => json.reserve(json.len()),
            _ => return Err(invalid(&"its end is missing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> Vec<u8> {
        let text = format!("Answer {n}: the margin fell, and the critic says why. ");
        format!(r#"{{"number":{n},"text":"{}"}}"#, text.repeat(n % 7 + 1)).into_bytes()
    }

    #[test]
    fn compressed_lines_are_shorter_and_decode_to_the_original() {
        let (mut writer, mut reader) = (RecordingDecoder::default(), RecordingDecoder::default());
        let (mut plain, mut stored) = (0, 0);
        for n in 0..2000 {
            let encoded = writer.encode(line(n));
            assert!(!encoded.contains(&b'\n'));
            (plain, stored) = (plain + line(n).len(), stored + encoded.len());
            assert_eq!(reader.decode(&encoded).unwrap(), line(n));
        }
        assert!(stored * 4 < plain, "{stored} of {plain} bytes");
    }

    #[test]
    fn new_writer_uses_the_lines_that_it_has_read_as_the_dictionary() {
        let mut writer = RecordingDecoder::default();
        let first: Vec<Vec<u8>> = (0..3).map(|it| writer.encode(line(it))).collect();
        let mut next_writer = RecordingDecoder::default();
        for line in &first {
            next_writer.decode(line).unwrap();
        }
        assert_eq!(next_writer.encode(line(3)), writer.encode(line(3)));
    }

    #[test]
    fn short_lines_are_stored_without_compression() {
        assert_eq!(RecordingDecoder::default().encode(b"{}".to_vec()), b"{}");
    }

    #[test]
    fn damaged_lines_are_errors() {
        let encoded = RecordingDecoder::default().encode(line(6));
        let decode = |line: &[u8]| RecordingDecoder::default().decode(line).map(Cow::into_owned);
        assert_eq!(decode(&encoded), Ok(line(6)));
        for damaged in [&encoded[..encoded.len() - 8], b"", b"*", b"AAAA"] {
            let problem = decode(damaged).unwrap_err();
            assert!(problem.starts_with("it cannot be decompressed: "), "{problem}");
        }
    }

    #[test]
    fn decompressed_lines_are_limited_in_size() {
        let compressed = compress(b"", &[b'0'; 4001]).unwrap();
        assert_eq!(decompress(b"", &compressed, 4001), Ok(vec![b'0'; 4001]));
        let problem = "it cannot be decompressed: it has more than 4000 bytes";
        assert_eq!(decompress(b"", &compressed, 4000), Err(problem.to_owned()));
    }
}
