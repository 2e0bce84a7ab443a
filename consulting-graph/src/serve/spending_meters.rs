//! Cache of spending meters.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crate::spending::{Spending, SpendingMeter};

/// Maximum number of cached meters. If there are more, the least recently used meter is evicted. If its recording is
/// requested again, a new meter reads the recording from the start.
const MAX_METERS: usize = 64;

/// Spending meters by recording. Each meter has its own lock, so reading a long recording does not block reads of the
/// others. Clones share the same cache.
#[derive(Debug, Clone, Default)]
pub(super) struct SpendingMeters {
    /// Sorted from least to most recently used.
    recent: Arc<Mutex<VecDeque<(PathBuf, Arc<Mutex<SpendingMeter>>)>>>,
}

impl SpendingMeters {
    /// Returns the spending on the calls in a recording so far, without the first `inherited_calls`. Blocks on I/O.
    pub(super) fn read(&self, recording: &Path, inherited_calls: usize) -> Spending {
        self.meter(recording, inherited_calls)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .read_all()
    }

    fn meter(&self, recording: &Path, inherited_calls: usize) -> Arc<Mutex<SpendingMeter>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = recent.iter().position(|it| it.0 == recording);
        let (path, meter) = cached.and_then(|idx| recent.remove(idx)).unwrap_or_else(|| {
            let path = recording.to_owned();
            let meter = SpendingMeter::new(path.clone()).skip(inherited_calls);
            (path, Arc::new(Mutex::new(meter)))
        });
        recent.push_back((path, meter.clone()));
        if recent.len() > MAX_METERS {
            recent.pop_front();
        }
        meter
    }
}

#[cfg(test)]
mod tests {
    use std::{
        path::{Path, PathBuf},
        sync::{Arc, mpsc},
        thread,
        time::Duration,
    };

    use super::{MAX_METERS, SpendingMeters};

    #[test]
    fn the_least_recently_used_meter_is_evicted() {
        let meters = SpendingMeters::default();
        let path = |idx: usize| PathBuf::from(format!("run-{idx}"));
        let first: Vec<_> = (0..MAX_METERS).map(|idx| meters.meter(&path(idx), 0)).collect();
        assert!(Arc::ptr_eq(&first[0], &meters.meter(&path(0), 0)));
        meters.meter(&path(MAX_METERS), 0);
        assert!(Arc::ptr_eq(&first[0], &meters.meter(&path(0), 0)), "recently used");
        assert!(!Arc::ptr_eq(&first[1], &meters.meter(&path(1), 0)), "evicted");
        assert_eq!(meters.recent.lock().unwrap().len(), MAX_METERS);
    }

    #[test]
    fn reading_one_recording_does_not_block_another() {
        let meters = SpendingMeters::default();
        let long = meters.meter(Path::new("long"), 0);
        let _counting = long.lock().unwrap();
        let (done, read) = mpsc::channel();
        thread::spawn(move || done.send(meters.read(Path::new("short"), 0).calls));
        assert_eq!(read.recv_timeout(Duration::from_secs(240)), Ok(0));
    }
}
