//! The agent, which is the first process in a gVisor sandbox. It restricts itself and then serves requests from the
//! host.

use std::{
    fs, io,
    os::unix::fs::{chown, symlink},
};

use crate::{
    backend::{
        host::NOBODY,
        jail::init::{serve, take_channel},
        plan::{AgentPlan, MemoryEnforcement},
        seccomp,
        stage_error::StageError,
    },
    guest::Agent,
};

/// Restricts this process and serves requests until the host ends the session.
pub(crate) fn init(plan: &AgentPlan, agent: Agent) -> Result<(), StageError> {
    let channel = take_channel().map_err(StageError::new("take over its channel"))?;
    if plan.bounds.memory_enforcement() == MemoryEnforcement::Agent {
        // Mapping `/dev/zero` would create shared memory, which the agent cannot measure.
        fs::remove_file("/dev/zero").map_err(StageError::new("remove /dev/zero"))?;
        // gVisor's kernel does not list file locks, and keeps them in its own memory.
        let filter = seccomp::lock_filter().map_err(StageError::new("compile a seccomp filter"))?;
        seccomp::apply(&filter).map_err(StageError::new("deny file locks"))?;
    }
    make_dev_unwritable().map_err(StageError::new("make /dev unwritable"))?;
    serve(&plan.bounds, channel, agent, None)
}

/// Makes `/dev` unwritable by changing its owner to `nobody`. No process in the guest runs as `nobody`, and writing to
/// another user's directory requires capabilities that the guest does not have. This is necessary because gVisor
/// creates `/dev` in its own memory, which the guest's only user could otherwise fill without limit.
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
