//! The shape of a payload, looked at before anything is made of it.
//!
//! Eight million bytes of MessagePack can say "an array of eight million nulls", and each null becomes a value of 32
//! bytes; a few bytes can say "an array of four billion items", or nest a million arrays. So a payload is walked first,
//! without recursion and without allocating more than its depth, and refused if it has too many values.

/// How deep a payload may be: deeper than any state that a graph can store, wrapped in a message.
pub const MAX_DEPTH: usize = 160;

/// How many values a payload may hold.
pub const MAX_VALUES: usize = 2_000_000;

/// How much memory a payload may take once it is read.
pub const MAX_MEMORY: u64 = 256 << 20;

/// The memory that a value takes beside its bytes: its place in a list that has grown, a text's own piece.
const VALUE_OVERHEAD: u64 = 64;

/// The memory that a list or a map takes beside its values: a map with a single entry has room for eleven.
const CONTAINER_OVERHEAD: u64 = 640;

/// Refuses a payload that is not exactly one value, or one that is too deep or has too many values. Says how much memory
/// the value can take.
pub fn check(payload: &[u8]) -> Result<u64, &'static str> {
    let mut rest = payload;
    let mut memory = payload.len() as u64;
    let mut values = 0usize;
    // How many values each open array or map still waits for.
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
            return Err("more memory than a message may take");
        }
        if contents > 0 {
            if open.len() >= MAX_DEPTH {
                return Err("nested too deeply");
            }
            open.push(contents);
            continue;
        }
        // This value is whole, and so is every one around it that it completes.
        while let Some(left) = open.last_mut() {
            *left = left.saturating_sub(1);
            if *left > 0 {
                break;
            }
            open.pop();
        }
        if open.is_empty() {
            return if rest.is_empty() { Ok(memory) } else { Err("bytes after the end") };
        }
    }
}

/// Reads one value's head and, unless it holds others, its body: how many values it holds, and what follows.
fn read_value(bytes: &[u8]) -> Result<(u64, &[u8]), &'static str> {
    let (&marker, rest) = bytes.split_first().ok_or(TRUNCATED)?;
    let (contents, rest) = match marker {
        // Small integers, nil, booleans.
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (0, rest),
        0x80..=0x8f => (2 * u64::from(marker & 0x0f), rest),
        0x90..=0x9f => (u64::from(marker & 0x0f), rest),
        0xa0..=0xbf => (0, skip(rest, u64::from(marker & 0x1f))?),
        // Strings and bytes behind a length of one, two or four bytes.
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
        // Extension types and the marker that is never used.
        0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err("a type that is not used"),
    };
    Ok((contents, rest))
}

const TRUNCATED: &str = "shorter than it says";

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
    fn what_the_encoder_writes_is_accepted() {
        let value = json!({
            "list": [1, -1, 300, -300, 70_000, u64::MAX, i64::MIN, 0.5, true, null],
            "text": "x".repeat(70_000), "short": "é", "empty": {}, "none": [],
            "long": vec![7; 70_000],
        });
        let bytes = rmp_serde::to_vec_named(&value).unwrap();
        // 70,023 values, three of them lists and maps that hold something.
        assert_eq!(check(&bytes), Ok(bytes.len() as u64 + 70_023 * 64 + 3 * 640));
        assert_eq!(rmp_serde::from_slice::<Value>(&bytes).unwrap(), value);
    }

    #[test]
    fn what_is_too_deep_too_many_or_cut_short_is_refused() {
        assert!(check(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(check(&nested(MAX_DEPTH + 1)), Err("nested too deeply"));
        let mut many = vec![0xdd];
        many.extend(u32::try_from(MAX_VALUES + 1).unwrap().to_be_bytes());
        many.resize(MAX_VALUES + 10, 0xc0);
        assert_eq!(check(&many), Err("too many values"));
        // A list of lists of one number each, two bytes for each of them.
        let mut lists = [&[0xdd][..], &1_000_000u32.to_be_bytes()].concat();
        lists.extend([0x91, 0].repeat(1_000_000));
        assert_eq!(check(&lists), Err("more memory than a message may take"));
        for cut in
            [&[][..], &[0x91], &[0xdf, 0xff, 0xff, 0xff, 0xff], &[0xc6, 0xff, 0xff, 0xff, 0xff, 1]]
        {
            assert_eq!(check(cut), Err("shorter than it says"), "{cut:x?}");
        }
        assert_eq!(check(&[0xc0, 0xc0]), Err("bytes after the end"));
    }
}
