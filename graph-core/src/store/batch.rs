//! Batches, which run several operations in one call.

use super::{Address, Get, Item, ListNamespaces, Namespace, Put, Search};

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
