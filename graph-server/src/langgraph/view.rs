//! The objects that a client sees.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    authorize::{Action, Resource},
    document::Document,
    json_filter::contains_all,
    storage::Filter,
};

/// The objects that a client sees, and the owner of the objects that it creates.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Only the objects of this owner. `None`: the objects of all owners.
    filter: Option<Arc<str>>,
    /// Owner of new objects.
    owner: Option<Arc<str>>,
    /// Metadata that determines which objects are visible, instead of their owners.
    required: Option<Arc<RequiredMetadata>>,
}

/// Entries that the metadata of visible objects contains, for the resources that a request accesses.
#[derive(Debug)]
struct RequiredMetadata {
    entries: Map<String, Value>,
    access: &'static [(Resource, Action)],
}

impl View {
    /// Returns the view of a client that sees only the objects of its owner.
    pub(super) fn of_owner(owner: &str) -> Self {
        let owner: Arc<str> = owner.into();
        Self { filter: Some(owner.clone()), owner: Some(owner), required: None }
    }

    /// Returns the view of a client that sees the objects of all owners.
    pub(super) fn of_admin(owner: &str) -> Self {
        Self { filter: None, owner: Some(owner.into()), required: None }
    }

    /// Returns a view in which the metadata of an object determines whether it is visible, instead of its owner. This
    /// applies to the objects of the resources in `access`.
    pub(super) fn requiring(
        self,
        entries: Map<String, Value>,
        access: &'static [(Resource, Action)],
    ) -> Self {
        Self { required: Some(Arc::new(RequiredMetadata { entries, access })), ..self }
    }

    /// Returns the entries that the metadata of objects of this kind must contain, if this determines their visibility.
    pub(super) fn required<T: Document>(&self) -> Option<&Map<String, Value>> {
        let required = self.required.as_deref()?;
        let is_subject = |(it, _): &(Resource, Action)| T::RESOURCES.contains(it);
        required.access.iter().any(is_subject).then_some(&required.entries)
    }

    /// Adds the entries that an object needs to be visible to the client.
    pub(super) fn add_required<T: Document>(&self, metadata: &mut Map<String, Value>) {
        metadata.extend(self.required::<T>().cloned().into_iter().flatten());
    }

    /// Returns whether an object of this kind with this owner and metadata is visible.
    pub(super) fn sees<T: Document>(
        &self,
        owner: Option<&str>,
        metadata: &Map<String, Value>,
    ) -> bool {
        match self.required::<T>() {
            Some(required) => contains_all(metadata, required),
            None => self.sees_owner(owner),
        }
    }

    pub(super) fn sees_owner(&self, owner: Option<&str>) -> bool {
        self.filter.as_deref().is_none_or(|it| owner == Some(it))
    }

    /// Returns the owner to whose objects the view is restricted.
    pub(super) fn restricted_to(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Returns the owner of new objects.
    pub(super) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Returns the filter for the documents of this kind that the client sees.
    pub(super) fn filter<T: Document>(&self) -> Filter<'_> {
        Filter { shared: T::SHARED, ..self.change_filter::<T>() }
    }

    /// Returns the filter for the documents of this kind that the client may change.
    pub(super) fn change_filter<T: Document>(&self) -> Filter<'_> {
        let required = self.required::<T>();
        Filter {
            owner: self.restricted_to().filter(|_| required.is_none()),
            shared: false,
            metadata: required.filter(|_| T::HAS_METADATA),
        }
    }
}
