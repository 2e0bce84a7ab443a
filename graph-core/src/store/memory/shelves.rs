//! Shelves: the items in memory, and what is done with them (no lock, no async).

use std::{
    collections::BTreeMap,
    ops::Bound,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::super::{
    Address, Get, Item, ListNamespaces, Namespace, Op, Outcome, Put, Search, StoreError,
    backend::{Moment, Ranking},
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
            Op::Search(search) => {
                let query = vectors.first().map(Vec::as_slice);
                Outcome::Items(self.search(&search, query, moment)?)
            }
            Op::List(list) => Outcome::Namespaces(self.list(&list, moment)?),
        })
    }

    fn put(&mut self, put: Put, vectors: Vec<Vec<f32>>, moment: Moment) {
        let Put { at: Address { namespace, key }, value, ttl, .. } = put;
        let lifetime = moment.ttl.lifetime(ttl);
        let shelf = self.0.entry(namespace).or_default();
        let before = shelf.get(&key).filter(|it| moment.shows(it.expires_at));
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

    fn get(&mut self, get: &Get, moment: Moment) -> Option<Item> {
        let (namespace, key) = (get.at.namespace(), get.at.key());
        let entry = self.0.get_mut(namespace)?.get_mut(key)?;
        if !moment.shows(entry.expires_at) {
            self.remove(&get.at);
            return None;
        }
        entry.touch(get.refresh_ttl, moment);
        Some(entry.item(namespace, key))
    }

    fn remove(&mut self, at: &Address) {
        let Some(shelf) = self.0.get_mut(at.namespace()) else { return };
        shelf.remove(at.key());
        if shelf.is_empty() {
            self.0.remove(at.namespace());
        }
    }

    fn search(
        &mut self,
        search: &Search,
        query: Option<&[f32]>,
        moment: Moment,
    ) -> Result<Vec<Item>, StoreError> {
        let mut ranking = Ranking::new(search, query)?;
        let under = self.0.range_mut::<[String], _>(from(&search.prefix));
        let under = under.take_while(|(namespace, _)| namespace.starts_with(&search.prefix));
        for (namespace, shelf) in under {
            for (key, entry) in shelf {
                if ranking.is_full() {
                    break;
                }
                if moment.shows(entry.expires_at) && search.filter.matches(&entry.value) {
                    let score = ranking.score(entry.vectors.iter().map(Vec::as_slice));
                    ranking.offer(score, (namespace, key, entry));
                }
            }
        }
        let give = |(score, (namespace, key, entry)): (_, (&Namespace, &String, &mut Entry))| {
            entry.touch(search.refresh_ttl, moment);
            Item { score, ..entry.item(namespace, key) }
        };
        Ok(ranking.into_page().map(give).collect())
    }

    fn list(&self, list: &ListNamespaces, moment: Moment) -> Result<Vec<Namespace>, StoreError> {
        let fixed = list.fixed_prefix();
        let holding = self
            .0
            .range::<[String], _>(from(fixed))
            .take_while(|(namespace, _)| namespace.starts_with(fixed))
            .filter(|(_, shelf)| shelf.values().any(|it| moment.shows(it.expires_at)));
        list.choose(holding.map(|(namespace, _)| namespace))
    }

    pub(super) fn sweep(&mut self, moment: Moment) -> usize {
        let before = self.len();
        self.0.retain(|_, shelf| {
            shelf.retain(|_, entry| !moment.is_past(entry.expires_at));
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

    fn touch(&mut self, refresh: Option<bool>, moment: Moment) {
        if moment.refreshes(refresh) {
            self.expires_at = moment.after(self.lifetime);
        }
    }
}

/// Starts where namespaces with this prefix do; they lie side by side.
fn from(prefix: &[String]) -> (Bound<&[String]>, Bound<&[String]>) {
    (Bound::Included(prefix), Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::TtlConfig, *};

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
