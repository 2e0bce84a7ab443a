//! Checks every page table entry for the invariants that have to hold no matter what a guest has requested.

use std::collections::BTreeSet;

use super::{AddressSpace, FRAME_MASK, NO_EXECUTE, PAGE, PRESENT, USER_ACCESSIBLE, WRITABLE};

impl AddressSpace {
    /// Panics unless every page has a separate frame that is not a page table, and no page is both writable and
    /// executable.
    pub(in crate::backend::kvm_process) fn audit(&self) {
        let mut used = BTreeSet::from([self.root]);
        let mut tables = vec![self.root];
        for _ in 1..4 {
            let entries = tables.iter().flat_map(|it| self.entries(*it));
            tables = entries.filter(|it| it & PRESENT != 0).map(|it| it & FRAME_MASK).collect();
            tables.iter().for_each(|it| self.claim(&mut used, *it));
        }
        for entry in
            tables.iter().flat_map(|it| self.entries(*it)).filter(|it| it & FRAME_MASK != 0)
        {
            self.claim(&mut used, entry & FRAME_MASK);
            let runs = entry & (PRESENT | NO_EXECUTE) == PRESENT;
            assert!(!(runs && entry & WRITABLE != 0), "{entry:#x} is writable and executable");
            // The guest must not be able to write to the structures that the processor needs, which are located before
            // the first table.
            let is_open = entry & USER_ACCESSIBLE != 0 && entry & WRITABLE != 0;
            assert!(
                !is_open || entry & FRAME_MASK > self.root,
                "{entry:#x} is reserved for the processor"
            );
        }
        self.free.iter().for_each(|it| self.claim(&mut used, *it));
    }

    fn claim(&self, used: &mut BTreeSet<u64>, frame: u64) {
        assert!(frame + PAGE <= self.next_unused, "{frame:#x} was never allocated");
        assert!(used.insert(frame), "{frame:#x} is used twice");
    }

    fn entries(&self, table: u64) -> impl Iterator<Item = u64> {
        (table..table + PAGE).step_by(8).map(|at| self.get(at))
    }
}
