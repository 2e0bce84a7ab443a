//! The objects that a client sees.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    authorize::{Action, Resource},
    document::Document,
    json_filter::contains_all,
    storage::Filter,
    store_area::StoreArea,
};

/// The objects that a client sees, and the owner of the objects that it creates.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Only the objects of this owner. `None`: the objects of all owners.
    only_owner: Option<Arc<str>>,
    /// Owner of new objects.
    owner: Option<Arc<str>>,
    /// Metadata entries that determine, for some resources, which objects are visible. They replace the
    /// check of the owner.
    required: Option<Arc<RequiredMetadata>>,
    /// Namespace of the store that the request accesses, instead of the one that it specifies.
    namespace: Option<Arc<[String]>>,
}

/// Metadata entries that objects must have to be visible. Applies to the resources that the request accesses.
#[derive(Debug)]
struct RequiredMetadata {
    entries: Map<String, Value>,
    access: &'static [(Resource, Action)],
}

impl View {
    /// Returns the view of a client that sees only the objects of its owner.
    pub(super) fn of_owner(owner: &str) -> Self {
        let owner: Arc<str> = owner.into();
        Self { only_owner: Some(owner.clone()), owner: Some(owner), ..Self::default() }
    }

    /// Returns the view of a client that sees the objects of all owners.
    pub(super) fn of_admin(owner: &str) -> Self {
        Self { owner: Some(owner.into()), ..Self::default() }
    }

    /// Returns the view of the same client, but with another owner of new objects, or with none.
    pub(super) fn creating_for(self, owner: Option<&str>) -> Self {
        Self { owner: owner.map(Into::into), ..self }
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

    /// Returns a view in which a request accesses this namespace of the store, instead of the one that it specifies.
    pub(super) fn in_namespace(self, namespace: Vec<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Returns the entries that the metadata of objects of this kind must contain, if this determines their visibility.
    pub(super) fn required<T: Document>(&self) -> Option<&Map<String, Value>> {
        self.required_for(T::RESOURCES)
    }

    fn required_for(&self, resources: &[Resource]) -> Option<&Map<String, Value>> {
        let required = self.required.as_deref()?;
        let is_subject = |(it, _): &(Resource, Action)| resources.contains(it);
        required.access.iter().any(is_subject).then_some(&required.entries)
    }

    /// Returns the part of the store that a request accesses.
    pub(super) fn store_area(&self) -> StoreArea {
        match (&self.namespace, self.required_for(&[Resource::Store]), self.only_owner.as_deref()) {
            (Some(namespace), _, _) => StoreArea::Namespace(namespace.clone()),
            (None, Some(entries), _) => StoreArea::of_entries(entries),
            (None, None, Some(owner)) => StoreArea::of_owner(owner),
            (None, None, None) => StoreArea::Everything,
        }
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
        self.only_owner.as_deref().is_none_or(|it| owner == Some(it))
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
            owner: self.only_owner.as_deref().filter(|_| required.is_none()),
            shared: false,
            metadata: required.filter(|_| T::HAS_METADATA),
        }
    }
}
