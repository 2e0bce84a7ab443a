//! What templates are filled from: what a request has, the lists of the script, and chance.

use std::{collections::BTreeMap, rc::Rc};

use serde_json::Value;

use super::{
    capture::CaptureLookup,
    seeded_rng::{SeededRng, mix},
    template::as_text,
    tree::Tree,
};

/// The lists of a script.
pub(crate) type Lists = BTreeMap<String, Vec<Entry>>;

/// An entry of a list.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) tree: Tree,
    pub(crate) label: Option<String>,
}

/// What templates are filled from.
pub(crate) struct TemplateSource<'a> {
    found: &'a CaptureLookup<'a>,
    lists: &'a Lists,
    pub(crate) rng: SeededRng,
    /// Decides the order in which a list's phrases come, the same all through a conversation.
    order: u64,
    /// How far the conversation has come.
    turn: usize,
    /// How often each name was used in this answer.
    used: BTreeMap<String, usize>,
    /// Where in their arrays the labelled entries stand, from one.
    places: BTreeMap<String, usize>,
}

impl<'a> TemplateSource<'a> {
    pub(crate) fn new(
        found: &'a CaptureLookup<'a>,
        lists: &'a Lists,
        rng: SeededRng,
        order: u64,
        turn: usize,
    ) -> Self {
        let (used, places) = Default::default();
        Self { found, lists, rng, order, turn, used, places }
    }

    /// Decides what is to be the same in all answers of a script.
    pub(crate) fn seed(&self) -> u64 {
        self.found.seed()
    }

    /// Whether there is a capture or a phrase of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.found.get(name).is_some() || !self.phrases(name).is_empty()
    }

    /// The first capture of this name.
    pub(crate) fn capture(&self, name: &str) -> Option<String> {
        self.found.get(name)?.first().cloned()
    }

    /// Where the entry with this label stands.
    pub(crate) fn place(&self, label: &str) -> Option<usize> {
        self.places.get(label).copied()
    }

    /// The phrases of a list for which all is there that they use.
    fn phrases(&self, name: &str) -> Vec<&'a Entry> {
        let phrases: &'a [Entry] = self.lists.get(name).map(Vec::as_slice).unwrap_or_default();
        phrases.iter().filter(|it| it.tree.can_fill(self)).collect()
    }

    /// The first capture, or the next phrase.
    pub(crate) fn first(&mut self, name: &str) -> String {
        self.capture(name).unwrap_or_else(|| as_text(self.phrase(name)))
    }

    /// The next phrase of a list. The order is shuffled once a conversation, and each turn begins one further
    /// on, so phrases come back late though nothing is remembered.
    pub(crate) fn phrase(&mut self, name: &str) -> Value {
        let phrases = self.phrases(name);
        let n = phrases.len();
        if n == 0 {
            return Value::String(String::new());
        }
        let used = self.use_of(name);
        let order = SeededRng::of(self.order, name).order(n);
        let place = self.turn.wrapping_add(used * (n / 2 + 1));
        phrases[order[place % n]].tree.fill(self)
    }

    /// One of all captures, another one each time.
    pub(crate) fn any(&mut self, name: &str) -> String {
        let Some(all) = self.found.get(name) else {
            return as_text(self.phrase(name));
        };
        let used = self.use_of(name);
        let order = SeededRng::of(mix(self.order, &self.turn.to_le_bytes()), name).order(all.len());
        all[order[used % all.len()]].clone()
    }

    /// All captures or phrases.
    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        match self.found.get(name) {
            Some(captures) => captures.to_vec(),
            None => self.phrases(name).iter().map(|it| as_text(it.tree.fill(self))).collect(),
        }
    }

    /// The first so many of all captures or phrases, as many as there are at most.
    pub(crate) fn some(&mut self, name: &str, least: i64, most: i64) -> Vec<Value> {
        let captures: Option<Rc<[String]>> = self.found.get(name);
        let phrases = if captures.is_none() { self.phrases(name) } else { Vec::new() };
        let n = usize::try_from(self.rng.between(least, most)).unwrap_or(0);
        if let Some(captures) = captures {
            return captures.iter().take(n).cloned().map(Value::String).collect();
        }
        let fill = |(place, entry): (usize, &Entry)| {
            self.places.extend(entry.label.clone().map(|it| (it, place)));
            entry.tree.fill(self)
        };
        (1..).zip(phrases.into_iter().take(n)).map(fill).collect()
    }

    fn use_of(&mut self, name: &str) -> usize {
        let used = self.used.entry(name.to_owned()).or_insert(0);
        *used += 1;
        *used - 1
    }
}
