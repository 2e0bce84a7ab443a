//! A directory with guest images, and its manifest.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Image;

pub(super) const MANIFEST: &str = "manifest.json";
const KERNEL: &str = "vmlinux";
/// Name of the file that marks a cargo target directory.
const CARGO_TARGET_TAG: &str = "CACHEDIR.TAG";
/// Version of the manifest. Increased when the layout of the directory changes.
pub(super) const VERSION: u32 = 2;

/// A directory with guest images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    dir: PathBuf,
    pub(super) manifest: Manifest,
}

/// The files that a guest boots from, read and verified.
pub(crate) struct BootFiles {
    /// The kernel, an ELF file.
    pub(crate) kernel: Vec<u8>,
    /// SHA-256 of the kernel.
    pub(crate) kernel_sha256: String,
    /// The initramfs archive, without the agent.
    pub(crate) initramfs: Vec<u8>,
}

/// Description of the files that were built and of the packages that they were built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) version: u32,
    /// SHA-256 of each file, by file name.
    pub(super) files: BTreeMap<String, String>,
    /// SHA-256 of each package that the images were built from, by `name=version`.
    pub(super) packages: BTreeMap<String, String>,
    /// Hash of the code that turned the packages into images.
    #[serde(default)]
    pub(super) recipe: String,
}

/// The error returned when a guest image cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// There is no directory with images.
    #[error(
        "no guest images found; build them with `sandbox-vm image build`, or set {IMAGES_VARIABLE} to their directory"
    )]
    NoImages,
    /// The directory does not contain this image.
    #[error("`{dir}` does not contain the image `{image}`; build it with `sandbox-vm image build`")]
    Missing {
        /// Directory that was searched.
        dir: PathBuf,
        /// Image that is missing.
        image: Image,
    },
    /// A file differs from the one that was built.
    #[error(
        "`{0}` differs from the file that was built; build the images again with `sandbox-vm image build`"
    )]
    HashMismatch(PathBuf),
    /// Another user could have placed files in the directory.
    #[error(
        "`{0}` must belong to root or to this user and must not be writable by anyone else; build the images in \
         another directory with `sandbox-vm image build DIR`"
    )]
    InsecureDirectory(PathBuf),
    /// A file cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// File that cannot be read.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The manifest cannot be read.
    #[error("`{path}` is not a valid manifest of guest images: {problem}")]
    Manifest {
        /// Path of the manifest.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
}

graph_core::readable_debug!(ImageError);

/// Name of the environment variable that specifies the directory with the images.
pub const IMAGES_VARIABLE: &str = "SANDBOX_VM_IMAGES";

impl Images {
    /// Returns the directory where images are looked for and built. This is the value of the environment variable
    /// [`IMAGES_VARIABLE`] if it is set. Otherwise it is the directory `guest-image` in the cargo target directory of
    /// the running program, if that contains a manifest. Otherwise it is `sandbox-vm/images` in the user's data
    /// directory, or `None` if there is no data directory.
    pub fn default_dir() -> Option<PathBuf> {
        if let Some(dir) = env::var_os(IMAGES_VARIABLE) {
            return Some(dir.into());
        }
        let program = env::current_exe().ok();
        let above = program.iter().flat_map(|it| it.ancestors());
        let in_target =
            above.filter(|it| it.join(CARGO_TARGET_TAG).is_file()).map(|it| it.join("guest-image"));
        let data = env::var_os("XDG_DATA_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".local/share")))
            .map(|it| it.join("sandbox-vm/images"));
        in_target.filter(|it| it.join(MANIFEST).is_file()).chain(data).next()
    }

    /// Opens the images in the default directory.
    pub fn open_default() -> Result<Self, ImageError> {
        match Self::default_dir() {
            Some(dir) if dir.join(MANIFEST).is_file() => Self::open(dir),
            _ => Err(ImageError::NoImages),
        }
    }

    /// Opens a directory with images.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ImageError> {
        let dir = dir.into();
        let path = dir.join(MANIFEST);
        check_ownership(&dir)?;
        let text =
            fs::read(&path).map_err(|source| ImageError::Io { path: path.clone(), source })?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
            ImageError::Manifest { path: path.clone(), problem: error.to_string() }
        })?;
        if manifest.version != VERSION {
            let problem = format!(
                "it has version {}, but only version {VERSION} is supported",
                manifest.version
            );
            return Err(ImageError::Manifest { path, problem });
        }
        Ok(Self { dir, manifest })
    }

    /// Reads the files that a guest with this image boots from, and verifies their hashes.
    pub(crate) fn boot_files(&self, image: &Image) -> Result<BootFiles, ImageError> {
        let name = initramfs_file(image).ok_or_else(|| self.missing(image))?;
        let kernel = self.read_verified(KERNEL, image)?;
        let kernel_sha256 = self.manifest.files[KERNEL].clone();
        Ok(BootFiles { kernel, kernel_sha256, initramfs: self.read_verified(name, image)? })
    }

    /// Returns the size of the image's initramfs archive in bytes.
    pub(crate) fn initramfs_size(&self, image: &Image) -> Option<u64> {
        Some(fs::metadata(self.dir.join(initramfs_file(image)?)).ok()?.len())
    }

    fn read_verified(&self, name: &str, image: &Image) -> Result<Vec<u8>, ImageError> {
        let expected = self.manifest.files.get(name).ok_or_else(|| self.missing(image))?;
        let path = self.dir.join(name);
        let content =
            fs::read(&path).map_err(|source| ImageError::Io { path: path.clone(), source })?;
        if sha256(&content) == *expected {
            Ok(content)
        } else {
            Err(ImageError::HashMismatch(path))
        }
    }

    fn missing(&self, image: &Image) -> ImageError {
        ImageError::Missing { dir: self.dir.clone(), image: image.clone() }
    }
}

/// Rejects a directory in which another user could have placed files, because its contents decide what guests run.
fn check_ownership(dir: &Path) -> Result<(), ImageError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(dir);
    let metadata = metadata.map_err(|source| ImageError::Io { path: dir.to_path_buf(), source })?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    match owners.contains(&metadata.uid()) && metadata.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(ImageError::InsecureDirectory(dir.to_path_buf())),
    }
}

/// Returns the name of the image's initramfs file, or `None` for a named image.
fn initramfs_file(image: &Image) -> Option<&'static str> {
    match image {
        Image::Base => Some("base.cpio"),
        Image::Python => Some("python.cpio"),
        Image::Named(_) => None,
    }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
    };

    use super::{ImageError, Images, MANIFEST, VERSION, sha256};
    use crate::Image;

    fn images() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let sums = ["vmlinux", "base.cpio"].map(|name| {
            fs::write(dir.path().join(name), name).unwrap();
            format!(r#""{name}":"{}""#, sha256(name.as_bytes()))
        });
        let list =
            format!(r#"{{"version":{VERSION},"files":{{{}}},"packages":{{}}}}"#, sums.join(","));
        fs::write(dir.path().join(MANIFEST), list).unwrap();
        dir
    }

    #[test]
    fn image_directory_writable_by_others_is_rejected() {
        let dir = images();
        assert!(Images::open(dir.path()).is_ok());
        for mode in [0o777, 0o775, 0o757] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let outcome = Images::open(dir.path());
            assert!(matches!(outcome, Err(ImageError::InsecureDirectory(_))), "{outcome:?}");
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(dir.path(), Some(65_534), None).unwrap();
            assert!(matches!(Images::open(dir.path()), Err(ImageError::InsecureDirectory(_))));
        }
    }

    #[test]
    fn modified_boot_files_are_rejected() {
        let dir = images();
        let images = Images::open(dir.path()).unwrap();
        let files = images.boot_files(&Image::Base).unwrap();
        assert_eq!((files.kernel, files.initramfs), (b"vmlinux".to_vec(), b"base.cpio".to_vec()));
        assert!(matches!(images.boot_files(&Image::Python), Err(ImageError::Missing { .. })));
        fs::write(dir.path().join("vmlinux"), "another").unwrap();
        assert!(matches!(images.boot_files(&Image::Base), Err(ImageError::HashMismatch(_))));
    }
}
