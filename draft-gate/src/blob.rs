//! A content-addressed store. It ensures that exactly the content that was submitted is judged and applied.

use crate::{
    confine::{Dir, Durability},
    digest::Digest,
    error::Error,
};

/// Maximum size, in bytes, of stored content. Contracts cannot allow more.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

/// Stores content, unless it is already stored. The content survives a power failure only after [`sync_all`].
pub(crate) fn put(blobs: &Dir, bytes: &[u8]) -> Result<Digest, Error> {
    let digest = Digest::of(bytes);
    let name = digest.to_string();
    // Compare the content too, because a power failure can leave a directory entry without its data.
    let is_stored = blobs.read(&name, MAX_BYTES)?.is_some_and(|it| Digest::of(&it.bytes) == digest);
    if !is_stored {
        blobs.replace(&name, bytes.to_vec(), Durability::ProcessCrash)?;
    }
    Ok(digest)
}

/// Syncs stored contents to disk. Skips missing contents, because reading them fails later anyway.
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

/// Returns stored content. Fails if the content is missing or does not match the digest.
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
