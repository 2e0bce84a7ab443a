//! Guest images: a kernel, and the files of the guest's first file system.
//!
//! An image is built from Debian's packages ([`build`]), which apt fetches and checks, and is used by the back ends
//! that start a kernel of their own. The same packages always give the same bytes. What was built is listed with
//! its SHA-256 in `manifest.json`; a file that differs from its entry is refused.

use std::{
    collections::BTreeMap,
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Image;

pub use self::{
    build::{BuildError, build},
    kernel::KernelError,
};

mod build;
pub(crate) mod cpio;
mod kernel;
mod lz4;

/// The modules that the agent loads at its start, in this order: the way to the host in a VM.
pub(crate) const MODULES: [&str; 5] =
    ["virtio", "virtio_ring", "virtio_mmio", "virtio_console", "virtio-rng"];

const MANIFEST: &str = "manifest.json";
const KERNEL: &str = "vmlinux";
/// The file by which a folder is known that cargo builds in.
const CARGO_TARGET_TAG: &str = "CACHEDIR.TAG";
/// Raised when the layout of the folder changes.
const VERSION: u32 = 1;

/// A folder with guest images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    dir: PathBuf,
    manifest: Manifest,
}

/// What starts a guest, as it was read and checked.
#[derive(Clone, PartialEq, Eq)]
pub struct BootFiles {
    /// The kernel, an ELF file.
    pub kernel: Vec<u8>,
    /// The SHA-256 of the kernel.
    pub kernel_sha256: String,
    /// The archive of the first file system, without the agent.
    pub initramfs: Vec<u8>,
}

impl fmt::Debug for BootFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootFiles")
            .field("kernel_sha256", &self.kernel_sha256)
            .finish_non_exhaustive()
    }
}

/// What was built, and from what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    /// The SHA-256 of each file.
    files: BTreeMap<String, String>,
    /// The packages that it was built from: `name=version`, with the SHA-256 of each.
    packages: BTreeMap<String, String>,
    /// Stands for how they were made into images.
    #[serde(default)]
    recipe: String,
}

/// Why there is no image to start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No folder with images.
    #[error(
        "no guest images were found; build them with `sandbox-vm image build` or name their folder in {IMAGES_VARIABLE}"
    )]
    NoImages,
    /// The folder does not hold this image.
    #[error("{dir} holds no image `{image}`; build it with `sandbox-vm image build`")]
    Missing {
        /// The folder.
        dir: PathBuf,
        /// The image.
        image: Image,
    },
    /// A file that is not the one that was built.
    #[error(
        "{0} is not the file that was built; build the images again with `sandbox-vm image build`"
    )]
    HashMismatch(PathBuf),
    /// A folder that somebody else could have put files in.
    #[error(
        "{0} has to belong to root or to this user, and nobody else may write to it; build the images in another \
         dir with `sandbox-vm image build`"
    )]
    InsecureDirectory(PathBuf),
    /// A file that cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A list of files that cannot be read.
    #[error("{path} is not a list of guest images: {problem}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Names the folder with the images.
pub const IMAGES_VARIABLE: &str = "SANDBOX_VM_IMAGES";

impl Images {
    /// The folder where images are looked for and built: what [`IMAGES_VARIABLE`] names, a `guest-image` in the folder
    /// that cargo has built the running program in, or the user's data folder.
    pub fn default_dir() -> Option<PathBuf> {
        if let Some(dir) = env::var_os(IMAGES_VARIABLE) {
            return Some(dir.into());
        }
        let program = env::current_exe().ok();
        let above = program.iter().flat_map(|it| it.ancestors());
        let beside =
            above.filter(|it| it.join(CARGO_TARGET_TAG).is_file()).map(|it| it.join("guest-image"));
        let data = env::var_os("XDG_DATA_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".local/share")))
            .map(|it| it.join("sandbox-vm/images"));
        beside.filter(|it| it.join(MANIFEST).is_file()).chain(data).next()
    }

    /// Opens the images of the usual folder.
    pub fn open_default() -> Result<Self, ImageError> {
        match Self::default_dir() {
            Some(dir) if dir.join(MANIFEST).is_file() => Self::open(dir),
            _ => Err(ImageError::NoImages),
        }
    }

    /// Opens a folder with images.
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
            let problem = format!("it has version {}, and {VERSION} is known", manifest.version);
            return Err(ImageError::Manifest { path, problem });
        }
        Ok(Self { dir, manifest })
    }

    /// What starts a guest of an image, each file checked to be the one that was built.
    pub fn boot_files(&self, image: &Image) -> Result<BootFiles, ImageError> {
        let name = initramfs_file(image).ok_or_else(|| self.missing(image))?;
        let kernel = self.read_verified(KERNEL, image)?;
        let kernel_sha256 = self.manifest.files[KERNEL].clone();
        Ok(BootFiles { kernel, kernel_sha256, initramfs: self.read_verified(name, image)? })
    }

    /// How many bytes the archive of an image's first file system has.
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

/// Refuses a folder that somebody else could have put files in: what is in it decides what guests run.
fn check_ownership(dir: &Path) -> Result<(), ImageError> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(dir);
    let found = found.map_err(|source| ImageError::Io { path: dir.to_path_buf(), source })?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    match owners.contains(&found.uid()) && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(ImageError::InsecureDirectory(dir.to_path_buf())),
    }
}

/// The file of an image's first file system.
fn initramfs_file(image: &Image) -> Option<&'static str> {
    match image {
        Image::Base => Some("base.cpio"),
        Image::Python => Some("python.cpio"),
        Image::Named(_) => None,
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
    };

    use super::{ImageError, Images, MANIFEST, sha256};
    use crate::Image;

    fn images() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let sums = ["vmlinux", "base.cpio"].map(|name| {
            fs::write(dir.path().join(name), name).unwrap();
            format!(r#""{name}":"{}""#, sha256(name.as_bytes()))
        });
        let list = format!(r#"{{"version":1,"files":{{{}}},"packages":{{}}}}"#, sums.join(","));
        fs::write(dir.path().join(MANIFEST), list).unwrap();
        dir
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
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
    fn what_is_started_is_what_was_checked() {
        let dir = images();
        let images = Images::open(dir.path()).unwrap();
        let files = images.boot_files(&Image::Base).unwrap();
        assert_eq!((files.kernel, files.initramfs), (b"vmlinux".to_vec(), b"base.cpio".to_vec()));
        assert!(matches!(images.boot_files(&Image::Python), Err(ImageError::Missing { .. })));
        fs::write(dir.path().join("vmlinux"), "another").unwrap();
        assert!(matches!(images.boot_files(&Image::Base), Err(ImageError::HashMismatch(_))));
    }
}
