//! The initrd of a guest. It consists of the guest's image, followed by an archive that adds the agent as the first
//! program.
//!
//! The archive can also contain the dynamic loader and the libraries of a dynamically linked agent, such as the output
//! of a plain `cargo build`. They have a separate directory, because the image may contain other versions of them.

use std::{fs, path::Path};

use sha2::{Digest, Sha256};

use crate::{
    Error,
    backend::{loaded_files::LoadedFiles, names::MICRO_VM as NAME},
    image::cpio::Archive,
};

/// Directory of the agent's libraries, without the first slash.
pub(super) const LIBRARY_DIR: &str = "agent-libraries";

/// Size of a page of memory in bytes.
const PAGE: usize = 4096;

/// How an agent may be linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linking {
    /// Statically.
    Static,
    /// Statically, or dynamically with libraries that are added to the guest.
    Any,
}

/// The agent's archive, which is appended to the image.
pub(super) struct AgentArchive {
    /// Archive with the agent and everything that it needs to be the first program.
    pub(super) archive: Vec<u8>,
    /// Name of the dynamic loader in [`LIBRARY_DIR`], or `None` if the agent is statically linked.
    pub(super) loader: Option<String>,
    /// Hash of the image together with the agent and its libraries.
    pub(super) hash: String,
}

/// Reads the agent and packs it into an archive that makes it the first program of the guest.
pub(super) fn agent_archive(
    image: &[u8],
    agent: &Path,
    linking: Linking,
) -> Result<AgentArchive, Error> {
    let program = read("program", agent)?;
    let mut hash = Sha256::new();
    hash.update(image);
    hash.update(&program);
    let mut archive = Archive::default();
    archive.file("agent", true, &program);
    let mut loader = None;
    let is_dynamic = is_dynamically_linked(&program);
    if is_dynamic && linking == Linking::Static {
        let problem = format!(
            "`{}` is not statically linked, and the guest has no libraries; build it with \
             RUSTFLAGS='-C target-feature=+crt-static' and --target x86_64-unknown-linux-gnu, or use \
             `MicroVm::with_libraries`",
            agent.display()
        );
        return Err(Error::Start { backend: NAME, problem });
    }
    if is_dynamic {
        let what =
            format!("cannot find the libraries of the guest's program `{}`", agent.display());
        let files = LoadedFiles::of(agent).map_err(Error::io(what))?;
        let interpreter = files.loader.map(|it| (file_name(&it), it)).ok_or_else(|| {
            let problem = format!(
                "the dynamic loader of `{}` does not list its files; link the program statically",
                agent.display()
            );
            Error::Start { backend: NAME, problem }
        })?;
        archive.directory(LIBRARY_DIR);
        loader = Some(interpreter.0.clone());
        for (name, path) in files.libraries.into_iter().chain([interpreter]) {
            let content = read("library", &path)?;
            hash.update(&content);
            archive.file(&format!("{LIBRARY_DIR}/{name}"), true, &content);
        }
    } else {
        archive.link("init", "agent");
    }
    let hash = hex::encode(&hash.finalize()[..16]);
    let mut archive = archive.finish();
    // The kernel skips the padding. Without it, the first program panicked at its start if the last page of the initrd
    // was 512 bytes short (observed with QEMU 10.0 and Linux 6.1, with two agents of different sizes).
    let initrd_len = (image.len() + archive.len()).next_multiple_of(PAGE);
    archive.resize(initrd_len - image.len(), 0);
    Ok(AgentArchive { archive, loader, hash })
}

/// Returns the size in bytes of the loader and the libraries that [`agent_archive`] adds. It is zero for a statically
/// linked agent.
pub(super) fn library_size(agent: &Path) -> u64 {
    if !fs::read(agent).is_ok_and(|it| is_dynamically_linked(&it)) {
        return 0;
    }
    let paths = LoadedFiles::of(agent).map(LoadedFiles::into_paths);
    paths.into_iter().flatten().filter_map(|it| fs::metadata(it).ok()).map(|it| it.len()).sum()
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let failed = Error::io(format!("cannot read the guest's {what} `{}`", path.display()));
    fs::read(path).map_err(failed)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
