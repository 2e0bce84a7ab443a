//! Shelves: the items in memory, and what is done with them (no lock, no async).

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::super::{
    Address, Get, Item, ListNamespaces, Namespace, Op, Outcome, Put, Search, StoreError, TtlConfig,
    similarity,
};

/// Holds the items of each namespace; a namespace without items is not there.
#[derive(Default)]
pub(super) struct Shelves(BTreeMap<Namespace, Shelf>);

type Shelf = BTreeMap<String, Entry>;

struct Entry {
    value: Value,
    created_at: SystemTime,
    updated_at: SystemTime,
    vectors: Vec<Vec<f32>>,
    lifetime: Option<Duration>,
    expires_at: Option<SystemTime>,
}

/// The time of an operation, and what it means for the items.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: SystemTime,
    pub(super) ttl: TtlConfig,
}

impl Shelves {
    pub(super) fn apply(
        &mut self,
        op: Op,
        vectors: Vec<Vec<f32>>,
        moment: Moment,
    ) -> Result<Outcome, StoreError> {
        Ok(match op {
            Op::Put(put) => {
                self.put(put, vectors, moment);
                Outcome::Done
            }
            Op::Get(get) => Outcome::Item(self.get(&get, moment)),
            Op::Delete(at) => {
                self.remove(&at);
                Outcome::Done
            }
            Op::Search(search) => Outcome::Items(self.search(&search, vectors.first(), moment)?),
            Op::List(list) => Outcome::Namespaces(self.list(&list, moment)?),
        })
    }

    fn put(&mut self, put: Put, vectors: Vec<Vec<f32>>, moment: Moment) {
        let Put { at: Address { namespace, key }, value, ttl, .. } = put;
        let lifetime = moment.ttl.lifetime(ttl);
        let shelf = self.0.entry(namespace).or_default();
        let before = shelf.get(&key).filter(|it| moment.shows(it));
        let created_at = before.map_or(moment.now, |it| it.created_at);
        let entry = Entry {
            value: Value::Object(value),
            created_at,
            // A clock that was set back must not date a change before the creation.
            updated_at: moment.now.max(created_at),
            vectors,
            lifetime,
            expires_at: moment.after(lifetime),
        };
        shelf.insert(key, entry);
    }

    pub(super) fn get(&mut self, get: &Get, moment: Moment) -> Option<Item> {
        let (namespace, key) = (get.at.namespace(), get.at.key());
        let entry = self.0.get_mut(namespace)?.get_mut(key)?;
        if !moment.shows(entry) {
            self.remove(&get.at);
            return None;
        }
        entry.touch(get.refresh_ttl, moment);
        Some(entry.item(namespace, key))
    }

    pub(super) fn remove(&mut self, at: &Address) {
        let Some(shelf) = self.0.get_mut(at.namespace()) else { return };
        shelf.remove(at.key());
        if shelf.is_empty() {
            self.0.remove(at.namespace());
        }
    }

    pub(super) fn search(
        &mut self,
        search: &Search,
        query: Option<&Vec<f32>>,
        moment: Moment,
    ) -> Result<Vec<Item>, StoreError> {
        let page = search.page()?;
        let mut hits = Vec::new();
        for (namespace, shelf) in self.0.range_mut::<[String], _>(from(&search.prefix)) {
            if !namespace.starts_with(&search.prefix) {
                break;
            }
            for (key, entry) in shelf {
                if moment.shows(entry) && search.filter.matches(&entry.value) {
                    hits.push((query.and_then(|it| entry.score(it)), namespace, key, entry));
                }
            }
        }
        let rank = |score: Option<f32>| score.unwrap_or(f32::NEG_INFINITY);
        hits.sort_by(|(left, ..), (right, ..)| rank(*right).total_cmp(&rank(*left)));
        let give = |(score, namespace, key, entry): (_, &Namespace, &String, &mut Entry)| {
            entry.touch(search.refresh_ttl, moment);
            Item { score, ..entry.item(namespace, key) }
        };
        Ok(hits.into_iter().skip(page.start).take(page.len()).map(give).collect())
    }

    pub(super) fn list(
        &self,
        list: &ListNamespaces,
        moment: Moment,
    ) -> Result<Vec<Namespace>, StoreError> {
        let (page, depth) = (list.page()?, list.depth()?);
        let fixed = list.prefix.split(|it| it == "*").next().unwrap_or_default();
        let found: BTreeSet<Namespace> = self
            .0
            .range::<[String], _>(from(fixed))
            .take_while(|(namespace, _)| namespace.starts_with(fixed))
            .filter(|(namespace, _)| list.matches(namespace))
            .filter(|(_, shelf)| shelf.values().any(|it| moment.shows(it)))
            .map(|(namespace, _)| namespace.up_to(depth))
            .collect();
        Ok(found.into_iter().skip(page.start).take(page.len()).collect())
    }

    pub(super) fn sweep(&mut self, moment: Moment) -> usize {
        let before = self.len();
        self.0.retain(|_, shelf| {
            shelf.retain(|_, entry| !moment.is_past(entry));
            !shelf.is_empty()
        });
        before - self.len()
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(Shelf::len).sum()
    }
}

impl Entry {
    fn item(&self, namespace: &Namespace, key: &str) -> Item {
        let at = Address { namespace: namespace.clone(), key: key.to_owned() };
        Item::new(at, self.value.clone(), self.created_at, self.updated_at)
    }

    /// Gives the similarity of the best vector.
    fn score(&self, query: &[f32]) -> Option<f32> {
        self.vectors.iter().map(|it| similarity(it, query)).max_by(f32::total_cmp)
    }

    fn touch(&mut self, refresh: Option<bool>, moment: Moment) {
        if refresh.unwrap_or(moment.ttl.refresh_on_read) {
            self.expires_at = moment.after(self.lifetime);
        }
    }
}

impl Moment {
    fn is_past(self, entry: &Entry) -> bool {
        entry.expires_at.is_some_and(|it| it <= self.now)
    }

    fn shows(self, entry: &Entry) -> bool {
        !(self.ttl.omit_expired && self.is_past(entry))
    }

    /// Gives the end of a lifetime; one beyond the end of time is no end.
    fn after(self, lifetime: Option<Duration>) -> Option<SystemTime> {
        self.now.checked_add(lifetime?)
    }
}

/// Starts where namespaces with this prefix do; they lie side by side.
fn from(prefix: &[String]) -> (Bound<&[String]>, Bound<&[String]>) {
    (Bound::Included(prefix), Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_empty_namespace_stays_behind() {
        let mut shelves = Shelves::default();
        let mut moment = Moment { now: SystemTime::UNIX_EPOCH, ttl: TtlConfig::default() };
        for (key, leave) in [("deleted", false), ("swept", true)] {
            let put = Put::new(&["a"], key, json!({})).unwrap().ttl(Duration::from_secs(1));
            let at = put.at.clone();
            shelves.put(put, Vec::new(), moment);
            assert_eq!(shelves.0.len(), 1);
            if leave {
                moment.now += Duration::from_secs(1);
                shelves.sweep(moment);
            } else {
                shelves.remove(&at);
            }
            assert!(shelves.0.is_empty(), "{key}");
        }
    }
}
