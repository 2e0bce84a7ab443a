//! Snapshots. A snapshot is a file with a machine's complete state, and a manifest that describes the machine.
//!
//! A state can be restored only in a machine with the same QEMU, kernel, image, agent and limits. QEMU parses the
//! state, whose content the guest determines. The state is read only from a directory that no other user can write to,
//! so that other users cannot supply one.

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

/// Name under which the state file is passed to QEMU.
const FD_NAME: &str = "snapshot";

/// Interval at which QEMU is polled for the completion of a transfer.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long QEMU may take to write or read a state.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(120);

/// The properties of a machine that its state depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MachineIdentity {
    /// QEMU's version and accelerator.
    pub(super) qemu: String,
    /// Hashes of the kernel, the image and the agent.
    pub(super) content: String,
    /// Description of the limits that the guest was started with.
    pub(super) limits: String,
}

/// Manifest that is stored next to a state file.
#[derive(Debug, Serialize, Deserialize)]
struct SnapshotManifest {
    #[serde(flatten)]
    identity: MachineIdentity,
    /// Length of the state file in bytes.
    length: u64,
    /// SHA-256 of the state file.
    sha256: String,
}

/// Writes the state of a machine to a directory. The machine is stopped while its state is being written.
///
/// The future must not be dropped before it completes, because the machine would stay stopped forever.
pub(super) async fn save(
    monitor: &mut QmpClient,
    identity: &MachineIdentity,
    dir: &Path,
) -> Result<(), Error> {
    let failed =
        |error| Error::io(format!("cannot write a snapshot to `{}`", dir.display()))(error);
    create_private_dir(dir).map_err(failed)?;
    // The manifest is written last and removed first, so that a directory without a manifest contains no valid
    // snapshot.
    match fs::remove_file(dir.join(MANIFEST_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let state = create_private_file(&dir.join(STATE_FILE)).map_err(failed)?;
    let saved = save_state(monitor, &state).await;
    if saved.is_err() {
        // Cancel the transfer, because QEMU would otherwise continue writing while the machine runs.
        let _ = monitor.execute("migrate_cancel", json!({})).await;
    }
    monitor.execute("cont", json!({})).await.map_err(failed)?;
    saved.map_err(failed)?;
    let (identity, dir) = (identity.clone(), dir.to_path_buf());
    let written = tokio::task::spawn_blocking(move || write_manifest(identity, state, &dir));
    written.await.map_err(io::Error::other).flatten().map_err(failed)
}

/// Writes the manifest, after the state has been synced to disk.
fn write_manifest(identity: MachineIdentity, mut state: File, dir: &Path) -> io::Result<()> {
    state.sync_all()?;
    let (length, sha256) = length_and_hash(&mut state)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(&serde_json::to_vec_pretty(&SnapshotManifest { identity, length, sha256 })?)?;
    file.as_file().sync_all()?;
    file.persist(dir.join(MANIFEST_FILE))?;
    File::open(dir)?.sync_all()
}

/// Returns the length and the SHA-256 of a file.
fn length_and_hash(file: &mut File) -> io::Result<(u64, String)> {
    file.rewind()?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    while let count @ 1.. = file.read(&mut buffer)? {
        hash.update(&buffer[..count]);
        length += count as u64;
    }
    // Rewind so that the next reader starts at the beginning.
    file.rewind()?;
    Ok((length, hex::encode(hash.finalize())))
}

fn create_private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

async fn save_state(monitor: &mut QmpClient, state: &File) -> io::Result<()> {
    monitor.execute("stop", json!({})).await?;
    monitor.send_fd(FD_NAME, state).await?;
    // The machine is stopped, so there is no need to throttle the transfer.
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
                return Err(io::Error::other(format!(
                    "QEMU could not save the state: {}",
                    status["error-desc"]
                )));
            }
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Opens the state in a directory. Fails if the state is incomplete, or if a machine with other content or other limits
/// created it. The QEMU version is known only after QEMU has started, so the caller has to compare it.
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
        return Err(refused("its state file has the wrong length".to_owned()));
    }
    if manifest.identity.content != identity.content {
        return Err(refused("it belongs to another kernel, image or agent".to_owned()));
    }
    if manifest.identity.limits != identity.limits {
        let (then, now) = (&manifest.identity.limits, &identity.limits);
        return Err(refused(format!("its guest had other limits: {then} instead of {now}")));
    }
    // The hash is checked last because that takes longest.
    if length_and_hash(&mut state).map_err(unreadable)?.1 != manifest.sha256 {
        return Err(refused("its state file was modified".to_owned()));
    }
    Ok((state, manifest.identity))
}

/// Restores a state in a machine that was started with `StartMode::AwaitState`.
pub(super) async fn load(monitor: &mut QmpClient, state: &File) -> io::Result<()> {
    monitor.send_fd(FD_NAME, state).await?;
    monitor.execute("migrate-incoming", json!({ "uri": format!("fd:{FD_NAME}") })).await?;
    with_timeout(wait_until_loaded(monitor)).await?;
    // The machine was stopped when its state was saved, so it has to be resumed now.
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
            let problem =
                format!("QEMU did not finish transferring the state within {TRANSFER_TIMEOUT:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, problem))
        }
    }
}
