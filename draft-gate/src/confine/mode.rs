//! Who may read what. Drafts and stored contents are copies of files that may be private, so they are for the gate's
//! own user alone; a new file of the workspace is for whom the user's umask says.

use rustix::fs::{Mode, OFlags, fchmod, fstat};

use super::Folder;
use crate::error::Error;

/// The mode of every file that the gate keeps for itself.
pub(crate) const PRIVATE_FILE: u32 = 0o600;

const PRIVATE_FOLDER: u32 = 0o700;

/// The bits of a mode that concern others than the owner.
const OTHERS: u32 = 0o077;

/// The mode of a new file of the workspace.
pub(crate) fn new_file_mode() -> u32 {
    // The call that tells the umask sets it as well, for all threads.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|it| it.strip_prefix("Umask:"));
    let umask = umask.and_then(|it| u32::from_str_radix(it.trim(), 8).ok());
    0o666 & !umask.unwrap_or(0o022)
}

impl Folder {
    /// Opens a folder of the gate's own, makes it where it is missing, and closes it to other users.
    pub(crate) fn private_folder(&self, name: &str) -> Result<Self, Error> {
        let folder = self.make_folder_as(name, PRIVATE_FOLDER)?;
        folder.close_to_others()?;
        Ok(folder)
    }

    /// Closes a file to other users, if it is there. A link or a pipe is nothing of ours, and left alone.
    pub(crate) fn close_file_to_others(&self, name: &str) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let Ok(fd) = self.open(name, flags, Mode::empty()) else { return Ok(()) };
        match self.plain(name, &fd) {
            Ok(stat) if stat.st_mode & OTHERS != 0 => {
                self.pass("close a file to others", name);
                fchmod(&fd, Mode::from_raw_mode(PRIVATE_FILE))
                    .map_err(|it| self.refused("close to others", name, it))
            }
            _ => Ok(()),
        }
    }

    /// Earlier versions let everybody read. The folder comes after its files: one that a crash left open is looked at
    /// again, and one that is closed need not be.
    fn close_to_others(&self) -> Result<(), Error> {
        let stat = fstat(&self.fd).map_err(|it| self.refused("look at", "", it))?;
        if stat.st_mode & OTHERS == 0 {
            return Ok(());
        }
        self.names()?.iter().try_for_each(|it| self.close_file_to_others(it))?;
        self.pass("close a folder to others", "");
        fchmod(&self.fd, Mode::from_raw_mode(PRIVATE_FOLDER))
            .map_err(|it| self.refused("close to others", "", it))
    }
}
