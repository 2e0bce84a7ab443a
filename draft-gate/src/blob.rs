//! Content under its digest: what was submitted is what is judged, and what is applied.

use crate::{
    confine::{Folder, Keep},
    digest::Digest,
    error::Error,
};

/// The longest content that is stored: no limit of a contract goes beyond it.
pub(crate) const MOST: u64 = 16 << 20;

/// Stores content, once. A power cut may take it until it is [secured](secure).
pub(crate) fn put(blobs: &Folder, bytes: &[u8]) -> Result<Digest, Error> {
    let digest = Digest::of(bytes);
    let name = digest.to_string();
    // A power cut can leave a name without its content.
    let is_there = blobs.read(&name, MOST)?.is_some_and(|it| Digest::of(&it.bytes) == digest);
    if !is_there {
        blobs.replace(&name, bytes.to_vec(), Keep::ThroughCrash)?;
    }
    Ok(digest)
}

/// Lets contents outlive a power cut. One that is gone cannot be: whoever asks for it will hear.
pub(crate) fn secure(
    blobs: &Folder,
    digests: impl IntoIterator<Item = Digest>,
) -> Result<(), Error> {
    let mut is_any = false;
    for digest in digests {
        match blobs.sync_file(&digest.to_string()) {
            Ok(()) => is_any = true,
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if is_any { blobs.sync() } else { Ok(()) }
}

/// Gives content back, and fails where it is another one.
pub(crate) fn get(blobs: &Folder, digest: Digest) -> Result<Vec<u8>, Error> {
    let name = digest.to_string();
    let damaged =
        |fault: &str| Error::Damaged { file: format!("blobs/{name}"), fault: fault.to_owned() };
    let content = blobs.read(&name, MOST)?.ok_or_else(|| damaged("it is gone"))?;
    if Digest::of(&content.bytes) != digest {
        return Err(damaged("it holds other bytes than its name says"));
    }
    Ok(content.bytes)
}
