//! Batches, which run several operations in one call.

use crate::store::{
    error::StoreError,
    item::Item,
    namespace::{Address, Namespace},
    put::Put,
    query::{Get, ListNamespaces, Search},
};

/// One operation of a [`batch`](super::Store::batch).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Op {
    /// Writes an item.
    Put(Put),
    /// Reads an item.
    Get(Get),
    /// Removes an item.
    Delete(Address),
    /// Searches for items.
    Search(Search),
    /// Lists namespaces.
    List(ListNamespaces),
}

/// The output of one operation of a [`batch`](super::Store::batch).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum OpOutput {
    /// A put or delete succeeded.
    Done,
    /// The item that a get found, if there is one.
    Item(Option<Item>),
    /// The items that a search found.
    Items(Vec<Item>),
    /// The namespaces that were listed.
    Namespaces(Vec<Namespace>),
}

/// Creates the error for a `batch` implementation that returned the wrong variant for an operation. The message
/// contains no stored values, because it may be logged.
pub(super) fn unexpected_output(operation: &str, output: Option<&OpOutput>) -> StoreError {
    let output = match output {
        None => "no output",
        Some(OpOutput::Done) => "`Done`",
        Some(OpOutput::Item(_)) => "an item",
        Some(OpOutput::Items(_)) => "items",
        Some(OpOutput::Namespaces(_)) => "namespaces",
    };
    StoreError::backend(format!(
        "`batch` returned {output} for {operation}; this is a bug in the store implementation"
    ))
}
