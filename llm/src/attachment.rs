//! A typed value that travels with a request inside the process.

use std::{any::Any, fmt, sync::Arc};

/// The value that [`Request::attach`](crate::Request::attach) attached to a request, if any.
///
/// It is meant for models inside the process, such as a [`Scripted`](crate::Scripted) model that answers from typed
/// data instead of the prompt. It is never serialised, so providers, recordings and caches do not see it, and all
/// attachments compare as equal.
#[derive(Clone, Default)]
pub struct Attachment(Option<Arc<dyn Any + Send + Sync>>);

impl Attachment {
    pub(crate) fn new<T: Any + Send + Sync>(value: T) -> Self {
        Self(Some(Arc::new(value)))
    }

    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

impl PartialEq for Attachment {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Attachment(..)" } else { "Attachment(none)" })
    }
}
