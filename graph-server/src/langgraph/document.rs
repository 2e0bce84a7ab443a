//! The form in which objects of the API are stored.

use serde::{Serialize, de::DeserializeOwned};

use super::{
    authorize::Resource,
    error::{ApiError, ApiResult},
    storage::Row,
};

/// An object that is stored in the database.
pub(super) trait Document: Serialize + DeserializeOwned {
    /// Name of this kind of object.
    const KIND: &'static str;

    /// Whether objects without an owner are visible to every client.
    const SHARED: bool = false;

    /// Resources for which the decisions of an authorizer determine the visibility of these objects.
    const RESOURCES: &'static [Resource] = &[];

    /// Whether objects of this kind have a field `metadata`. Objects without metadata are found only through
    /// objects that have it.
    const HAS_METADATA: bool = false;

    /// Returns the id, which is unique among objects of this kind.
    fn id(&self) -> String;

    /// Returns the id of the object that this one belongs to.
    fn parent(&self) -> Option<String> {
        None
    }

    /// Returns the status by which objects can be selected.
    fn status(&self) -> Option<String> {
        None
    }
}

/// Converts an object to the form in which it is stored. A new object belongs to `owner`.
pub(super) fn to_row<T: Document>(document: &T, owner: Option<&str>) -> ApiResult<Row> {
    Ok(Row {
        kind: T::KIND,
        id: document.id(),
        parent: document.parent(),
        status: document.status(),
        data: serde_json::to_string(document).map_err(|error| ApiError::internal(&error))?,
        owner: owner.map(str::to_owned),
    })
}

/// Restores an object from its stored form.
pub(super) fn from_data<T: Document>(data: &str) -> ApiResult<T> {
    serde_json::from_str(data).map_err(|error| ApiError::internal(&error))
}
