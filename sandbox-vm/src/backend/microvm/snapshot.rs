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

use super::qmp::QmpClient;
use crate::{
    Error,
    sandbox_dir::{check_private_dir, create_private_dir},
};

const STATE_FILE: &str = "state";
const MANIFEST_FILE: &str = "machine.json";

/// The name under which QEMU is given the file of the state.
const FD_NAME: &str = "snapshot";

/// How often QEMU is asked whether it is done.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long QEMU has to write or to read a state.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a machine is, as far as its state depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MachineIdentity {
    /// Who runs the machine: QEMU's version, and what runs the instructions.
    #[serde(rename = "by")]
    pub(super) qemu: String,
    /// What stands for the kernel, the image and the agent: their hashes.
    #[serde(rename = "of")]
    pub(super) content: String,
    /// What the guest may use, as it was told at its start.
    #[serde(rename = "within")]
    pub(super) limits: String,
}

/// What lies beside a state.
#[derive(Debug, Serialize, Deserialize)]
struct SnapshotManifest {
    #[serde(flatten)]
    identity: MachineIdentity,
    /// How long the file of the state is.
    length: u64,
    /// Its SHA-256.
    sha256: String,
}

/// Writes the state of a machine into a folder. The machine stands still meanwhile.
///
/// It must not be dropped before it is done: the machine would stand still for ever.
pub(super) async fn save(
    monitor: &mut QmpClient,
    identity: &MachineIdentity,
    dir: &Path,
) -> Result<(), Error> {
    let failed = |error| Error::io(format!("a snapshot in {}", dir.display()))(error);
    create_private_dir(dir).map_err(failed)?;
    // Last written and first removed: a folder without it holds no snapshot.
    match fs::remove_file(dir.join(MANIFEST_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let state = create_private_file(&dir.join(STATE_FILE)).map_err(failed)?;
    let saved = save_state(monitor, &state).await;
    if saved.is_err() {
        // Otherwise it would go on writing beside the machine.
        let _ = monitor.execute("migrate_cancel", json!({})).await;
    }
    monitor.execute("cont", json!({})).await.map_err(failed)?;
    saved.map_err(failed)?;
    let (identity, dir) = (identity.clone(), dir.to_path_buf());
    let written = tokio::task::spawn_blocking(move || write_manifest(identity, state, &dir));
    written.await.map_err(io::Error::other).flatten().map_err(failed)
}

/// Writes the list, once the state is where a loss of power does not reach it.
fn write_manifest(identity: MachineIdentity, mut state: File, dir: &Path) -> io::Result<()> {
    state.sync_all()?;
    let (length, sha256) = length_and_hash(&mut state)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(&serde_json::to_vec_pretty(&SnapshotManifest { identity, length, sha256 })?)?;
    file.as_file().sync_all()?;
    file.persist(dir.join(MANIFEST_FILE))?;
    File::open(dir)?.sync_all()
}

/// The length of a file and its SHA-256.
fn length_and_hash(file: &mut File) -> io::Result<(u64, String)> {
    file.rewind()?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    while let count @ 1.. = file.read(&mut buffer)? {
        hash.update(&buffer[..count]);
        length += count as u64;
    }
    // Whoever reads it next begins at its beginning.
    file.rewind()?;
    Ok((length, hash.finalize().iter().map(|it| format!("{it:02x}")).collect()))
}

fn create_private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

async fn save_state(monitor: &mut QmpClient, state: &File) -> io::Result<()> {
    monitor.execute("stop", json!({})).await?;
    monitor.send_fd(FD_NAME, state).await?;
    // A machine that stands still need not be spared.
    let unbounded = json!({ "max-bandwidth": 1_u64 << 40 });
    monitor.execute("migrate-set-parameters", unbounded).await?;
    monitor.execute("migrate", json!({ "uri": format!("fd:{FD_NAME}") })).await?;
    with_timeout(wait_until_saved(monitor)).await
}

async fn wait_until_saved(monitor: &mut QmpClient) -> io::Result<()> {
    loop {
        let status = monitor.execute("query-migrate", json!({})).await?;
        match status["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                return Err(io::Error::other(format!("QEMU failed: {}", status["error-desc"])));
            }
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Opens the state in a folder, if it is whole and this machine can go on from it; who runs it is seen later.
pub(super) fn open(
    dir: &Path,
    identity: &MachineIdentity,
) -> Result<(File, MachineIdentity), Error> {
    let refused = |problem: String| Error::Snapshot { dir: dir.to_path_buf(), problem };
    let unreadable = |error: io::Error| refused(error.to_string());
    check_private_dir(dir).map_err(unreadable)?;
    let text = fs::read(dir.join(MANIFEST_FILE)).map_err(unreadable)?;
    let manifest: SnapshotManifest =
        serde_json::from_slice(&text).map_err(|it| refused(it.to_string()))?;
    let mut state = File::open(dir.join(STATE_FILE)).map_err(unreadable)?;
    if state.metadata().map_err(unreadable)?.len() != manifest.length {
        return Err(refused("the file of its state has another length".to_owned()));
    }
    if manifest.identity.content != identity.content {
        return Err(refused("it is of another kernel, image or agent".to_owned()));
    }
    if manifest.identity.limits != identity.limits {
        let (then, now) = (&manifest.identity.limits, &identity.limits);
        return Err(refused(format!("its guest had other limits: {then}, and not {now}")));
    }
    // Last of all, since it takes longest.
    if length_and_hash(&mut state).map_err(unreadable)?.1 != manifest.sha256 {
        return Err(refused("the file of its state was changed".to_owned()));
    }
    Ok((state, manifest.identity))
}

/// Lets a machine that was started for it go on from a state.
pub(super) async fn load(monitor: &mut QmpClient, state: &File) -> io::Result<()> {
    monitor.send_fd(FD_NAME, state).await?;
    monitor.execute("migrate-incoming", json!({ "uri": format!("fd:{FD_NAME}") })).await?;
    with_timeout(wait_until_loaded(monitor)).await?;
    // It stood still when its state was written, and so it does now.
    monitor.execute("cont", json!({})).await.map(drop)
}

async fn wait_until_loaded(monitor: &mut QmpClient) -> io::Result<()> {
    while monitor.execute("query-status", json!({})).await?["status"] == "inmigrate" {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

async fn with_timeout(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    match tokio::time::timeout(TRANSFER_TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => {
            let problem = format!("QEMU was not done with the state after {TRANSFER_TIMEOUT:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, problem))
        }
    }
}
