//! Writes in their stored form.

use std::sync::Arc;

use graph_core::checkpoint::Write;

use crate::{
    codec::{Codec, CodecError},
    stored::{Put, Records},
};

/// One write. Shared: it may be stored by somebody else's statement, along with others.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(Arc<Put>),
    Record(Arc<Records>),
}

impl Op {
    pub(super) fn new(codec: &Codec, write: Write) -> Result<Self, CodecError> {
        match write {
            Write::Put(checkpoint) => {
                Put::new(codec, *checkpoint).map(|it| Self::Put(Arc::new(it)))
            }
            Write::Record(place, records) => {
                Records::new(codec, place, &records).map(|it| Self::Record(Arc::new(it)))
            }
        }
    }
}
