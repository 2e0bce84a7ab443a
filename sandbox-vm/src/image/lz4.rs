//! Decompresses LZ4 data in the legacy frame format that Debian's kernels use. No other code in this workspace needs
//! LZ4, and decoding one trusted file does not justify a dependency.

const MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
/// Maximum decompressed size of a block.
const MAX_BLOCK: usize = 8 << 20;

/// Decompresses to at most `size` bytes.
pub(crate) fn decompress(compressed: &[u8], size: usize) -> Result<Vec<u8>, &'static str> {
    let mut rest = compressed.strip_prefix(&MAGIC).ok_or("it is not lz4")?;
    let mut out = Vec::with_capacity(size.min(1 << 30));
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let block = after.get(..length).ok_or("a block is truncated")?;
        let limit = size.min(out.len() + MAX_BLOCK);
        decompress_block(block, &mut out, limit)?;
        rest = &after[length..];
    }
    Ok(out)
}

/// Decompresses a block, which is a sequence of literals and copies of earlier output.
fn decompress_block(block: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), &'static str> {
    let start = out.len();
    let mut input = Input { rest: block };
    loop {
        let token = input.byte()?;
        let literals = input.length(token >> 4)?;
        out.extend_from_slice(input.take(literals)?);
        if out.len() > limit {
            return Err("it decompresses to more than the stated size");
        }
        if input.rest.is_empty() {
            return Ok(());
        }
        let offset = usize::from(u16::from_le_bytes([input.byte()?, input.byte()?]));
        let length = input.length(token & 15)? + 4;
        if offset == 0 || offset > out.len() - start || out.len() + length > limit {
            return Err("a copy refers to data outside its block");
        }
        // The copy may overlap with its own output, so it proceeds byte by byte.
        for at in out.len() - offset..out.len() - offset + length {
            out.push(out[at]);
        }
    }
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("a block is truncated")?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a length: four bits of the token; 15 means that bytes to add follow, up to and including the first below
    /// 255.
    fn length(&mut self, nibble: u8) -> Result<usize, &'static str> {
        let mut length = usize::from(nibble);
        if nibble == 15 {
            loop {
                let more = self.byte()?;
                length += usize::from(more);
                if more != 255 {
                    break;
                }
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(block: &[u8]) -> Vec<u8> {
        let length = (block.len() as u32).to_le_bytes();
        [&MAGIC[..], &length, block].concat()
    }

    #[test]
    fn overlapping_copies_and_long_lengths_are_decoded() {
        // "ab", then 4 + 15 + 3 bytes copied from two bytes back, then the last literal.
        let block = b"\x2fab\x02\x00\x03\x10!";
        assert_eq!(decompress(&compressed(block), 100).unwrap(), b"abababababababababababab!");
    }

    #[test]
    fn corrupt_data_is_an_error() {
        for block in
            [&b"\x50hel"[..], b"\x1fa\x09\x00", b"\x1fa\x02\x00\x00\x10!", b"\xf0\xff", b""]
        {
            assert!(decompress(&compressed(block), 100).is_err(), "{block:?}");
        }
        assert!(
            decompress(&compressed(b"\x2fab\x02\x00\x03\x10!"), 10).is_err(),
            "more than the stated size"
        );
    }
}
