//! A file as it is now and as a change set would leave it.

use std::rc::Rc;

use crate::{
    comparison::Comparison,
    diff::{DiffPrecision, FileDiff, MAX_LINES},
    digest::Digest,
    records::Change,
};

#[derive(Debug)]
pub(crate) struct ProposedFile {
    pub(crate) change: Change,
    pub(crate) current: Option<Digest>,
    /// Digest of the content to apply, which is the draft or its merge with a concurrent change. `None` if the file is
    /// deleted.
    pub(crate) new: Option<Digest>,
    pub(crate) new_text: String,
    pub(crate) mode: u32,
    pub(crate) new_folders: usize,
    pub(crate) comparison: Rc<Comparison>,
}

impl ProposedFile {
    pub(crate) fn diff(&self) -> &FileDiff {
        &self.comparison.diff
    }

    /// Returns the change as a unified diff with file names.
    pub(crate) fn unified(&self) -> String {
        let path = &self.change.path;
        let name = |prefix: &str, is_there: bool| {
            if is_there { format!("{prefix}/{path}") } else { "/dev/null".to_owned() }
        };
        let (old, new) = (name("a", self.current.is_some()), name("b", self.new.is_some()));
        let note = match self.diff().precision {
            DiffPrecision::Omitted => {
                format!("@@ not shown: the file has more than {MAX_LINES} lines @@\n")
            }
            DiffPrecision::Exact | DiffPrecision::Coarse => String::new(),
        };
        format!("--- {old}\n+++ {new}\n{note}{}", self.diff().unified)
    }
}
