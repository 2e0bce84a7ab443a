//! The items of an in-memory store and the operations on them, without locking or async.

use std::{
    collections::BTreeMap,
    ops::Bound,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::store::{
    backend::{Ranking, TtlContext},
    batch::{Op, OpOutput},
    error::StoreError,
    item::Item,
    namespace::{Address, Namespace},
    put::Put,
    query::{Get, ListNamespaces, Search},
};

/// All items, keyed by namespace and key. Namespaces without items are removed.
#[derive(Default)]
pub(super) struct ItemTable(BTreeMap<Namespace, NamespaceItems>);

type NamespaceItems = BTreeMap<String, Entry>;

struct Entry {
    value: Value,
    created_at: SystemTime,
    updated_at: SystemTime,
    vectors: Vec<Vec<f32>>,
    lifetime: Option<Duration>,
    expires_at: Option<SystemTime>,
}

impl ItemTable {
    pub(super) fn apply(
        &mut self,
        op: Op,
        vectors: Vec<Vec<f32>>,
        context: TtlContext,
    ) -> Result<OpOutput, StoreError> {
        Ok(match op {
            Op::Put(put) => {
                self.put(put, vectors, context);
                OpOutput::Done
            }
            Op::Get(get) => OpOutput::Item(self.get(&get, context)),
            Op::Delete(at) => {
                self.remove(&at);
                OpOutput::Done
            }
            Op::Search(search) => {
                let query = vectors.first().map(Vec::as_slice);
                OpOutput::Items(self.search(&search, query, context)?)
            }
            Op::List(list) => OpOutput::Namespaces(self.list(&list, context)?),
        })
    }

    fn put(&mut self, put: Put, vectors: Vec<Vec<f32>>, context: TtlContext) {
        let Put { at: Address { namespace, key }, value, ttl, .. } = put;
        let lifetime = context.ttl.lifetime(ttl);
        let items = self.0.entry(namespace).or_default();
        let before = items.get(&key).filter(|it| context.is_visible(it.expires_at));
        let created_at = before.map_or(context.now, |it| it.created_at);
        let entry = Entry {
            value: Value::Object(value),
            created_at,
            // If the clock was set back, the update must not appear older than the creation.
            updated_at: context.now.max(created_at),
            vectors,
            lifetime,
            expires_at: context.expires_at(lifetime),
        };
        items.insert(key, entry);
    }

    fn get(&mut self, get: &Get, context: TtlContext) -> Option<Item> {
        let (namespace, key) = (get.at.namespace(), get.at.key());
        let entry = self.0.get_mut(namespace)?.get_mut(key)?;
        if !context.is_visible(entry.expires_at) {
            self.remove(&get.at);
            return None;
        }
        entry.refresh(get.refresh_ttl, context);
        Some(entry.item(namespace, key))
    }

    fn remove(&mut self, at: &Address) {
        let Some(items) = self.0.get_mut(at.namespace()) else { return };
        items.remove(at.key());
        if items.is_empty() {
            self.0.remove(at.namespace());
        }
    }

    fn search(
        &mut self,
        search: &Search,
        query: Option<&[f32]>,
        context: TtlContext,
    ) -> Result<Vec<Item>, StoreError> {
        let mut ranking = Ranking::new(search, query)?;
        let under = self.0.range_mut::<[String], _>(range_from(&search.prefix));
        let under = under.take_while(|(namespace, _)| namespace.starts_with(&search.prefix));
        for (namespace, items) in under {
            for (key, entry) in items {
                if ranking.is_full() {
                    break;
                }
                if context.is_visible(entry.expires_at) && search.filter.matches(&entry.value) {
                    let score = ranking.score(entry.vectors.iter().map(Vec::as_slice));
                    ranking.offer(score, (namespace, key, entry));
                }
            }
        }
        let to_item = |(score, (namespace, key, entry)): (_, (&Namespace, &String, &mut Entry))| {
            entry.refresh(search.refresh_ttl, context);
            Item { score, ..entry.item(namespace, key) }
        };
        Ok(ranking.into_page().map(to_item).collect())
    }

    fn list(
        &self,
        list: &ListNamespaces,
        context: TtlContext,
    ) -> Result<Vec<Namespace>, StoreError> {
        let fixed = list.fixed_prefix();
        let nonempty = self
            .0
            .range::<[String], _>(range_from(fixed))
            .take_while(|(namespace, _)| namespace.starts_with(fixed))
            .filter(|(_, items)| items.values().any(|it| context.is_visible(it.expires_at)));
        list.select_page(nonempty.map(|(namespace, _)| namespace))
    }

    pub(super) fn sweep(&mut self, context: TtlContext) -> usize {
        let before = self.len();
        self.0.retain(|_, items| {
            items.retain(|_, entry| !context.is_expired(entry.expires_at));
            !items.is_empty()
        });
        before - self.len()
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(NamespaceItems::len).sum()
    }
}

impl Entry {
    fn item(&self, namespace: &Namespace, key: &str) -> Item {
        let at = Address { namespace: namespace.clone(), key: key.to_owned() };
        Item::new(at, self.value.clone(), self.created_at, self.updated_at)
    }

    /// Restarts the lifetime if the read request or, by default, the store's settings ask for it.
    fn refresh(&mut self, requested: Option<bool>, context: TtlContext) {
        if context.should_refresh(requested) {
            self.expires_at = context.expires_at(self.lifetime);
        }
    }
}

/// Returns the range that starts at the first namespace with this prefix. Namespaces with the same prefix are
/// adjacent in the map.
fn range_from(prefix: &[String]) -> (Bound<&[String]>, Bound<&[String]>) {
    (Bound::Included(prefix), Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::TtlConfig, *};

    #[test]
    fn empty_namespaces_are_removed() {
        let mut table = ItemTable::default();
        let mut context = TtlContext { now: SystemTime::UNIX_EPOCH, ttl: TtlConfig::default() };
        for (key, sweep) in [("deleted", false), ("swept", true)] {
            let put = Put::new(&["a"], key, json!({})).unwrap().ttl(Duration::from_secs(1));
            let at = put.at.clone();
            table.put(put, Vec::new(), context);
            assert_eq!(table.0.len(), 1);
            if sweep {
                context.now += Duration::from_secs(1);
                table.sweep(context);
            } else {
                table.remove(&at);
            }
            assert!(table.0.is_empty(), "{key}");
        }
    }
}
