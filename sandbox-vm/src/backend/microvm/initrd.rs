//! The initrd of a guest. It consists of the guest's image, followed by an archive that adds the agent as the first
//! program.

use std::{fs, path::Path};

use sha2::{Digest, Sha256};

use crate::{Error, backend::names::MICRO_VM as NAME, image::cpio::Archive};

/// Size of a page of memory in bytes.
const PAGE: usize = 4096;

/// The agent's archive, which is appended to the image.
pub(super) struct AgentArchive {
    /// Archive with the agent and a link that makes the agent the first program.
    pub(super) archive: Vec<u8>,
    /// Hash of the image together with the agent.
    pub(super) hash: String,
}

/// Reads the agent and packs it into an archive that makes it the first program of the guest.
pub(super) fn agent_archive(image: &[u8], agent: &Path) -> Result<AgentArchive, Error> {
    let failed = Error::io(format!("cannot read the guest's program `{}`", agent.display()));
    let program = fs::read(agent).map_err(failed)?;
    if is_dynamically_linked(&program) {
        let problem = format!(
            "`{}` is not statically linked, and the guest has no libraries; build it with \
             RUSTFLAGS='-C target-feature=+crt-static' and --target x86_64-unknown-linux-gnu",
            agent.display()
        );
        return Err(Error::Start { backend: NAME, problem });
    }
    let mut hash = Sha256::new();
    hash.update(image);
    hash.update(&program);
    let hash = hex::encode(&hash.finalize()[..16]);
    let mut archive = Archive::default();
    archive.file("agent", true, &program);
    archive.link("init", "agent");
    let mut archive = archive.finish();
    // The kernel skips the padding. Without it, the first program panicked at its start if the last page of the initrd
    // was 512 bytes short (observed with QEMU 10.0 and Linux 6.1, with two agents of different sizes).
    let initrd_len = (image.len() + archive.len()).next_multiple_of(PAGE);
    archive.resize(initrd_len - image.len(), 0);
    Ok(AgentArchive { archive, hash })
}

/// Returns whether an ELF file specifies an interpreter, which would load shared libraries.
fn is_dynamically_linked(program: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = program.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let headers = || -> Option<Vec<usize>> {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        (0..count).map(|it| number(start.checked_add(it * size)?, 4)).collect()
    };
    headers().is_none_or(|it| it.contains(&(INTERPRETER as usize)))
}
