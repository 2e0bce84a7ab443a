//! Archives in the format that the kernel unpacks as its initramfs.
//!
//! The kernel unpacks concatenated archives as one, so the files of a guest are appended to an image that was built
//! once. The format is written here and not by a crate, because the same files must always produce the same bytes.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const DEVICE: u32 = 0o020_000;

/// An archive under construction, in the "newc" format.
///
/// Times, owners and inode numbers are fixed, so the same files always produce the same bytes.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    files: u32,
}

impl Archive {
    pub(crate) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY | 0o755, (0, 0), &[]);
    }

    pub(crate) fn file(&mut self, path: &str, executable: bool, content: &[u8]) {
        let mode = if executable { 0o755 } else { 0o644 };
        self.entry(path, FILE | mode, (0, 0), content);
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.entry(path, LINK | 0o777, (0, 0), target.as_bytes());
    }

    pub(crate) fn character_device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, DEVICE | 0o600, (major, minor), &[]);
    }

    /// Adds the contents of a directory, in name order.
    pub(crate) fn tree(&mut self, dir: &Path) -> io::Result<()> {
        self.subtree(dir, "")
    }

    fn subtree(&mut self, dir: &Path, prefix: &str) -> io::Result<()> {
        let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let path = match prefix {
                "" => name.to_string_lossy().into_owned(),
                _ => format!("{prefix}/{}", name.to_string_lossy()),
            };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.directory(&path);
                self.subtree(&entry.path(), &path)?;
            } else if kind.is_symlink() {
                self.link(&path, &fs::read_link(entry.path())?.to_string_lossy());
            } else if kind.is_file() {
                let executable = entry.metadata()?.mode() & 0o111 != 0;
                self.file(&path, executable, &fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// Returns the archive's bytes, including the trailer.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.files = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        // An archive appended after this one has to start at a multiple of four, and the kernel reads whole blocks.
        self.pad(512);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.files += 1;
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        // The header fields: inode, mode, owner, group, number of links, time, size, device (major, minor), device that
        // a device file represents (major, minor), size of the name, checksum.
        let fields = [self.files, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad(4);
        self.bytes.extend_from_slice(content);
        self.pad(4);
    }

    fn pad(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn entry_has_hexadecimal_header_name_and_content() {
        let mut archive = Archive::default();
        archive.file("init", true, b"hello");
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081ed", "an executable file");
        assert_eq!(&bytes[54..62], b"00000005", "five bytes");
        assert_eq!(&bytes[110..115], b"init\0");
        assert_eq!(&bytes[116..124], b"hello\0\0\0", "padded to a multiple of four");
        assert_eq!(bytes.len() % 512, 0);
    }

    #[test]
    fn archive_of_a_tree_is_deterministic() {
        let make = || {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("b/c")).unwrap();
            fs::write(dir.path().join("b/c/file"), "x").unwrap();
            fs::write(dir.path().join("a"), "y").unwrap();
            symlink("a", dir.path().join("link")).unwrap();
            let mut archive = Archive::default();
            archive.tree(dir.path()).unwrap();
            archive.finish()
        };
        let bytes = make();
        assert_eq!(bytes, make());
        let text = String::from_utf8_lossy(&bytes);
        let places: Vec<_> = ["a\0", "b\0", "b/c\0", "b/c/file\0", "link\0", "TRAILER"]
            .map(|it| text.find(it).unwrap())
            .into();
        assert!(places.is_sorted());
    }
}
