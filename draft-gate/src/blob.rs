//! Content-addressed store: the content that was submitted is what is judged and applied.

use crate::{
    confine::{Dir, Durability},
    digest::Digest,
    error::Error,
};

/// Maximum size of stored content; contracts cannot allow more.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

/// Stores content once. It survives a power failure only after [`sync_all`].
pub(crate) fn put(blobs: &Dir, bytes: &[u8]) -> Result<Digest, Error> {
    let digest = Digest::of(bytes);
    let name = digest.to_string();
    // A power failure can leave a name without its content.
    let is_stored = blobs.read(&name, MAX_BYTES)?.is_some_and(|it| Digest::of(&it.bytes) == digest);
    if !is_stored {
        blobs.replace(&name, bytes.to_vec(), Durability::ProcessCrash)?;
    }
    Ok(digest)
}

/// Syncs contents to disk. Missing ones are skipped; reading them fails later.
pub(crate) fn sync_all(
    blobs: &Dir,
    digests: impl IntoIterator<Item = Digest>,
) -> Result<(), Error> {
    let mut any_synced = false;
    for digest in digests {
        match blobs.sync_file(&digest.to_string()) {
            Ok(()) => any_synced = true,
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if any_synced { blobs.sync() } else { Ok(()) }
}

/// Returns content; fails if it does not match the digest.
pub(crate) fn get(blobs: &Dir, digest: Digest) -> Result<Vec<u8>, Error> {
    let name = digest.to_string();
    let damaged =
        |fault: &str| Error::Corrupt { file: format!("blobs/{name}"), fault: fault.to_owned() };
    let content = blobs.read(&name, MAX_BYTES)?.ok_or_else(|| damaged("it is missing"))?;
    if Digest::of(&content.bytes) != digest {
        return Err(damaged("its content does not match its name"));
    }
    Ok(content.bytes)
}
