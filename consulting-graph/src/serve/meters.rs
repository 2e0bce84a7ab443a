//! What runs have spent, as far as their recordings are counted.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crate::spent::{Meter, Spent};

/// So many recordings are remembered as far as they are counted: those that were asked for last. Others are read again
/// from the start, which takes longer and comes to the same.
const MOST: usize = 64;

/// What runs have spent, each counted by itself: whoever waits for a long recording keeps nobody else waiting. Clones
/// share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Meters {
    /// The one that was asked for last stands last.
    recent: Arc<Mutex<VecDeque<(PathBuf, Arc<Mutex<Meter>>)>>>,
}

impl Meters {
    /// What a recording comes to by now. It may have to wait for the disk.
    pub(super) fn read(&self, recording: &Path) -> Spent {
        self.of(recording).lock().unwrap_or_else(PoisonError::into_inner).read_all()
    }

    fn of(&self, recording: &Path) -> Arc<Mutex<Meter>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.iter().position(|it| it.0 == recording);
        let (path, meter) = known.and_then(|idx| recent.remove(idx)).unwrap_or_else(|| {
            let path = recording.to_owned();
            (path.clone(), Arc::new(Mutex::new(Meter::of(path))))
        });
        recent.push_back((path, meter.clone()));
        if recent.len() > MOST {
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

    use super::{MOST, Meters};

    #[test]
    fn whoever_was_not_asked_for_longest_is_forgotten() {
        let meters = Meters::default();
        let path = |idx: usize| PathBuf::from(format!("run-{idx}"));
        let first: Vec<_> = (0..MOST).map(|idx| meters.of(&path(idx))).collect();
        assert!(Arc::ptr_eq(&first[0], &meters.of(&path(0))));
        meters.of(&path(MOST));
        assert!(Arc::ptr_eq(&first[0], &meters.of(&path(0))), "asked for a moment ago");
        assert!(!Arc::ptr_eq(&first[1], &meters.of(&path(1))), "forgotten");
        assert_eq!(meters.recent.lock().unwrap().len(), MOST);
    }

    #[test]
    fn who_waits_for_one_recording_keeps_nobody_waiting() {
        let meters = Meters::default();
        let long = meters.of(Path::new("long"));
        let _counting = long.lock().unwrap();
        let (done, read) = mpsc::channel();
        thread::spawn(move || done.send(meters.read(Path::new("short")).calls));
        assert_eq!(read.recv_timeout(Duration::from_secs(10)), Ok(0));
    }
}
