//! Checks the shape of a payload, that is, the number, nesting and size of its values, before the payload is decoded.
//!
//! Eight million bytes of MessagePack can encode an array of eight million nulls, each of which decodes to a value of
//! 32 bytes. A few bytes can announce an array of four billion items, or nest a million arrays. Therefore a payload is
//! first scanned, and it is refused if it exceeds the limits. The scan does not recurse, and its memory is proportional
//! only to the nesting depth.

/// Maximum nesting depth of a payload. It is greater than the depth of any state that a graph can store plus the depth
/// of the message that contains the state.
pub(crate) const MAX_DEPTH: usize = 160;

/// Maximum number of values in a payload.
pub(crate) const MAX_VALUES: usize = 2_000_000;

/// Maximum memory, in bytes, that a decoded payload may take.
pub(crate) const MAX_MEMORY: u64 = 256 << 20;

/// Memory, in bytes, that a value takes beyond its payload bytes, for its slot in a list with spare capacity or for the
/// allocation of a string.
const VALUE_OVERHEAD: u64 = 64;

/// Memory, in bytes, that a list or map takes beyond its values. It is large because a map node with one entry has
/// space for eleven.
const CONTAINER_OVERHEAD: u64 = 640;

/// Checks that a payload is exactly one value and is within the limits on depth, number of values and memory. Returns
/// an upper bound on the memory, in bytes, that the decoded value takes.
pub fn check(payload: &[u8]) -> Result<u64, &'static str> {
    let mut rest = payload;
    let mut memory = payload.len() as u64;
    let mut values = 0usize;
    // Number of values still expected in each open array or map.
    let mut open: Vec<u64> = Vec::new();
    loop {
        let (contents, after) = read_value(rest)?;
        rest = after;
        values += 1;
        if values > MAX_VALUES {
            return Err("too many values");
        }
        memory += if contents > 0 { VALUE_OVERHEAD + CONTAINER_OVERHEAD } else { VALUE_OVERHEAD };
        if memory > MAX_MEMORY {
            return Err("exceeds the memory limit for messages");
        }
        if contents > 0 {
            if open.len() >= MAX_DEPTH {
                return Err("nested too deeply");
            }
            open.push(contents);
            continue;
        }
        // This value is complete. An enclosing array or map is complete too if this was its last value.
        while let Some(left) = open.last_mut() {
            *left = left.saturating_sub(1);
            if *left > 0 {
                break;
            }
            open.pop();
        }
        if open.is_empty() {
            return if rest.is_empty() { Ok(memory) } else { Err("trailing bytes") };
        }
    }
}

/// Reads one scalar value, or the header of an array or map. Returns the number of values that it contains (0 for a
/// scalar) and the remaining bytes.
fn read_value(bytes: &[u8]) -> Result<(u64, &[u8]), &'static str> {
    let (&marker, rest) = bytes.split_first().ok_or(TRUNCATED)?;
    let (contents, rest) = match marker {
        // Small integers, nil, booleans.
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (0, rest),
        0x80..=0x8f => (2 * u64::from(marker & 0x0f), rest),
        0x90..=0x9f => (u64::from(marker & 0x0f), rest),
        0xa0..=0xbf => (0, skip(rest, u64::from(marker & 0x1f))?),
        // Strings and byte arrays with a length prefix of one, two or four bytes.
        0xc4 | 0xd9 => (0, skip_prefixed(rest, 1)?),
        0xc5 | 0xda => (0, skip_prefixed(rest, 2)?),
        0xc6 | 0xdb => (0, skip_prefixed(rest, 4)?),
        0xcc | 0xd0 => (0, skip(rest, 1)?),
        0xcd | 0xd1 => (0, skip(rest, 2)?),
        0xca | 0xce | 0xd2 => (0, skip(rest, 4)?),
        0xcb | 0xcf | 0xd3 => (0, skip(rest, 8)?),
        0xdc => read_uint(rest, 2)?,
        0xdd => read_uint(rest, 4)?,
        0xde => as_map(read_uint(rest, 2)?),
        0xdf => as_map(read_uint(rest, 4)?),
        // Extension types, and 0xc1, which MessagePack never uses.
        0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err("unsupported MessagePack type"),
    };
    Ok((contents, rest))
}

const TRUNCATED: &str = "truncated";

fn skip(bytes: &[u8], count: u64) -> Result<&[u8], &'static str> {
    let count = usize::try_from(count).map_err(|_| TRUNCATED)?;
    bytes.get(count..).ok_or(TRUNCATED)
}

fn read_uint(bytes: &[u8], width: usize) -> Result<(u64, &[u8]), &'static str> {
    let (digits, rest) = bytes.split_at_checked(width).ok_or(TRUNCATED)?;
    Ok((digits.iter().fold(0, |sum, digit| sum << 8 | u64::from(*digit)), rest))
}

fn skip_prefixed(bytes: &[u8], width: usize) -> Result<&[u8], &'static str> {
    let (length, rest) = read_uint(bytes, width)?;
    skip(rest, length)
}

fn as_map((count, rest): (u64, &[u8])) -> (u64, &[u8]) {
    (2 * count, rest)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MAX_DEPTH, MAX_VALUES, check};

    fn nested(levels: usize) -> Vec<u8> {
        let mut bytes = vec![0x91; levels];
        bytes.push(0xc0);
        bytes
    }

    #[test]
    fn encoder_output_is_accepted() {
        let value = json!({
            "list": [1, -1, 300, -300, 70_000, u64::MAX, i64::MIN, 0.5, true, null],
            "text": "x".repeat(70_000), "short": "é", "empty": {}, "none": [],
            "long": vec![7; 70_000],
        });
        let bytes = rmp_serde::to_vec_named(&value).unwrap();
        // 70,023 values, of which three are non-empty lists or maps.
        assert_eq!(check(&bytes), Ok(bytes.len() as u64 + 70_023 * 64 + 3 * 640));
        assert_eq!(rmp_serde::from_slice::<Value>(&bytes).unwrap(), value);
    }

    #[test]
    fn deep_large_and_truncated_payloads_are_refused() {
        assert!(check(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(check(&nested(MAX_DEPTH + 1)), Err("nested too deeply"));
        let mut many = vec![0xdd];
        many.extend(u32::try_from(MAX_VALUES + 1).unwrap().to_be_bytes());
        many.resize(MAX_VALUES + 10, 0xc0);
        assert_eq!(check(&many), Err("too many values"));
        // A list of one million lists with one number each, at two bytes per inner list.
        let mut lists = [&[0xdd][..], &1_000_000u32.to_be_bytes()].concat();
        lists.extend([0x91, 0].repeat(1_000_000));
        assert_eq!(check(&lists), Err("exceeds the memory limit for messages"));
        for cut in
            [&[][..], &[0x91], &[0xdf, 0xff, 0xff, 0xff, 0xff], &[0xc6, 0xff, 0xff, 0xff, 0xff, 1]]
        {
            assert_eq!(check(cut), Err("truncated"), "{cut:x?}");
        }
        assert_eq!(check(&[0xc0, 0xc0]), Err("trailing bytes"));
    }
}
