//! Extracts the kernel from a compressed kernel image.
//!
//! A VM without firmware boots the plain ELF file. Under emulation this also saves the seconds that the image would
//! need to decompress itself.

use super::lz4;

/// Why the kernel could not be extracted from an image.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The file is not a kernel image.
    #[error("not a Linux kernel image (bzImage)")]
    NotAnImage,
    /// The kernel is compressed with an unsupported method.
    #[error(
        "it is compressed with {0}, but only lz4 is supported; use a Debian 12 cloud kernel or an ELF kernel"
    )]
    UnsupportedCompression(&'static str),
    /// The compressed kernel is corrupt.
    #[error("the compressed kernel is corrupt: {0}")]
    Corrupt(&'static str),
}

graph_core::readable_debug!(KernelError);

/// Locates the kernel in a compressed image by the header of the boot protocol, and decompresses it.
pub(crate) fn extract_kernel(image: &[u8]) -> Result<Vec<u8>, KernelError> {
    if image.starts_with(b"\x7fELF") {
        return Ok(image.to_vec());
    }
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Err(KernelError::NotAnImage);
    }
    let setup_sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (setup_sectors + 1) * 512 + read_u32(image, 0x248)?;
    let end = start + read_u32(image, 0x24c)?;
    let compressed = image.get(start..end).ok_or(KernelError::Corrupt("it is truncated"))?;
    // The last four bytes are the decompressed size.
    let (compressed, size) =
        compressed.split_last_chunk::<4>().ok_or(KernelError::Corrupt("it is empty"))?;
    let size = u32::from_le_bytes(*size) as usize;
    let kernel = match compressed {
        [0x02, 0x21, 0x4c, 0x18, ..] => {
            lz4::decompress(compressed, size).map_err(KernelError::Corrupt)?
        }
        [0x1f, 0x8b, ..] => return Err(KernelError::UnsupportedCompression("gzip")),
        [0xfd, b'7', b'z', ..] => return Err(KernelError::UnsupportedCompression("xz")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return Err(KernelError::UnsupportedCompression("zstd")),
        _ => return Err(KernelError::UnsupportedCompression("an unknown method")),
    };
    if kernel.len() != size {
        return Err(KernelError::Corrupt("its size differs from the stated one"));
    }
    Ok(kernel)
}

fn read_u32(image: &[u8], at: usize) -> Result<usize, KernelError> {
    let bytes = image.get(at..).and_then(<[u8]>::first_chunk::<4>);
    bytes.map(|it| u32::from_le_bytes(*it) as usize).ok_or(KernelError::NotAnImage)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an image with `payload` as its compressed part and `size` as its stated decompressed size.
    fn image(payload: &[u8], size: u32) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&0_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32 + 4).to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(&size.to_le_bytes());
        image
    }

    /// One block of five literals: "hello".
    const HELLO: &[u8] = b"\x02\x21\x4c\x18\x06\0\0\0\x50hello";

    #[test]
    fn compressed_kernel_is_extracted() {
        assert_eq!(extract_kernel(&image(HELLO, 5)).unwrap(), b"hello");
        assert_eq!(extract_kernel(b"\x7fELF plain").unwrap(), b"\x7fELF plain");
    }

    #[test]
    fn invalid_images_are_rejected() {
        assert_eq!(extract_kernel(b"MZ").unwrap_err(), KernelError::NotAnImage);
        assert_eq!(
            extract_kernel(&image(b"\x28\xb5\x2f\xfd", 1)).unwrap_err(),
            KernelError::UnsupportedCompression("zstd")
        );
        let size = KernelError::Corrupt("its size differs from the stated one");
        assert_eq!(extract_kernel(&image(HELLO, 6)).unwrap_err(), size);
        let mut cut = image(HELLO, 5);
        cut.truncate(cut.len() - 6);
        assert_eq!(extract_kernel(&cut).unwrap_err(), KernelError::Corrupt("it is truncated"));
    }
}
