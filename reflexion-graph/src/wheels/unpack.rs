//! Unpacks packages into a directory that sandboxes mount read-only.

use std::{
    env, fs,
    io::{self, Cursor},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use app_support::files::FileError;
use sha2::{Digest, Sha256};
use zip::{ZipArchive, result::ZipError};

use super::{WheelError, Wheels};

impl Wheels {
    /// Unpacks the packages that are not unpacked yet, after checking their hashes. Returns the directory that contains
    /// exactly one subdirectory for each package.
    ///
    /// The directory name is derived from the listed names and hashes. A sandbox therefore sees exactly the listed
    /// packages, and each list of packages is unpacked only once, by the first process that needs it.
    pub(crate) fn unpack_all(&self, cache: Option<&Path>) -> Result<PathBuf, WheelError> {
        let dir = cache.unwrap_or(&default_cache_dir()).join(dir_name(self));
        fs::create_dir_all(&dir).and_then(|()| make_readable(&dir)).map_err(FileError::at(&dir))?;
        // While this process holds the lock, no other process unpacks packages into this directory. Any existing work
        // directory was therefore left behind by a process that died.
        let lock = dir.join(".lock");
        let held = fs::File::create(&lock).and_then(|it| it.lock().map(|()| it));
        let _held = held.map_err(FileError::at(&lock))?;
        for package in self.by_name.keys() {
            let (target, work) = (dir.join(package), dir.join(format!(".{package}")));
            if target.is_dir() {
                continue;
            }
            let wheel = self.read(package)?;
            let _ = fs::remove_dir_all(&work);
            unpack(&wheel.bytes, &work)
                .map_err(|problem| WheelError::Unpack { path: wheel.path, problem })?;
            make_tree_readable(&work).map_err(FileError::at(&work))?;
            fs::rename(&work, &target).map_err(FileError::at(&target))?;
        }
        Ok(dir)
    }
}

/// Returns the default directory for unpacked packages: in the user's cache directory, or in `/var/cache` for the root
/// user. Programs in the root user's sandboxes run as `nobody` and cannot read the root user's home directory.
fn default_cache_dir() -> PathBuf {
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

fn dir_name(wheels: &Wheels) -> String {
    let mut digest = Sha256::new();
    for (package, wheel) in &wheels.by_name {
        digest.update(format!("{package} {}\n", wheel.sha256.to_ascii_lowercase()));
    }
    hex::encode(&digest.finalize()[..16])
}

fn unpack(bytes: &[u8], into: &Path) -> Result<(), ZipError> {
    fs::create_dir(into)?;
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    for idx in 0..archive.len() {
        let mut entry = archive.by_index(idx)?;
        // Skip directories (they are created together with their files), symbolic links (they are not needed), files
        // that are not installed, and paths that lead outside the target directory.
        let is_file = !entry.is_dir() && !entry.is_symlink();
        let Some(path) =
            entry.enclosed_name().filter(|_| is_file).and_then(|it| installed_path(&it))
        else {
            continue;
        };
        let at = into.join(path);
        fs::create_dir_all(at.parent().unwrap_or(into))?;
        io::copy(&mut entry, &mut fs::File::create(at)?)?;
    }
    Ok(())
}

/// Returns the path at which a file in a wheel is installed. In a `NAME.data` directory, only the libraries are
/// installed; for scripts, headers and other files, returns `None`.
fn installed_path(path: &Path) -> Option<PathBuf> {
    let mut parts = path.iter();
    if parts.next()?.to_str().is_none_or(|it| !it.ends_with(".data")) {
        return Some(path.to_owned());
    }
    let is_library = parts.next().is_some_and(|it| it == "purelib" || it == "platlib");
    is_library.then(|| parts.as_path().to_owned())
}

/// Makes a directory tree readable by all users, regardless of the umask.
fn make_tree_readable(dir: &Path) -> io::Result<()> {
    make_readable(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_tree_readable(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

fn make_readable(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::installed_path;

    #[test]
    fn wheel_files_map_to_installed_paths() {
        for (path, place) in [
            ("numpy/core/x.so", Some("numpy/core/x.so")),
            ("x-1.data/purelib/x/y.py", Some("x/y.py")),
            ("x-1.data/platlib/z.so", Some("z.so")),
            ("x-1.data/scripts/x", None),
            ("x-1.data", None),
        ] {
            assert_eq!(installed_path(Path::new(path)), place.map(PathBuf::from), "{path}");
        }
    }
}
