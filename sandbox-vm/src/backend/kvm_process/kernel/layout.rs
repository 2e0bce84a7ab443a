//! Encodes structures for guest memory, with the same layout as in the C headers of Linux on x86-64.

use std::time::Duration;

use nix::libc;

use crate::backend::kvm_process::disk::{Capacity, DirEntry, FileKind, Metadata};

/// Id of the only user, `nobody`.
const USER: u32 = 65_534;

const BLOCK: u64 = 4096;

pub(super) fn time(time: Duration) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&time.as_secs().to_le_bytes());
    bytes[8..].copy_from_slice(&u64::from(time.subsec_nanos()).to_le_bytes());
    bytes
}

/// Encodes a `struct rusage` in which only the user time is set.
pub(super) fn rusage(used: Duration) -> Vec<u8> {
    let mut buffer = StructBuffer::new(144);
    buffer.put(0, &used.as_secs().to_le_bytes());
    buffer.put(8, &u64::from(used.subsec_micros()).to_le_bytes());
    buffer.0
}

pub(super) fn utsname(names: [&str; 6]) -> Vec<u8> {
    const LEN: usize = 65;
    let mut buffer = StructBuffer::new(LEN * names.len());
    for (index, name) in names.iter().enumerate() {
        buffer.put(index * LEN, name.as_bytes());
    }
    buffer.0
}

pub(super) fn stat(metadata: &Metadata) -> Vec<u8> {
    let mut buffer = StructBuffer::new(144);
    buffer.put(0, &1_u64.to_le_bytes());
    buffer.put(8, &metadata.node.to_le_bytes());
    buffer.put(16, &1_u64.to_le_bytes());
    buffer.put(24, &mode(metadata).to_le_bytes());
    buffer.put(28, &USER.to_le_bytes());
    buffer.put(32, &USER.to_le_bytes());
    buffer.put(48, &metadata.size.to_le_bytes());
    buffer.put(56, &BLOCK.to_le_bytes());
    buffer.put(64, &metadata.size.div_ceil(512).to_le_bytes());
    for at in [72, 88, 104] {
        buffer.put(at, &time(metadata.changed));
    }
    buffer.0
}

/// Encodes a `struct statx`. Only the fields that `struct stat` also has are set.
pub(super) fn statx(metadata: &Metadata) -> Vec<u8> {
    const BASIC: u32 = 0x7ff;
    let mut buffer = StructBuffer::new(256);
    buffer.put(0, &BASIC.to_le_bytes());
    buffer.put(4, &(BLOCK as u32).to_le_bytes());
    buffer.put(16, &1_u32.to_le_bytes());
    buffer.put(20, &USER.to_le_bytes());
    buffer.put(24, &USER.to_le_bytes());
    buffer.put(28, &(mode(metadata) as u16).to_le_bytes());
    buffer.put(32, &metadata.node.to_le_bytes());
    buffer.put(40, &metadata.size.to_le_bytes());
    buffer.put(48, &metadata.size.div_ceil(512).to_le_bytes());
    for at in [64, 96, 112] {
        buffer.put(at, &metadata.changed.as_secs().to_le_bytes());
        buffer.put(at + 8, &metadata.changed.subsec_nanos().to_le_bytes());
    }
    buffer.put(140, &1_u32.to_le_bytes());
    buffer.0
}

pub(super) fn statfs(all: Capacity, free: Capacity) -> Vec<u8> {
    const TMPFS: u64 = 0x0102_1994;
    let blocks = |it: Capacity| it.bytes / BLOCK;
    let mut buffer = StructBuffer::new(120);
    for (index, number) in
        [TMPFS, BLOCK, blocks(all), blocks(free), blocks(free), all.files, free.files]
            .iter()
            .enumerate()
    {
        buffer.put(index * 8, &number.to_le_bytes());
    }
    buffer.put(64, &255_u64.to_le_bytes());
    buffer.put(72, &BLOCK.to_le_bytes());
    buffer.0
}

/// Encodes a `struct linux_dirent64`.
pub(super) fn dirent(entry: &DirEntry) -> Vec<u8> {
    const NAME: usize = 19;
    let len = (NAME + entry.name.len() + 1).next_multiple_of(8);
    let mut buffer = StructBuffer::new(len);
    buffer.put(0, &entry.node.to_le_bytes());
    buffer.put(8, &entry.number.to_le_bytes());
    buffer.put(16, &(len as u16).to_le_bytes());
    let kind = match entry.kind {
        FileKind::File => libc::DT_REG,
        FileKind::Directory => libc::DT_DIR,
        FileKind::Link => libc::DT_LNK,
    };
    buffer.put(18, &[kind]);
    buffer.put(NAME, &entry.name);
    buffer.0
}

fn mode(metadata: &Metadata) -> u32 {
    let kind = match metadata.kind {
        FileKind::File => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Link => libc::S_IFLNK,
    };
    kind | metadata.mode
}

/// Buffer for a structure. All bytes are initially zero.
struct StructBuffer(Vec<u8>);

impl StructBuffer {
    fn new(len: usize) -> Self {
        Self(vec![0; len])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
