//! Names of nodes, and the markers START and END.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// The name of a node.
#[derive(Clone)]
pub struct Label(Name);

/// A name that is cheap to clone. Every task holds a clone of its node's name.
#[derive(Clone)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Label {
    /// Returns the name as a string.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }

    /// Returns whether both labels refer to the same string in memory.
    #[inline]
    pub(crate) fn shares_name(&self, other: &Self) -> bool {
        std::ptr::eq(self.as_str(), other.as_str())
    }

    /// Returns the name of a function, which is the last segment of its path. Returns `None` for closures.
    pub(crate) fn of_fn<F>() -> Option<Self> {
        let path = without_generics(std::any::type_name::<F>());
        // Searches bytes, not chars, for speed: a branch computes the names of its targets each time it is evaluated.
        let start = path.bytes().rposition(|it| it == b':').map_or(0, |colon| colon + 1);
        let name = &path[start..];
        (!name.starts_with('{')).then_some(Self(Name::Static(name)))
    }

    /// Like [`of_fn`](Self::of_fn), but returns the whole path for a closure.
    ///
    /// A path contains `:` and is never a valid node name, so `compile` reports the closure as an unknown node.
    pub(crate) fn of_fn_or_path<F>() -> Self {
        Self::of_fn::<F>().unwrap_or(Self(Name::Static(std::any::type_name::<F>())))
    }
}

/// Strips the generic arguments from the path of a function: `log<Essay>` becomes `log`.
fn without_generics(path: &'static str) -> &'static str {
    if !path.ends_with('>') {
        return path;
    }
    let mut depth = 0;
    let open = path.bytes().rposition(|it| {
        depth += i32::from(it == b'>') - i32::from(it == b'<');
        depth == 0
    });
    &path[..open.unwrap_or(path.len())]
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Label {}

impl PartialOrd for Label {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Label {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Label {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Label").field(&self.as_str()).finish()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&'static str> for Label {
    fn from(name: &'static str) -> Self {
        Self(Name::Static(name))
    }
}

impl From<String> for Label {
    fn from(name: String) -> Self {
        Self(Name::Shared(Arc::from(name)))
    }
}

impl std::borrow::Borrow<str> for Label {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// Type of [`START`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start;

/// Type of [`END`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End;

/// The entry of a graph, where every run starts. Only valid as the source of an edge.
pub const START: Start = Start;

/// The end of a path through a graph. Only valid as the target of an edge.
pub const END: End = End;

pub(crate) const START_NAME: &str = "__start__";

pub(crate) const END_NAME: &str = "__end__";
