//! How facts lie in the guest's memory, as the C headers of Linux on this processor lay them down.

use std::time::Duration;

use nix::libc;

use crate::backend::kvm_process::disk::{Entry, Facts, Kind, Size};

/// The only user.
const USER: u32 = 65_534;

const BLOCK: u64 = 4096;

/// Seconds and nanoseconds.
pub(super) fn time(time: Duration) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&time.as_secs().to_le_bytes());
    bytes[8..].copy_from_slice(&u64::from(time.subsec_nanos()).to_le_bytes());
    bytes
}

/// `struct rusage`, with nothing known but the time.
pub(super) fn usage(used: Duration) -> Vec<u8> {
    let mut fields = Fields::new(144);
    fields.put(0, &used.as_secs().to_le_bytes());
    fields.put(8, &u64::from(used.subsec_micros()).to_le_bytes());
    fields.0
}

/// `struct utsname`.
pub(super) fn names(names: [&str; 6]) -> Vec<u8> {
    const LEN: usize = 65;
    let mut fields = Fields::new(LEN * names.len());
    for (index, name) in names.iter().enumerate() {
        fields.put(index * LEN, name.as_bytes());
    }
    fields.0
}

/// `struct stat`.
pub(super) fn stat(facts: &Facts) -> Vec<u8> {
    let mut fields = Fields::new(144);
    fields.put(0, &1_u64.to_le_bytes());
    fields.put(8, &facts.node.to_le_bytes());
    fields.put(16, &1_u64.to_le_bytes());
    fields.put(24, &mode(facts).to_le_bytes());
    fields.put(28, &USER.to_le_bytes());
    fields.put(32, &USER.to_le_bytes());
    fields.put(48, &facts.size.to_le_bytes());
    fields.put(56, &BLOCK.to_le_bytes());
    fields.put(64, &facts.size.div_ceil(512).to_le_bytes());
    for at in [72, 88, 104] {
        fields.put(at, &time(facts.changed));
    }
    fields.0
}

/// `struct statx`, with what `struct stat` has.
pub(super) fn statx(facts: &Facts) -> Vec<u8> {
    const BASIC: u32 = 0x7ff;
    let mut fields = Fields::new(256);
    fields.put(0, &BASIC.to_le_bytes());
    fields.put(4, &(BLOCK as u32).to_le_bytes());
    fields.put(16, &1_u32.to_le_bytes());
    fields.put(20, &USER.to_le_bytes());
    fields.put(24, &USER.to_le_bytes());
    fields.put(28, &(mode(facts) as u16).to_le_bytes());
    fields.put(32, &facts.node.to_le_bytes());
    fields.put(40, &facts.size.to_le_bytes());
    fields.put(48, &facts.size.div_ceil(512).to_le_bytes());
    for at in [64, 96, 112] {
        fields.put(at, &facts.changed.as_secs().to_le_bytes());
        fields.put(at + 8, &facts.changed.subsec_nanos().to_le_bytes());
    }
    fields.put(140, &1_u32.to_le_bytes());
    fields.0
}

/// `struct statfs`.
pub(super) fn statfs(all: Size, free: Size) -> Vec<u8> {
    const TMPFS: u64 = 0x0102_1994;
    let blocks = |it: Size| it.bytes / BLOCK;
    let mut fields = Fields::new(120);
    for (index, number) in
        [TMPFS, BLOCK, blocks(all), blocks(free), blocks(free), all.files, free.files]
            .iter()
            .enumerate()
    {
        fields.put(index * 8, &number.to_le_bytes());
    }
    fields.put(64, &255_u64.to_le_bytes());
    fields.put(72, &BLOCK.to_le_bytes());
    fields.0
}

/// `struct linux_dirent64`.
pub(super) fn entry(entry: &Entry) -> Vec<u8> {
    const NAME: usize = 19;
    let len = (NAME + entry.name.len() + 1).next_multiple_of(8);
    let mut fields = Fields::new(len);
    fields.put(0, &entry.node.to_le_bytes());
    fields.put(8, &entry.number.to_le_bytes());
    fields.put(16, &(len as u16).to_le_bytes());
    let kind = match entry.kind {
        Kind::File => libc::DT_REG,
        Kind::Folder => libc::DT_DIR,
        Kind::Link => libc::DT_LNK,
    };
    fields.put(18, &[kind]);
    fields.put(NAME, &entry.name);
    fields.0
}

fn mode(facts: &Facts) -> u32 {
    let kind = match facts.kind {
        Kind::File => libc::S_IFREG,
        Kind::Folder => libc::S_IFDIR,
        Kind::Link => libc::S_IFLNK,
    };
    kind | facts.mode
}

/// A structure, zero at first.
struct Fields(Vec<u8>);

impl Fields {
    fn new(len: usize) -> Self {
        Self(vec![0; len])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
