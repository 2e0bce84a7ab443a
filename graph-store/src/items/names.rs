//! Encoding of names as bytes that sort in the same order as the names.
//!
//! Each label is followed by a zero byte, which no label contains. The namespace `a` and the namespaces below it
//! therefore sort between `a\0` and `a\x01`, and before the namespace `a!`. Decoded namespaces have the same order.
//! Keys are stored unchanged and may contain any byte.

use graph_core::store::{Address, Namespace, StoreError};

/// The primary key of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemKey {
    pub(crate) namespace: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl ItemKey {
    pub(crate) fn of(at: &Address) -> Self {
        Self { namespace: encode_labels(at.namespace()), key: at.key().as_bytes().to_vec() }
    }

    pub(super) fn address(&self) -> Result<Address, StoreError> {
        let key = str::from_utf8(&self.key).map_err(StoreError::backend)?;
        Address::new(&decode_namespace(&self.namespace)?, key)
    }
}

/// Returns the byte range of all namespaces that start with these labels. The start is inclusive, the end
/// exclusive.
pub(crate) fn prefix_range(prefix: &[String]) -> (Vec<u8>, Vec<u8>) {
    let from = encode_labels(prefix);
    let mut to = from.clone();
    match to.last_mut() {
        Some(end) => *end = 1,
        // UTF-8 text never contains this byte, so it sorts after every namespace.
        None => to.push(0xff),
    }
    (from, to)
}

/// Decodes a namespace from its stored bytes.
pub(crate) fn decode_namespace(bytes: &[u8]) -> Result<Namespace, StoreError> {
    let text = str::from_utf8(bytes).map_err(StoreError::backend)?;
    let labels: Vec<&str> = text.strip_suffix('\0').unwrap_or(text).split('\0').collect();
    Namespace::new(&labels)
}

fn encode_labels(labels: &[String]) -> Vec<u8> {
    labels.iter().flat_map(|it| it.bytes().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use graph_core::store::Namespace;

    use super::{decode_namespace, encode_labels, prefix_range};

    #[test]
    fn encoded_namespaces_keep_their_order_and_round_trip() {
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
        assert!(namespaces.is_sorted_by_key(|it| encode_labels(it)));
        for it in &namespaces {
            assert_eq!(&decode_namespace(&encode_labels(it)).unwrap(), it);
            for prefix in &namespaces {
                let (from, to) = prefix_range(prefix);
                let inside = (from..to).contains(&encode_labels(it));
                assert_eq!(inside, it.starts_with(prefix), "{it} in {prefix}");
            }
            let (from, to) = prefix_range(&[]);
            assert!((from..to).contains(&encode_labels(it)));
        }
    }
}
