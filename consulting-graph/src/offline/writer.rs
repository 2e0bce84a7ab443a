//! Chooses the texts of one answer and fills them in.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use app_support::plural::counted;
use minijinja::{Environment, UndefinedBehavior, Value, value::Rest};
use serde::Deserialize;

use crate::{data::SeededRng, finding::Kind, moves::Risk};

/// The texts of the board, which are minijinja templates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    /// Lists of phrases, by name.
    pub(super) phrases: BTreeMap<String, Vec<String>>,
    pub(super) tensions: Vec<TensionText>,
    pub(super) moves: Vec<MoveText>,
}

/// Text about two findings that contradict each other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensionText {
    /// Labels of the two findings.
    pub(super) between: [String; 2],
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveText {
    /// Name of the analyst.
    pub(super) author: String,
    pub(super) risk: Risk,
    pub(super) title: String,
    pub(super) thesis: String,
    /// Topics of the findings that the move is based on: two topics from F1, then two from F2.
    pub(super) findings: [Kind; 4],
    /// Sentence that links the company's situation to its market. A finding about the market follows.
    pub(super) argument: String,
    /// Action, owner and timeframe of each step.
    pub(super) steps: Vec<[String; 3]>,
    /// Noun phrase, because the critic uses it within sentences.
    pub(super) cost: String,
    pub(super) downside: String,
    pub(super) mitigation: String,
    pub(super) falsifier: String,
    pub(super) kpi: String,
}

impl MoveText {
    fn templates(&self) -> impl Iterator<Item = &String> {
        let Self { title, thesis, argument, cost, downside, mitigation, falsifier, kpi, .. } = self;
        let parts = [title, thesis, argument, cost, downside, mitigation, falsifier, kpi];
        parts.into_iter().chain(self.steps.iter().flatten())
    }

    /// Returns whether a template of the move refers to this name.
    pub(super) fn refers_to(&self, name: &str) -> bool {
        self.templates().any(|it| it.contains(name))
    }
}

/// The texts in `config/board.toml`.
pub(super) static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    toml::from_str(include_str!("../../config/board.toml")).expect("the built-in texts are valid")
});

/// Chooses the texts of one answer and fills them in. The choices depend only on the arguments of [`new`](Self::new).
pub(super) struct Writer {
    environment: Environment<'static>,
    rng: Arc<Mutex<SeededRng>>,
    /// Seed that determines the order of the phrases in each list.
    topic: String,
    turn: usize,
    mistakes: bool,
}

impl Writer {
    /// Creates a writer for one answer. The topic determines the order of the phrases in each list, and each turn
    /// starts one phrase later in that order. Phrases therefore rarely repeat, although no state is kept between calls.
    /// All other random choices depend on the topic, the turn and the question.
    pub(super) fn new(topic: String, turn: u32, question: &str, mistakes: bool) -> Self {
        let rng = SeededRng::from_text(&format!("{topic}\n{turn}\n{question}"));
        let rng = Arc::new(Mutex::new(rng));
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let shared = rng.clone();
        environment.add_function("number", move |low, high| draw(&shared, low, high));
        let shared = rng.clone();
        environment.add_function("count", move |low, high, noun: String| {
            counted(draw(&shared, low, high), &noun, &format!("{noun}s"))
        });
        let shared = rng.clone();
        environment.add_function("pick", move |texts: Rest<String>| {
            texts.get(index(&shared, texts.len())).cloned().unwrap_or_default()
        });
        Self { environment, rng, topic, turn: turn as usize, mistakes }
    }

    /// Adds a template function that returns one of the texts on each call. It returns every text once before it
    /// repeats any.
    pub(super) fn add_texts(&mut self, function: &'static str, texts: Vec<String>) {
        let order = self.order(&format!("{function} {}", self.turn), texts.len());
        let used = AtomicUsize::new(0);
        let next = move || {
            let place = used.fetch_add(1, Ordering::Relaxed) % order.len().max(1);
            order.get(place).map(|it| texts[*it].clone()).unwrap_or_default()
        };
        self.environment.add_function(function, next);
    }

    /// Draws a number from `low` to `high`, both inclusive.
    pub(super) fn number(&self, low: i64, high: i64) -> i64 {
        draw(&self.rng, low, high)
    }

    /// Draws one of several items.
    pub(super) fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[index(&self.rng, items.len())]
    }

    /// Randomly decides whether the answer contains a mistake that occurs in `per_mille` of 1000 answers. Always
    /// returns `false` if mistakes are disabled.
    pub(super) fn makes_mistake(&self, per_mille: i64) -> bool {
        self.mistakes && self.number(1, 1000) <= per_mille
    }

    /// Fills in a template. Returns `None` if the template uses a name that is missing from `names`.
    pub(super) fn fill(&self, template: &str, names: &Value) -> Option<String> {
        self.environment.render_str(template, names).ok()
    }

    /// Selects a phrase from a list by this writer's turn and fills it in. Phrases that use a missing name are skipped.
    pub(super) fn phrase(&self, list: &str, names: &Value) -> String {
        self.phrase_at(self.turn, list, names)
    }

    /// Like [`phrase`](Self::phrase), but selects the phrase by the given turn.
    pub(super) fn phrase_at(&self, turn: usize, list: &str, names: &Value) -> String {
        let phrases = TEXTS.phrases.get(list).map_or(&[][..], Vec::as_slice);
        let order = self.order(list, phrases.len());
        let rotated = order.iter().cycle().skip(turn).take(order.len());
        rotated.map(|it| &phrases[*it]).find_map(|it| self.fill(it, names)).unwrap_or_default()
    }

    /// Returns the numbers below `n` in a random order that depends only on the topic and `name`.
    pub(super) fn order(&self, name: &str, n: usize) -> Vec<usize> {
        let mut rng = SeededRng::from_text(&format!("{}\n{name}", self.topic));
        let mut order: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
        }
        order
    }
}

fn draw(rng: &Mutex<SeededRng>, low: i64, high: i64) -> i64 {
    rng.lock().unwrap_or_else(PoisonError::into_inner).between(low, high)
}

fn index(rng: &Mutex<SeededRng>, n: usize) -> usize {
    draw(rng, 0, n.saturating_sub(1) as i64) as usize
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    fn all_templates() -> impl Iterator<Item = &'static String> {
        let texts = &*TEXTS;
        let moves = texts.moves.iter().flat_map(MoveText::templates);
        let tensions = texts.tensions.iter().map(|it| &it.text);
        texts.phrases.values().flatten().chain(tensions).chain(moves)
    }

    #[test]
    fn all_texts_are_valid_templates() {
        for text in all_templates() {
            let checked = Environment::new().template_from_str(text).map(drop);
            assert!(checked.is_ok(), "{text}: {checked:?}");
        }
    }

    /// A number that can be 1 must not be followed by a plural noun such as "years"; `count` inserts the right form.
    #[test]
    fn nouns_agree_with_their_numbers() {
        for text in all_templates() {
            for call in text.split("{{ number(").skip(1) {
                let (arguments, rest) = call.split_once(") }}").unwrap_or((call, ""));
                let low = arguments.split(',').next().unwrap_or_default().parse::<i64>();
                let is_counted = rest.strip_prefix(' ').is_some_and(|it| {
                    it.split(|it: char| !it.is_alphabetic())
                        .next()
                        .is_some_and(|it| it.ends_with('s'))
                });
                assert!(low.is_ok_and(|it| it > 1) || !is_counted, "{text}");
            }
        }
        let writer = Writer::new("topic".to_owned(), 1, "question", false);
        let fill = |template| writer.fill(template, &context! {}).unwrap();
        assert_eq!(fill("{{ count(1, 1, 'year') }} of cash"), "1 year of cash");
        assert_eq!(fill("{{ count(2, 2, 'year') }} of cash"), "2 years of cash");
    }
}
