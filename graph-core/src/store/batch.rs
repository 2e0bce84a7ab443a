//! Batch: several operations in one call.

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
    /// Finds items.
    Search(Search),
    /// Lists namespaces.
    List(ListNamespaces),
}

/// What one operation of a [`batch`](super::Store::batch) gave.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// A put or a delete was done.
    Done,
    /// A get found this.
    Item(Option<Item>),
    /// A search found these.
    Items(Vec<Item>),
    /// A listing found these.
    Namespaces(Vec<Namespace>),
}
