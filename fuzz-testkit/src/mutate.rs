//! Mutations of inputs.

use fastrand::Rng;

/// Numbers at which parsers often fail.
const EDGES: [u64; 10] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Maximum number of mutations that are applied to an input at once.
const MAX_MUTATIONS: u32 = 6;

/// Derives new inputs from known ones.
#[derive(Debug)]
pub(crate) struct Mutator {
    rng: Rng,
    words: Vec<Vec<u8>>,
    max_len: usize,
}

impl Mutator {
    pub(crate) fn new(seed: u64, words: Vec<Vec<u8>>, max_len: usize) -> Self {
        Self { rng: Rng::with_seed(seed), words, max_len }
    }

    /// Returns a mutation of one of the inputs. There must be at least one input.
    pub(crate) fn mutate(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = inputs[self.rng.usize(..inputs.len())].clone();
        for _ in 0..self.rng.u32(1..=MAX_MUTATIONS) {
            self.mutate_once(&mut bytes, inputs);
        }
        bytes.truncate(self.max_len);
        bytes
    }

    fn mutate_once(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let (start, end) = self.range(bytes.len());
        match self.rng.u32(..12) {
            0 | 1 if start < bytes.len() => bytes[start] ^= 1 << self.rng.u32(..8),
            2 if start < bytes.len() => bytes[start] = self.rng.u8(..),
            3 if start < bytes.len() => {
                let step = self.rng.i8(-9..=9);
                bytes[start] = bytes[start].wrapping_add_signed(step);
            }
            4 | 5 => drop(bytes.drain(start..end)),
            6 => {
                let copy = bytes[start..end].to_vec();
                let at = self.rng.usize(..=bytes.len());
                bytes.splice(at..at, copy);
            }
            7 => {
                let edge = EDGES[self.rng.usize(..EDGES.len())];
                let edge = if self.rng.bool() { edge.to_be_bytes() } else { edge.to_le_bytes() };
                let width = 1 << self.rng.u32(..=3);
                let value = if self.rng.bool() { &edge[..width] } else { &edge[8 - width..] };
                self.put(bytes, start, value.to_vec());
            }
            8 | 9 if !self.words.is_empty() => {
                let word = self.words[self.rng.usize(..self.words.len())].clone();
                self.put(bytes, start, word);
            }
            10 => {
                let other = &inputs[self.rng.usize(..inputs.len())];
                let (from, to) = self.range(other.len());
                self.put(bytes, start, other[from..to].to_vec());
            }
            _ => {
                let len = self.rng.usize(1..=8);
                let random = (0..len).map(|_| self.rng.u8(..)).collect();
                self.put(bytes, start, random);
            }
        }
    }

    /// Inserts bytes at a position, or overwrites the bytes there.
    fn put(&mut self, bytes: &mut Vec<u8>, at: usize, piece: Vec<u8>) {
        let overwritten = if self.rng.bool() { piece.len() } else { 0 };
        let end = (at + overwritten).min(bytes.len());
        bytes.splice(at..end, piece);
    }

    /// Returns a range in an input of this length. Short ranges are more frequent.
    fn range(&mut self, len: usize) -> (usize, usize) {
        let start = self.rng.usize(..=len);
        let longest = (len - start).min(1 << self.rng.u32(..=12));
        (start, start + self.rng.usize(..=longest))
    }
}
