//! Snapshots: a machine's whole state in a file, and a list beside it of what the machine was.
//!
//! The state goes on in the same machine only: the same QEMU, kernel, image, agent and limits. What is in it was the
//! guest's, and QEMU reads it; so it is taken from a folder that nobody but this user can write to.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::monitor::Monitor;
use crate::{
    Error,
    berth::{check_private, make_private},
};

const STATE: &str = "state";
const LIST: &str = "machine.json";

/// The name under which QEMU is given the file of the state.
const GIVEN: &str = "snapshot";

/// How often QEMU is asked whether it is done.
const ROUND: Duration = Duration::from_millis(10);

/// How long QEMU has to write or to read a state.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a machine is, as far as its state depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    /// Who runs the machine: QEMU's version, and what runs the instructions.
    pub(super) by: String,
    /// What stands for the kernel, the image and the agent: their hashes.
    pub(super) of: String,
    /// What the guest may use, as it was told at its start.
    pub(super) within: String,
}

/// What lies beside a state.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    made: Made,
    /// How long the file of the state is.
    length: u64,
    /// Its SHA-256.
    sha256: String,
}

/// Writes the state of a machine into a folder. The machine stands still meanwhile.
///
/// It must not be dropped before it is done: the machine would stand still for ever.
pub(super) async fn keep(monitor: &mut Monitor, made: &Made, folder: &Path) -> Result<(), Error> {
    let failed = |error| Error::io(format!("a snapshot in {}", folder.display()))(error);
    make_private(folder).map_err(failed)?;
    // Last written and first removed: a folder without it holds no snapshot.
    match fs::remove_file(folder.join(LIST)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let state = private_file(&folder.join(STATE)).map_err(failed)?;
    let written = write(monitor, &state).await;
    if written.is_err() {
        // Otherwise it would go on writing beside the machine.
        let _ = monitor.ask("migrate_cancel", json!({})).await;
    }
    monitor.ask("cont", json!({})).await.map_err(failed)?;
    written.map_err(failed)?;
    let (made, folder) = (made.clone(), folder.to_path_buf());
    let list = tokio::task::spawn_blocking(move || list(made, state, &folder));
    list.await.map_err(io::Error::other).flatten().map_err(failed)
}

/// Writes the list, once the state is where a loss of power does not reach it.
fn list(made: Made, mut state: File, folder: &Path) -> io::Result<()> {
    state.sync_all()?;
    let (length, sha256) = sum(&mut state)?;
    let mut list = tempfile::NamedTempFile::new_in(folder)?;
    list.write_all(&serde_json::to_vec_pretty(&Kept { made, length, sha256 })?)?;
    list.as_file().sync_all()?;
    list.persist(folder.join(LIST))?;
    File::open(folder)?.sync_all()
}

/// The length of a file and its SHA-256.
fn sum(file: &mut File) -> io::Result<(u64, String)> {
    file.rewind()?;
    let (mut sum, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    while let count @ 1.. = file.read(&mut buffer)? {
        sum.update(&buffer[..count]);
        length += count as u64;
    }
    // Whoever reads it next begins at its beginning.
    file.rewind()?;
    Ok((length, sum.finalize().iter().map(|it| format!("{it:02x}")).collect()))
}

fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

async fn write(monitor: &mut Monitor, state: &File) -> io::Result<()> {
    monitor.ask("stop", json!({})).await?;
    monitor.give(GIVEN, state).await?;
    // A machine that stands still need not be spared.
    let unbounded = json!({ "max-bandwidth": 1_u64 << 40 });
    monitor.ask("migrate-set-parameters", unbounded).await?;
    monitor.ask("migrate", json!({ "uri": format!("fd:{GIVEN}") })).await?;
    within_patience(until_written(monitor)).await
}

async fn until_written(monitor: &mut Monitor) -> io::Result<()> {
    loop {
        let answer = monitor.ask("query-migrate", json!({})).await?;
        match answer["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                return Err(io::Error::other(format!("QEMU failed: {}", answer["error-desc"])));
            }
            _ => tokio::time::sleep(ROUND).await,
        }
    }
}

/// Opens the state in a folder, if it is whole and this machine can go on from it; who runs it is seen later.
pub(super) fn open(folder: &Path, made: &Made) -> Result<(File, Made), Error> {
    let refused = |problem: String| Error::Snapshot { folder: folder.to_path_buf(), problem };
    let unreadable = |error: io::Error| refused(error.to_string());
    check_private(folder).map_err(unreadable)?;
    let list = fs::read(folder.join(LIST)).map_err(unreadable)?;
    let kept: Kept = serde_json::from_slice(&list).map_err(|it| refused(it.to_string()))?;
    let mut state = File::open(folder.join(STATE)).map_err(unreadable)?;
    if state.metadata().map_err(unreadable)?.len() != kept.length {
        return Err(refused("the file of its state has another length".to_owned()));
    }
    if kept.made.of != made.of {
        return Err(refused("it is of another kernel, image or agent".to_owned()));
    }
    if kept.made.within != made.within {
        let (then, now) = (&kept.made.within, &made.within);
        return Err(refused(format!("its guest had other limits: {then}, and not {now}")));
    }
    // Last of all, since it takes longest.
    if sum(&mut state).map_err(unreadable)?.1 != kept.sha256 {
        return Err(refused("the file of its state was changed".to_owned()));
    }
    Ok((state, kept.made))
}

/// Lets a machine that was started for it go on from a state.
pub(super) async fn go_on(monitor: &mut Monitor, state: &File) -> io::Result<()> {
    monitor.give(GIVEN, state).await?;
    monitor.ask("migrate-incoming", json!({ "uri": format!("fd:{GIVEN}") })).await?;
    within_patience(until_read(monitor)).await?;
    // It stood still when its state was written, and so it does now.
    monitor.ask("cont", json!({})).await.map(drop)
}

async fn until_read(monitor: &mut Monitor) -> io::Result<()> {
    while monitor.ask("query-status", json!({})).await?["status"] == "inmigrate" {
        tokio::time::sleep(ROUND).await;
    }
    Ok(())
}

async fn within_patience(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => {
            let problem = format!("QEMU was not done with the state after {PATIENCE:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, problem))
        }
    }
}
