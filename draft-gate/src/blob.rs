//! Content under its digest: what was submitted is what is judged, and what is applied.

use crate::{
    confine::{Folder, Keep},
    digest::Digest,
    error::Error,
};

/// The longest content that is stored: no limit of a contract goes beyond it.
pub(crate) const MOST: u64 = 16 << 20;

/// Stores content, once, so that it outlives a power cut: to take a set back needs the old content as well.
pub(crate) fn put(blobs: &Folder, bytes: &[u8]) -> Result<Digest, Error> {
    let digest = Digest::of(bytes);
    let name = digest.to_string();
    // A power cut can leave a name without its content.
    let is_there = blobs.read(&name, MOST)?.is_some_and(|it| Digest::of(&it.bytes) == digest);
    if !is_there {
        blobs.replace(&name, bytes.to_vec(), Keep::ThroughPowerCut)?;
    }
    Ok(digest)
}

/// Gives content back, and fails where it is another one.
pub(crate) fn get(blobs: &Folder, digest: Digest) -> Result<Vec<u8>, Error> {
    let name = digest.to_string();
    let damaged =
        |fault: &str| Error::Damaged { file: format!("blobs/{name}"), fault: fault.to_owned() };
    let content = blobs.read(&name, MOST)?.ok_or_else(|| damaged("it is gone; was it pruned?"))?;
    if Digest::of(&content.bytes) != digest {
        return Err(damaged("it holds other bytes than its name says"));
    }
    Ok(content.bytes)
}
