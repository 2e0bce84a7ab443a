//! File permissions. Drafts and stored contents are copies of files that may be private, so only the owner may access
//! them. New files in the workspace get the permissions that the user's umask allows.

use rustix::fs::{Mode, OFlags, fchmod, fstat};

use super::{Dir, PRIVATE_FILE};
use crate::error::Error;

const PRIVATE_DIR: u32 = 0o700;

/// Mode bits that apply to the group and to other users.
const NON_OWNER_BITS: u32 = 0o077;

/// Returns the mode for a new file in the workspace.
pub(crate) fn new_file_mode() -> u32 {
    // Read the umask from `/proc`, because `umask(2)` can only read it by changing it for the whole process.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|it| it.strip_prefix("Umask:"));
    let umask = umask.and_then(|it| u32::from_str_radix(it.trim(), 8).ok());
    0o666 & !umask.unwrap_or(0o022)
}

impl Dir {
    /// Opens one of the gate's directories, which only its owner can access. Creates the directory if it is missing.
    pub(crate) fn private_dir(&self, name: &str) -> Result<Self, Error> {
        let dir = self.create_dir_with_mode(name, PRIVATE_DIR)?;
        dir.restrict_to_owner()?;
        Ok(dir)
    }

    /// Makes a file accessible only to its owner, if the file exists. Does not change links and pipes.
    pub(crate) fn restrict_file_to_owner(&self, name: &str) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let Ok(fd) = self.open(name, flags, Mode::empty()) else { return Ok(()) };
        match self.require_regular_file(name, &fd) {
            Ok(stat) if stat.st_mode & NON_OWNER_BITS != 0 => {
                self.notify("restrict a file", name);
                fchmod(&fd, Mode::from_raw_mode(PRIVATE_FILE))
                    .map_err(|it| self.errno_error("restrict permissions of", name, it))
            }
            _ => Ok(()),
        }
    }

    /// Makes the directory and its files accessible only to their owner, because earlier versions granted more
    /// permissions. The directory itself is restricted last. If a crash interrupts this function, the directory is
    /// still unrestricted, and the next call starts again. A restricted directory therefore needs no further checks.
    fn restrict_to_owner(&self) -> Result<(), Error> {
        let stat = fstat(&self.fd).map_err(|it| self.errno_error("inspect", "", it))?;
        if stat.st_mode & NON_OWNER_BITS == 0 {
            return Ok(());
        }
        self.names()?.iter().try_for_each(|it| self.restrict_file_to_owner(it))?;
        self.notify("restrict a directory", "");
        fchmod(&self.fd, Mode::from_raw_mode(PRIVATE_DIR))
            .map_err(|it| self.errno_error("restrict permissions of", "", it))
    }
}
