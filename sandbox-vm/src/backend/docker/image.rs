//! Imports the image that contains only the agent into an engine, as a `tar` archive. The archive has eight entries
//! with short names, so its headers are written here and not by a crate.

use std::{fs, future::poll_fn, io, path::Path, pin::pin};

use bollard::{Docker as Engine, query_parameters::CreateImageOptionsBuilder};
use futures_core::Stream;
use sha2::{Digest, Sha256};

use super::engine::start_error;
use crate::{Error, backend::names::DOCKER as NAME, spec::WORKSPACE};

const REPOSITORY: &str = "sandbox-vm-agent";

/// Block size of a `tar` archive in bytes. Each entry is padded to a multiple of it.
const BLOCK: usize = 512;

/// Imports the image unless the engine already has it, and returns its name, which is derived from its content.
pub(super) async fn import_if_missing(engine: &Engine, agent: &Path) -> Result<String, Error> {
    let unreadable = |error: io::Error| Error::Start {
        backend: NAME,
        problem: format!("cannot read the agent `{}`: {error}", agent.display()),
    };
    let archive = archive(&fs::read(agent).map_err(unreadable)?);
    let tag = hex::encode(&Sha256::digest(&archive)[..16]);
    let name = format!("{REPOSITORY}:{tag}");
    if engine.inspect_image(&name).await.is_ok() {
        return Ok(name);
    }
    let options = CreateImageOptionsBuilder::default().from_src("-").repo(REPOSITORY).tag(&tag);
    let body = bollard::body_full(archive.into());
    let mut steps = pin!(engine.create_image(Some(options.build()), Some(body), None));
    while let Some(step) = poll_fn(|cx| steps.as_mut().poll_next(cx)).await {
        step.map_err(start_error)?;
    }
    Ok(name)
}

fn archive(agent: &[u8]) -> Vec<u8> {
    let mut archive = Vec::with_capacity(agent.len() + 16 * BLOCK);
    for dir in ["dev", "etc", "proc", "sys", "tmp", WORKSPACE.trim_start_matches('/')] {
        archive.extend(header(dir, 0o755, 0, b'5'));
    }
    let users = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/workspace:/bin/sh\n";
    for (name, mode, bytes) in [("etc/passwd", 0o644, &users[..]), ("agent", 0o755, agent)] {
        archive.extend(header(name, mode, bytes.len(), b'0'));
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    // Two empty blocks mark the end.
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// Returns the header block of an entry in the POSIX `ustar` format. Owner and time are zero, so the same agent
/// produces the same archive.
fn header(name: &str, mode: u32, size: usize, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, b"00000000000");
    // The checksum is computed with spaces in its own field.
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar");
    put(263, b"00");
    let sum: u32 = block.iter().map(|it| u32::from(*it)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    #[test]
    fn tar_can_unpack_the_archive() {
        let dir = tempfile::tempdir().unwrap();
        let mut tar = Command::new("tar")
            .args(["-xf", "-", "-C"])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&super::archive(&[7; 1000])).unwrap();
        assert!(tar.wait().unwrap().success());
        assert_eq!(std::fs::read(dir.path().join("agent")).unwrap(), [7; 1000]);
        assert!(dir.path().join("workspace").is_dir());
        assert!(std::fs::read_to_string(dir.path().join("etc/passwd")).unwrap().contains("65534"));
    }
}
