//! How much a run may store on its host.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use graph_core::checkpoint::Write;
use serde::Serialize;

use crate::protocol::message::{Fault, FaultCode};

/// What one run may store, unless it is said.
pub(super) const DEFAULT_BYTES: u64 = 256 << 20;

/// What a record costs besides its own bytes, so that a limit of bytes bounds the number of records too.
const RECORD_OVERHEAD: u64 = 256;

/// What a run may still store. It only shrinks: a guest that writes the same again has used it all the same.
#[derive(Debug)]
pub(super) struct Quota {
    limit: u64,
    left: AtomicU64,
}

impl Quota {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, left: AtomicU64::new(limit) }
    }

    /// Takes what these writes cost.
    pub(super) fn take(&self, writes: &[Write]) -> Result<(), Fault> {
        let mut cost = ByteCounter(0);
        for write in writes {
            let records = match write {
                Write::Put(checkpoint) => 1 + checkpoint.changes.len(),
                Write::Record(_, records) => 1 + records.len(),
            };
            cost.0 = cost.0.saturating_add(RECORD_OVERHEAD.saturating_mul(records as u64));
            cost.add(write)?;
        }
        let rest = |left: u64| left.checked_sub(cost.0);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest) {
            Ok(_) => Ok(()),
            Err(_) => {
                // Used up for good: otherwise calls would be made whose answers cannot be stored.
                self.left.store(0, Ordering::Relaxed);
                self.check()
            }
        }
    }

    /// Refuses whatever would be stored once it is used up.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.left.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let problem = format!(
            "the run has used up the {} bytes that it may store; see `GraphRun::storage`",
            self.limit
        );
        Err(Fault::new(FaultCode::Refused, problem))
    }
}

/// How many bytes a value has as a message.
pub(super) fn encoded_size(value: &impl Serialize) -> Result<u64, Fault> {
    let mut count = ByteCounter(0);
    rmp_serde::encode::write_named(&mut &mut count, value)
        .map_err(|error| Fault::new(FaultCode::Refused, error))?;
    Ok(count.0)
}

/// Counts the bytes of a value's text without keeping them.
struct ByteCounter(u64);

impl ByteCounter {
    fn add(&mut self, value: &impl Serialize) -> Result<(), Fault> {
        serde_json::to_writer(self, value).map_err(|error| Fault::new(FaultCode::Refused, error))
    }
}

impl io::Write for &mut ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
