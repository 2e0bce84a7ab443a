//! What has to hold of page tables whatever a guest has asked for, looked up entry by entry.

use std::collections::BTreeSet;

use super::{FRAME, NO_EXECUTE, OF_USER, PAGE, PRESENT, Space, WRITABLE};

impl Space {
    /// Panics unless every page has memory of its own, which is no table, and none that the guest reaches is writable
    /// and executable.
    pub(in crate::backend::kvm_process) fn audit(&self) {
        let mut used = BTreeSet::from([self.root]);
        let mut tables = vec![self.root];
        for _ in 1..4 {
            let entries = tables.iter().flat_map(|it| self.entries(*it));
            tables = entries.filter(|it| it & PRESENT != 0).map(|it| it & FRAME).collect();
            tables.iter().for_each(|it| self.take(&mut used, *it));
        }
        for entry in tables.iter().flat_map(|it| self.entries(*it)).filter(|it| it & FRAME != 0) {
            self.take(&mut used, entry & FRAME);
            let runs = entry & (PRESENT | NO_EXECUTE) == PRESENT;
            assert!(!(runs && entry & WRITABLE != 0), "{entry:#x} is writable and executable");
            // What the processor needs lies before the first table.
            let is_open = entry & OF_USER != 0 && entry & WRITABLE != 0;
            assert!(!is_open || entry & FRAME > self.root, "{entry:#x} is the processor's");
        }
        self.free.iter().for_each(|it| self.take(&mut used, *it));
    }

    fn take(&self, used: &mut BTreeSet<u64>, frame: u64) {
        assert!(frame + PAGE <= self.fresh, "{frame:#x} was never given out");
        assert!(used.insert(frame), "{frame:#x} is used twice");
    }

    fn entries(&self, table: u64) -> impl Iterator<Item = u64> {
        (table..table + PAGE).step_by(8).map(|at| self.get(at))
    }
}
