//! Guest images. An image consists of a kernel and an initramfs archive with the guest's files.
//!
//! Images are built from Debian packages ([`build`]), which apt downloads and verifies. Back ends whose guests boot
//! their own kernel use these images. The same packages always produce the same bytes. The file `manifest.json` lists
//! every built file with its SHA-256. A file whose hash differs is rejected.

mod build;
pub(crate) mod cpio;
mod images;
mod kernel;
mod lz4;
mod modules;

pub use self::{
    build::{BuildError, build},
    images::{IMAGES_VARIABLE, ImageError, Images},
    kernel::KernelError,
};
