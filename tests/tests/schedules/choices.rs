//! Depth-first enumeration of all sequences of choices.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A sequence of choices. Clones share the sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices(Arc<Mutex<ChoiceData>>);

#[derive(Debug, Default)]
struct ChoiceData {
    /// The option that is chosen at each point, and the number of options.
    path: Vec<(usize, usize)>,
    position: usize,
}

impl Choices {
    /// Returns the next choice, which is less than `options`.
    pub(crate) fn choose(&self, options: usize) -> usize {
        let mut data = self.lock();
        let position = data.position;
        data.position += 1;
        match data.path.get(position) {
            Some((choice, expected)) => {
                assert_eq!(*expected, options, "the same choices lead to the same options");
                *choice
            }
            None => {
                data.path.push((0, options));
                0
            }
        }
    }

    /// Moves to the next sequence. Returns `false` after the last one.
    pub(crate) fn advance(&self) -> bool {
        let mut data = self.lock();
        data.position = 0;
        while let Some((choice, options)) = data.path.pop() {
            if choice + 1 < options {
                data.path.push((choice + 1, options));
                return true;
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, ChoiceData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
