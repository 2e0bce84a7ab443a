//! Packages as programs see them: unpacked once, in a folder that sandboxes are shown to read only.

use std::{
    env, fs,
    io::{self, Cursor},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use zip::{ZipArchive, result::ZipError};

use super::{WheelError, Wheels, hex};

/// Sees that all packages of a list are unpacked, and gives the folder that holds them and nothing else.
///
/// The folder is named after the list's names and hashes. So whoever is shown it sees what is on the list, and a
/// package is unpacked once on a machine, by whichever process comes first.
pub(super) fn lay_out(wheels: &Wheels, cache: &Path) -> Result<PathBuf, WheelError> {
    let shelf = cache.join(name(wheels));
    let with = |path: &Path| {
        let path = path.to_owned();
        |source| WheelError::File { path, source }
    };
    fs::create_dir_all(&shelf).and_then(|()| open_to_all(&shelf)).map_err(with(&shelf))?;
    // One at a time: whatever lies in a place of work is then left from a process that died.
    let lock = shelf.join(".lock");
    let held = fs::File::create(&lock).and_then(|it| it.lock().map(|()| it));
    let _held = held.map_err(with(&lock))?;
    for package in wheels.by_name.keys() {
        let (place, work) = (shelf.join(package), shelf.join(format!(".{package}")));
        if place.is_dir() {
            continue;
        }
        let wheel = wheels.read(package)?;
        let _ = fs::remove_dir_all(&work);
        unpack(&wheel.bytes, &work)
            .map_err(|problem| WheelError::Unpack { path: wheel.path, problem })?;
        open_all_to_all(&work).map_err(with(&work))?;
        fs::rename(&work, &place).map_err(with(&place))?;
    }
    Ok(shelf)
}

/// Where packages are unpacked unless it is said: in the user's cache, or in the system's for root. Programs of root's
/// sandboxes are nobody, who cannot look into root's own folders.
pub(super) fn usual_cache() -> PathBuf {
    let is_root = fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0);
    let own = env::var_os("XDG_CACHE_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = || Some(Path::new(&env::var_os("HOME")?).join(".cache"));
    let cache = match own {
        Some(own) => own,
        None if is_root => PathBuf::from("/var/cache"),
        None => home().unwrap_or_else(env::temp_dir),
    };
    cache.join("agent-sandbox/packages")
}

fn name(wheels: &Wheels) -> String {
    let mut digest = Sha256::new();
    for (package, wheel) in &wheels.by_name {
        digest.update(format!("{package} {}\n", wheel.sha256.to_ascii_lowercase()));
    }
    hex(&digest.finalize()[..16])
}

fn unpack(bytes: &[u8], into: &Path) -> Result<(), ZipError> {
    fs::create_dir(into)?;
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    for idx in 0..archive.len() {
        let mut entry = archive.by_index(idx)?;
        // Links are of no use here, and folders come with their files. A name that leads out is none.
        let is_file = !entry.is_dir() && !entry.is_symlink();
        let Some(path) = entry.enclosed_name().filter(|_| is_file).and_then(|it| installed(&it))
        else {
            continue;
        };
        let at = into.join(path);
        fs::create_dir_all(at.parent().unwrap_or(into))?;
        io::copy(&mut entry, &mut fs::File::create(at)?)?;
    }
    Ok(())
}

/// Where a file of a wheel is looked for. Some lie in a folder `NAME.data`, by what they are; scripts and headers are of
/// no use here.
fn installed(path: &Path) -> Option<PathBuf> {
    let mut parts = path.iter();
    if parts.next()?.to_str().is_none_or(|it| !it.ends_with(".data")) {
        return Some(path.to_owned());
    }
    let is_library = parts.next().is_some_and(|it| it == "purelib" || it == "platlib");
    is_library.then(|| parts.as_path().to_owned())
}

/// Lets every user read all that is in a folder, whatever this process's own habit is.
fn open_all_to_all(folder: &Path) -> io::Result<()> {
    open_to_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_all_to_all(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

fn open_to_all(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::installed;

    #[test]
    fn files_of_a_wheel_have_their_places() {
        for (path, place) in [
            ("numpy/core/x.so", Some("numpy/core/x.so")),
            ("x-1.data/purelib/x/y.py", Some("x/y.py")),
            ("x-1.data/platlib/z.so", Some("z.so")),
            ("x-1.data/scripts/x", None),
            ("x-1.data", None),
        ] {
            assert_eq!(installed(Path::new(path)), place.map(PathBuf::from), "{path}");
        }
    }
}
