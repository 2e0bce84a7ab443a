//! A directory in the guest's file system.

use std::{collections::BTreeMap, rc::Rc};

/// A directory. Its entries have increasing numbers, so that a listing can continue while entries are added and
/// removed.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) parent: u64,
    pub(super) names: BTreeMap<Rc<[u8]>, u64>,
    pub(super) entries: BTreeMap<u64, (Rc<[u8]>, u64)>,
    next: u64,
}

impl Directory {
    pub(super) fn new(parent: u64) -> Self {
        // The first two numbers belong to the directory itself and to its parent.
        Self { parent, names: BTreeMap::new(), entries: BTreeMap::new(), next: 3 }
    }

    pub(super) fn add(&mut self, name: &[u8], node: u64) {
        let name: Rc<[u8]> = Rc::from(name);
        self.names.insert(name.clone(), self.next);
        self.entries.insert(self.next, (name, node));
        self.next += 1;
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(number) = self.names.remove(name) {
            self.entries.remove(&number);
        }
    }
}
