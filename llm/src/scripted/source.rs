//! The source that templates are filled from: captures, lists and random choices.

use std::{collections::BTreeMap, rc::Rc};

use serde_json::Value;

use super::{
    capture::CaptureLookup,
    seeded_rng::{SeededRng, mix},
    template::as_text,
    tree::Tree,
};

/// The lists of a script, by name.
pub(crate) type Lists = BTreeMap<String, Vec<Entry>>;

/// A phrase in a list, with its optional label.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) tree: Tree,
    pub(crate) label: Option<String>,
}

/// Everything that the templates of one answer are filled from.
pub(crate) struct TemplateSource<'a> {
    found: &'a CaptureLookup<'a>,
    lists: &'a Lists,
    pub(crate) rng: SeededRng,
    /// Seed for the order of phrases in lists. It is the same for all answers of a conversation.
    order: u64,
    /// Number of the turn in the conversation. Each turn starts one phrase later in every list.
    turn: usize,
    /// How often each name has been used in this answer.
    used: BTreeMap<String, usize>,
    /// For each label, the position of the labelled entry in its array in this answer, starting at 1.
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

    /// Returns the script's seed, for choices that are the same in all answers.
    pub(crate) fn seed(&self) -> u64 {
        self.found.seed()
    }

    /// Returns whether this name has a captured text, or a list with at least one phrase that can be filled.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.found.get(name).is_some() || !self.phrases(name).is_empty()
    }

    /// Returns the first captured text with this name.
    pub(crate) fn capture(&self, name: &str) -> Option<String> {
        self.found.get(name)?.first().cloned()
    }

    /// Returns the position of the entry with this label, if the answer already contains that entry.
    pub(crate) fn place(&self, label: &str) -> Option<usize> {
        self.places.get(label).copied()
    }

    /// Returns those phrases of a list that can be filled.
    fn phrases(&self, name: &str) -> Vec<&'a Entry> {
        let phrases: &'a [Entry] = self.lists.get(name).map(Vec::as_slice).unwrap_or_default();
        phrases.iter().filter(|it| it.tree.can_fill(self)).collect()
    }

    /// Returns the first captured text with this name, or else the next phrase of the list with this name.
    pub(crate) fn first(&mut self, name: &str) -> String {
        self.capture(name).unwrap_or_else(|| as_text(self.phrase(name)))
    }

    /// Returns the next phrase of a list, filled. The order of phrases is shuffled once per conversation, and each
    /// turn starts one phrase later, so phrases rarely repeat although no state is kept between calls.
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

    /// Returns one of the captured texts with this name, or else the next phrase of the list with this name. Repeated
    /// uses in an answer return different texts until all of them have been used.
    pub(crate) fn any(&mut self, name: &str) -> String {
        let Some(all) = self.found.get(name) else {
            return as_text(self.phrase(name));
        };
        let used = self.use_of(name);
        let order = SeededRng::of(mix(self.order, &self.turn.to_le_bytes()), name).order(all.len());
        all[order[used % all.len()]].clone()
    }

    /// Returns all captured texts with this name, or else all phrases.
    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        match self.found.get(name) {
            Some(captures) => captures.to_vec(),
            None => self.phrases(name).iter().map(|it| as_text(it.tree.fill(self))).collect(),
        }
    }

    /// Returns the first captured texts with this name, or else the first phrases. Their number is chosen at random
    /// from `least` to `most`.
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
