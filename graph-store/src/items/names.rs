//! Names as bytes that sort as the names do.
//!
//! A label is followed by a zero byte, which no label contains. So `a` and all below it lie between `a\0` and
//! `a\x01`, and before `a!`, as namespaces are ordered. Keys are plain bytes: they may contain anything.

use graph_core::store::{Address, Namespace, StoreError};

/// Where an item lies: the columns of its primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) namespace: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Spot {
    pub(crate) fn of(at: &Address) -> Self {
        Self { namespace: bytes(at.namespace()), key: at.key().as_bytes().to_vec() }
    }

    pub(super) fn address(&self) -> Result<Address, StoreError> {
        let key = str::from_utf8(&self.key).map_err(StoreError::backend)?;
        Address::new(&namespace(&self.namespace)?, key)
    }
}

/// The namespaces that start with these labels: from the first bytes on, and before the second.
pub(crate) fn range(prefix: &[String]) -> (Vec<u8>, Vec<u8>) {
    let from = bytes(prefix);
    let mut to = from.clone();
    match to.last_mut() {
        Some(end) => *end = 1,
        // No text has such a byte.
        None => to.push(0xff),
    }
    (from, to)
}

/// Reads a namespace back.
pub(crate) fn namespace(bytes: &[u8]) -> Result<Namespace, StoreError> {
    let text = str::from_utf8(bytes).map_err(StoreError::backend)?;
    let labels: Vec<&str> = text.strip_suffix('\0').unwrap_or(text).split('\0').collect();
    Namespace::new(&labels)
}

fn bytes(labels: &[String]) -> Vec<u8> {
    labels.iter().flat_map(|it| it.bytes().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use graph_core::store::Namespace;

    use super::{bytes, namespace, range};

    #[test]
    fn bytes_sort_as_namespaces_do_and_lead_back() {
        let mut namespaces: Vec<Namespace> = [
            &["a"][..],
            &["a", "b"],
            &["a", "b", "c"],
            &["a\u{1}"],
            &["a!"],
            &["ab"],
            &["A"],
            &["é"],
            &["a", "\u{10FFFF}"],
            &["a", "\u{1}"],
            &["\u{10FFFF}"],
            &["\u{FFFF}"],
        ]
        .iter()
        .map(|it| Namespace::new(it).unwrap())
        .collect();
        namespaces.sort();
        assert!(namespaces.is_sorted_by_key(|it| bytes(it)));
        for it in &namespaces {
            assert_eq!(&namespace(&bytes(it)).unwrap(), it);
            for prefix in &namespaces {
                let (from, to) = range(prefix);
                let inside = (from..to).contains(&bytes(it));
                assert_eq!(inside, it.starts_with(prefix), "{it} in {prefix}");
            }
            let (from, to) = range(&[]);
            assert!((from..to).contains(&bytes(it)));
        }
    }
}
