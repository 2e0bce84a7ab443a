//! The first program in gVisor: closes the doors behind itself and serves.

use std::{
    fs, io,
    os::unix::fs::{chown, symlink},
};

use super::InitPlan;
use crate::{
    backend::{
        jail::{
            StageError,
            init::{serve, take_channel},
        },
        seccomp::MemoryEnforcement,
    },
    guest::Agent,
};

/// Somebody who is not in the guest.
const NOBODY: u32 = 65_534;

/// Closes the guest's doors and serves until the host is done.
pub fn init(plan: &InitPlan, agent: Agent) -> Result<(), StageError> {
    let channel = take_channel().map_err(StageError::new("take its channel"))?;
    if plan.bounds.memory_enforcement() == MemoryEnforcement::Agent {
        // Whoever maps this one has shared memory.
        fs::remove_file("/dev/zero").map_err(StageError::new("leave out /dev/zero"))?;
    }
    make_dev_unwritable().map_err(StageError::new("give /dev away"))?;
    serve(&plan.bounds, channel, agent)
}

/// gVisor makes `/dev` anew, in its own memory, where the guest's one user could fill it without a bound. A folder
/// that belongs to somebody else cannot be written to without capabilities.
fn make_dev_unwritable() -> io::Result<()> {
    fs::remove_dir("/dev/shm")?;
    symlink("/tmp", "/dev/shm")?;
    for entry in fs::read_dir("/dev")? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            chown(entry.path(), Some(NOBODY), Some(NOBODY))?;
        }
    }
    chown("/dev", Some(NOBODY), Some(NOBODY))
}
