//! Limits the amount of data that a run may store on the host.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use graph_core::checkpoint::CheckpointWrite;
use serde::Serialize;

use crate::protocol::message::{Fault, FaultCode};

/// Default storage quota of a run, in bytes.
pub(crate) const DEFAULT_BYTES: u64 = 256 << 20;

/// Number of bytes that a record costs in addition to its size, so that a limit in bytes also bounds the number of
/// records.
const RECORD_OVERHEAD: u64 = 256;

/// The amount of storage that a run may still use, in bytes. It never grows, so overwriting data costs as much as
/// writing new data.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: u64,
    left: AtomicU64,
}

impl Quota {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, left: AtomicU64::new(limit) }
    }

    /// Deducts the cost of these writes from the quota. Returns an error if the quota does not suffice.
    pub(super) fn take(&self, writes: &[CheckpointWrite]) -> Result<(), Fault> {
        let mut cost = ByteCounter(0);
        for write in writes {
            let records = match write {
                CheckpointWrite::Put(checkpoint) => 1 + checkpoint.changes.len(),
                CheckpointWrite::Record(_, records) => 1 + records.len(),
            };
            cost.0 = cost.0.saturating_add(RECORD_OVERHEAD.saturating_mul(records as u64));
            cost.add(write)?;
        }
        self.take_bytes(cost.0)
    }

    /// Deducts the cost of data about an external call, which an interceptor may store.
    pub(super) fn take_call_report(&self, report: &impl Serialize) -> Result<(), Fault> {
        self.take_bytes(RECORD_OVERHEAD.saturating_add(encoded_size(report)?))
    }

    fn take_bytes(&self, cost: u64) -> Result<(), Fault> {
        let rest = |left: u64| left.checked_sub(cost);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest) {
            Ok(_) => Ok(()),
            Err(_) => {
                // Exhaust the quota permanently. Otherwise the host would make more calls whose answers cannot be
                // stored.
                self.left.store(0, Ordering::Relaxed);
                self.check()
            }
        }
    }

    /// Returns an error if the quota is exhausted.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.left.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let problem = format!(
            "the run has exhausted its storage quota of {} bytes; see `GraphRun::storage_quota` and \
             `SandboxOptions::storage_quota`",
            self.limit
        );
        Err(Fault::new(FaultCode::Refused, problem))
    }
}

/// Returns the size, in bytes, of a value encoded as MessagePack.
pub(super) fn encoded_size(value: &impl Serialize) -> Result<u64, Fault> {
    let mut count = ByteCounter(0);
    rmp_serde::encode::write_named(&mut &mut count, value)
        .map_err(|error| Fault::new(FaultCode::Refused, error))?;
    Ok(count.0)
}

/// A writer that counts the bytes of an encoded value without storing them.
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
