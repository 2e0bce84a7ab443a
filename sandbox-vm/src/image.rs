//! Guest images: a kernel, and the files of the guest's first file system.
//!
//! An image is built from Debian's packages ([`build`]), which apt fetches and checks, and is used by the back ends
//! that start a kernel of their own. The same packages always give the same bytes. What was built is listed with
//! its SHA-256 in `manifest.json`; a file that differs from its entry is refused.

use std::{
    collections::BTreeMap,
    env, fs, io,
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
/// Raised when the layout of the folder changes.
const VERSION: u32 = 1;

/// A folder with guest images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    folder: PathBuf,
    manifest: Manifest,
}

/// The files that start a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The kernel, an ELF file.
    pub kernel: PathBuf,
    /// The SHA-256 of the kernel.
    pub kernel_sum: String,
    /// The archive of the first file system, without the agent.
    pub root: PathBuf,
}

/// What was built, and from what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    /// The SHA-256 of each file.
    files: BTreeMap<String, String>,
    /// The packages that it was built from: `name=version`, with the SHA-256 of each.
    packages: BTreeMap<String, String>,
}

/// Why there is no image to start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No folder with images.
    #[error(
        "no guest images were found; build them with `sandbox-vm image build` or name their folder in {IMAGES_VARIABLE}"
    )]
    NoFolder,
    /// The folder does not hold this image.
    #[error("{folder} holds no image `{image}`; build it with `sandbox-vm image build`")]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The image.
        image: Image,
    },
    /// A file that is not the one that was built.
    #[error(
        "{0} is not the file that was built; build the images again with `sandbox-vm image build`"
    )]
    Changed(PathBuf),
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
    /// The folder where images are looked for and built: what [`IMAGES_VARIABLE`] names, a `guest-image` beside one
    /// of the folders that the running program lies in (which is how a checkout has it), or the user's data folder.
    pub fn usual_folder() -> Option<PathBuf> {
        if let Some(folder) = env::var_os(IMAGES_VARIABLE) {
            return Some(folder.into());
        }
        let program = env::current_exe().ok();
        let beside = program.iter().flat_map(|it| it.ancestors()).map(|it| it.join("guest-image"));
        let data = env::var_os("XDG_DATA_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".local/share")))
            .map(|it| it.join("sandbox-vm/images"));
        beside.filter(|it| it.join(MANIFEST).is_file()).chain(data).next()
    }

    /// Opens the images of the usual folder.
    pub fn find() -> Result<Self, ImageError> {
        match Self::usual_folder() {
            Some(folder) if folder.join(MANIFEST).is_file() => Self::open(folder),
            _ => Err(ImageError::NoFolder),
        }
    }

    /// Opens a folder with images.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, ImageError> {
        let folder = folder.into();
        let path = folder.join(MANIFEST);
        let text =
            fs::read(&path).map_err(|source| ImageError::Io { path: path.clone(), source })?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
            ImageError::Manifest { path: path.clone(), problem: error.to_string() }
        })?;
        if manifest.version != VERSION {
            let problem = format!("it has version {}, and {VERSION} is known", manifest.version);
            return Err(ImageError::Manifest { path, problem });
        }
        Ok(Self { folder, manifest })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files of an image, each checked to be the one that was built.
    pub fn parts(&self, image: &Image) -> Result<Parts, ImageError> {
        let root = match image {
            Image::Base => "base.cpio",
            Image::Python => "python.cpio",
            Image::Named(_) => return Err(self.missing(image)),
        };
        let kernel = self.checked(KERNEL, image)?;
        let kernel_sum = self.manifest.files[KERNEL].clone();
        Ok(Parts { kernel, kernel_sum, root: self.checked(root, image)? })
    }

    fn checked(&self, name: &str, image: &Image) -> Result<PathBuf, ImageError> {
        let expected = self.manifest.files.get(name).ok_or_else(|| self.missing(image))?;
        let path = self.folder.join(name);
        let content =
            fs::read(&path).map_err(|source| ImageError::Io { path: path.clone(), source })?;
        if sha256(&content) == *expected { Ok(path) } else { Err(ImageError::Changed(path)) }
    }

    fn missing(&self, image: &Image) -> ImageError {
        ImageError::Missing { folder: self.folder.clone(), image: image.clone() }
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|it| format!("{it:02x}")).collect()
}
