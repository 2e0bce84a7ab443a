//! Computes SHA-256 hashes in base64, which a content security policy uses to identify scripts and styles.
//!
//! This implementation only hashes a few kilobytes of public data, namely the page's own script and style.

/// Returns the SHA-256 hash of `bytes` in base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(44);
    for chunk in sha256(bytes).chunks(3) {
        let three =
            [chunk[0], chunk.get(1).copied().unwrap_or(0), chunk.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..=chunk.len() {
            out.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
        }
        out.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    out
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let (starts, rounds) = constants();
    let mut hash: [u32; 8] = starts;
    let mut message = bytes.to_vec();
    message.push(0x80);
    message.resize(message.len().next_multiple_of(64), 0);
    if bytes.len() % 64 >= 56 {
        message.resize(message.len() + 64, 0);
    }
    let n_bits = 8 * bytes.len() as u64;
    let end = message.len() - 8;
    message[end..].copy_from_slice(&n_bits.to_be_bytes());
    for block in message.chunks_exact(64) {
        compress(&mut hash, block, &rounds);
    }
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(hash) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn compress(hash: &mut [u32; 8], block: &[u8], rounds: &[u32; 64]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for at in 16..64 {
        let (a, b) = (words[at - 15], words[at - 2]);
        let low = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let high = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        words[at] = words[at - 16].wrapping_add(low).wrapping_add(words[at - 7]).wrapping_add(high);
    }
    let mut v = *hash;
    for (round, word) in rounds.iter().zip(words) {
        let [a, b, c, d, e, f, g, h] = v;
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first =
            h.wrapping_add(sum).wrapping_add(choice).wrapping_add(*round).wrapping_add(word);
        let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second = sum.wrapping_add(majority);
        v = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
    }
    for (sum, value) in hash.iter_mut().zip(v) {
        *sum = sum.wrapping_add(value);
    }
}

/// Computes the constants of the algorithm: the first 32 bits of the fractional parts of the square roots of the
/// first 8 primes, and of the cube roots of the first 64 primes.
fn constants() -> ([u32; 8], [u32; 64]) {
    let mut primes = (2_u128..).filter(|it| (2..*it).all(|by| it % by != 0));
    let mut starts = [0; 8];
    let mut rounds = [0; 64];
    for (at, round) in rounds.iter_mut().enumerate() {
        let prime = primes.next().expect("there is always another prime");
        // The `k`th root of `prime << 32k` is the `k`th root of `prime`, shifted left by 32 bits. Its low 32 bits are
        // the fractional part.
        *round = (root(prime << 96, 3) & u128::from(u32::MAX)) as u32;
        if let Some(start) = starts.get_mut(at) {
            *start = (root(prime << 64, 2) & u128::from(u32::MAX)) as u32;
        }
    }
    (starts, rounds)
}

/// Returns the root of `of` with the degree `power`, rounded down.
fn root(of: u128, power: u32) -> u128 {
    let (mut low, mut high) = (0, 1 << 40);
    while high - low > 1 {
        let middle: u128 = (low + high) / 2;
        if middle.pow(power) <= of { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn hashes_are_those_of_the_standard() {
        let long = "a".repeat(1000);
        let cases = [
            ("", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
            ("abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=",
            ),
            (&*long, "Qe3s5C1j6Nm/UVqbppMuHCDLyfWl0TRkWttdsblzfqM="),
        ];
        for (text, hash) in cases {
            assert_eq!(base64(text.as_bytes()), hash, "{text}");
        }
    }
}
