//! Limits and delays that several modules share.

use std::time::Duration;

/// Delay between attempts to reach the database, or to lease a thread.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum time between two reads of a table, in case a notification was lost.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of messages or events that are stored in one statement.
pub(crate) const MAX_BATCH: usize = 64;
/// Maximum size of the messages or events that are stored in one statement, unless a single message or event is larger.
pub(crate) const MAX_BATCH_BYTES: usize = 4 << 20;
/// Maximum number of times that a leg or a task is claimed before it fails, so that a run that crashes its process does
/// not crash one worker after another. Returning it to the queue resets the number.
pub(crate) const MAX_ATTEMPTS: i32 = 20;
