//! The files of a guest's program: the program itself and, if it is dynamically linked, its dynamic loader and its
//! shared libraries.
//!
//! The monitor runs the same program as its guest. The host's dynamic loader has therefore already found every library
//! that the guest will need, and this module only asks it for the result. It parses no library and no loader
//! configuration. The files are opened before the monitor enters its jail, and no other host file is opened for the
//! guest.
#![expect(
    unsafe_code,
    reason = "the list of loaded libraries is available only through a C callback"
)]

use std::{
    ffi::{CStr, OsStr, c_int, c_void},
    fs::File,
    io,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
    rc::Rc,
};

use nix::libc;

use super::elf::{self, LoadError};

/// Directory in which the guest's dynamic loader finds the libraries. The directory exists only as a prefix of their
/// paths: it is not on the guest's disk.
const LIBRARY_DIR: &str = "/lib";

/// Number of the first library, in place of an inode number. It is larger than all node numbers of the guest's disk.
const FIRST_NODE: u64 = 1 << 48;

/// The open files of a program.
#[derive(Debug)]
pub(super) struct Executable {
    pub(super) program: File,
    /// The dynamic loader, or `None` if the program is statically linked.
    pub(super) interpreter: Option<File>,
    pub(super) libraries: Vec<Rc<Library>>,
}

/// A shared library. The guest can open it for reading and can map it privately.
#[derive(Debug)]
pub(super) struct Library {
    /// Path in the guest.
    pub(super) path: Vec<u8>,
    pub(super) file: File,
    pub(super) len: u64,
    /// Unique number, by which a dynamic loader recognizes a library that it has already loaded.
    pub(super) node: u64,
}

impl Executable {
    /// Opens the files of the program that this process runs.
    pub(super) fn of_this_process() -> Result<Self, LoadError> {
        let program = File::open("/proc/self/exe")?;
        let Some(interpreter) = elf::interpreter(&program)? else {
            return Ok(Self { program, interpreter: None, libraries: Vec::new() });
        };
        let interpreter = Path::new(OsStr::from_bytes(&interpreter));
        let libraries =
            loaded_libraries().into_iter().filter(|it| it != interpreter).zip(FIRST_NODE..);
        Ok(Self {
            interpreter: Some(open(interpreter)?),
            libraries: libraries
                .map(|(path, node)| Library::open(&path, node))
                .collect::<Result<_, _>>()?,
            program,
        })
    }

    /// Returns the environment in which the program has to be started. It is empty, except that it tells a dynamic
    /// loader where the libraries are.
    pub(super) fn environment(&self) -> Vec<String> {
        let needs_libraries = self.interpreter.is_some();
        needs_libraries.then(|| format!("LD_LIBRARY_PATH={LIBRARY_DIR}")).into_iter().collect()
    }
}

impl Library {
    fn open(path: &Path, node: u64) -> Result<Rc<Self>, LoadError> {
        let name = path.file_name().unwrap_or_default().as_bytes();
        Ok(Rc::new(Self::new(name, open(path)?, node)?))
    }

    pub(super) fn new(name: &[u8], file: File, node: u64) -> io::Result<Self> {
        let path = [LIBRARY_DIR.as_bytes(), b"/", name].concat();
        Ok(Self { path, len: file.metadata()?.len(), file, node })
    }

    /// Reads up to `len` bytes. Returns fewer bytes only at the end of the file.
    pub(super) fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(left)];
        if !bytes.is_empty() {
            self.file.read_exact_at(&mut bytes, offset)?;
        }
        Ok(bytes)
    }
}

fn open(path: &Path) -> Result<File, LoadError> {
    File::open(path).map_err(|error| LoadError::Library { path: path.to_owned(), error })
}

/// Returns the paths of all shared libraries of this process, under the names by which the dynamic loader looked them
/// up.
fn loaded_libraries() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    // SAFETY: `add_path` has the required signature, and `paths` outlives the call, during which only `add_path`
    // accesses it.
    unsafe { libc::dl_iterate_phdr(Some(add_path), (&raw mut paths).cast()) };
    paths
}

/// Adds the path of a loaded object to the `Vec` that `paths` points to. The program itself has an empty name, and the
/// object that the kernel provides (the vDSO) has a name without a directory. Neither is added.
unsafe extern "C" fn add_path(
    info: *mut libc::dl_phdr_info,
    _: usize,
    paths: *mut c_void,
) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid object whose name is a C string or null, and the pointer that
    // `loaded_libraries` passed in, which points to a `Vec` that nothing else accesses now.
    let (name, paths) = unsafe { ((*info).dlpi_name, &mut *paths.cast::<Vec<PathBuf>>()) };
    if !name.is_null() {
        // SAFETY: as above, the name is a C string. It stays valid during this call.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
        if path.is_absolute() {
            paths.push(path.to_owned());
        }
    }
    0
}
