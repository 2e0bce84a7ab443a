//! The files of a guest's program: the program itself and, if it is dynamically linked, its dynamic loader and its
//! shared libraries.
//!
//! The monitor runs the same program as its guest. The host's dynamic loader has therefore already found every library
//! that the guest will need, and this module only reads the loader's list of libraries. It parses neither libraries nor
//! the loader's configuration. The files are opened before the monitor enters its jail, and no other host file is
//! opened for the guest.
#![expect(
    unsafe_code,
    reason = "the list of loaded libraries is available only through a C callback"
)]

use std::{
    ffi::{CStr, OsStr, c_int, c_void},
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    rc::Rc,
};

use nix::libc;

use super::{
    elf::{self, LoadError},
    library::{LIBRARY_DIR, Library},
};

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
                .map(|(path, node)| open_library(&path, node))
                .collect::<Result<_, _>>()?,
            program,
        })
    }

    /// Returns the environment in which the program has to be started. It contains only the library path for a dynamic
    /// loader, if the program has one.
    pub(super) fn environment(&self) -> Vec<String> {
        let needs_libraries = self.interpreter.is_some();
        needs_libraries.then(|| format!("LD_LIBRARY_PATH={LIBRARY_DIR}")).into_iter().collect()
    }
}

/// Opens a library under its name in the guest.
fn open_library(path: &Path, node: u64) -> Result<Rc<Library>, LoadError> {
    let name = path.file_name().unwrap_or_default().as_bytes();
    Ok(Rc::new(Library::new(name, open(path)?, node)?))
}

fn open(path: &Path) -> Result<File, LoadError> {
    File::open(path).map_err(|error| LoadError::Library { path: path.to_owned(), error })
}

/// Returns the paths of all shared libraries of this process, as the dynamic loader reports them.
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
