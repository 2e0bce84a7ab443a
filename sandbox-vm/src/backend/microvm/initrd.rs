//! The first file system of a guest: its image, and the agent as its first program.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{Error, image::cpio::Archive};

/// Puts the agent behind the image, once for every pair of the two; the file is shared by all guests.
pub(super) fn prepare(root: &Path, agent: &Path, cache: &Path) -> Result<PathBuf, Error> {
    let what = |path: &Path| Error::io(format!("the guest's program {}", path.display()));
    let program = fs::read(agent).map_err(what(agent))?;
    if needs_libraries(&program) {
        let problem = format!(
            "{} is no static program, and a guest has no libraries for it; build it with \
             RUSTFLAGS='-C target-feature=+crt-static' and --target x86_64-unknown-linux-gnu",
            agent.display()
        );
        return Err(Error::Start { backend: super::NAME, problem });
    }
    let image = fs::read(root).map_err(Error::io(root.display().to_string()))?;
    let mut sum = Sha256::new();
    sum.update(&image);
    sum.update(&program);
    let name: String = sum.finalize().iter().take(16).map(|it| format!("{it:02x}")).collect();
    let path = cache.join(format!("{name}.cpio"));
    if !path.exists() {
        let failed = Error::io(format!("the guest's first file system {}", path.display()));
        write(&path, &image, &program).map_err(failed)?;
    }
    Ok(path)
}

/// Written beside and renamed, so that nobody starts a guest from a part of it.
fn write(path: &Path, image: &[u8], program: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut agent = Archive::default();
    agent.file("agent", true, program);
    agent.link("init", "agent");
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(image)?;
    file.write_all(&agent.finish())?;
    file.persist(path)?;
    Ok(())
}

/// Whether an ELF file names an interpreter, which would load libraries for it.
fn needs_libraries(program: &[u8]) -> bool {
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
