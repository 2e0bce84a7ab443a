//! Finds words in requests: the conditions of rules, and what templates take from a request.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    rc::Rc,
};

use regex::Regex;

use super::{
    seeded_rng::{SeededRng, mix},
    script::Capture,
    source::TemplateSource,
    template::Template,
};
use crate::{Request, Role};

/// A capture by pattern is a name, an id or a sentence: what is longer is not what was meant.
const MAX_CAPTURE: usize = 400;

/// What rules took from a request, by name.
pub(crate) type Captures = BTreeMap<String, Vec<String>>;

/// The words of the last one who asked.
pub(crate) fn prompt(request: &Request) -> String {
    let mut messages = request.messages.iter().rev();
    messages.find(|it| it.role == Role::User).map(crate::Message::text).unwrap_or_default()
}

/// Whether the pieces of a pattern between its stars occur one after the other, in any case of letters.
pub(crate) fn occurs(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut rest = text.as_str();
    pattern.split('*').all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// A capture that was read.
#[derive(Clone, Debug)]
pub(crate) struct Finder {
    pattern: Pattern,
    or: Option<String>,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// What stands before the place, and what behind.
    Place(String, String),
    Regex(Regex, Option<Template>),
}

impl Finder {
    /// Reads a capture; the error says what is wrong with it.
    pub(crate) fn parse(capture: &Capture) -> Result<Self, String> {
        let pattern = match capture {
            Capture::Find(find) | Capture::FindOr { find, .. } => match find.split_once("{}") {
                Some((before, after)) if !after.contains("{}") => {
                    Pattern::Place(before.to_owned(), after.to_owned())
                }
                _ => return Err("has to have one `{}` in its pattern".to_owned()),
            },
            Capture::Regex { regex, shape, .. } => {
                let regex = Regex::new(regex).map_err(|it| format!("is no expression: {it}"))?;
                let shape = shape.as_deref().map(Template::parse).transpose();
                let shape = shape.map_err(|it| format!("has a wrong `as`: {it}"))?;
                check_groups(&regex, shape.as_ref())?;
                Pattern::Regex(regex, shape)
            }
        };
        Ok(Self { pattern, or: capture.or().map(str::to_owned) })
    }

    /// Whether it knows a group by this name.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        match &self.pattern {
            Pattern::Place(..) => false,
            Pattern::Regex(regex, _) => groups(regex).iter().any(|it| it == name),
        }
    }

    /// A group of the first place where it is found.
    fn find_group(&self, texts: &[String], name: &str) -> Option<String> {
        match &self.pattern {
            Pattern::Place(..) => None,
            Pattern::Regex(regex, _) => {
                texts.iter().find_map(|it| regex.captures(it)).and_then(|it| group(&it, name))
            }
        }
    }

    /// All that is found, each once, in the order of the texts; what to take instead where nothing is.
    pub(crate) fn find(&self, texts: &[String], seed: u64) -> Vec<String> {
        let mut seen = HashSet::new();
        let all = texts.iter().flat_map(|text| match &self.pattern {
            Pattern::Place(before, after) => places(before, after, text),
            Pattern::Regex(regex, shape) => matches(regex, shape.as_ref(), text, seed),
        });
        let mut found: Vec<String> = all.filter(|it| seen.insert(it.clone())).collect();
        if found.is_empty() {
            found.extend(self.or.clone());
        }
        found
    }
}

/// The groups of an expression, by number and by name.
fn groups(regex: &Regex) -> Vec<String> {
    let numbers = (0..regex.captures_len()).map(|it| it.to_string());
    numbers.chain(regex.capture_names().flatten().map(str::to_owned)).collect()
}

fn check_groups(regex: &Regex, shape: Option<&Template>) -> Result<(), String> {
    let groups = groups(regex);
    let names = shape.map(Template::names).unwrap_or_default();
    match names.iter().find(|name| !groups.iter().any(|it| it == *name)) {
        None => Ok(()),
        Some(name) => Err(format!("has `{{{name}}}` in its `as`, which is no group: {groups:?}")),
    }
}

fn places(before: &str, after: &str, text: &str) -> Vec<String> {
    // No further than a capture can go: a long line is not read to its end from every place in it.
    let near = 2 * MAX_CAPTURE + after.len();
    let found = text.match_indices(before).filter_map(|(at, _)| {
        let rest = &text[at + before.len()..];
        let line = rest[..rest.floor_char_boundary(near)].lines().next().unwrap_or_default();
        let end = if after.is_empty() { line.len() } else { line.find(after)? };
        let capture = line[..end].trim();
        let fits = !capture.is_empty() && capture.len() <= MAX_CAPTURE;
        fits.then(|| capture.to_owned())
    });
    found.collect()
}

fn matches(regex: &Regex, shape: Option<&Template>, text: &str, seed: u64) -> Vec<String> {
    let found = regex.captures_iter(text).filter_map(|it| {
        let Some(shape) = shape else {
            return it.get(1).or_else(|| it.get(0)).map(|it| it.as_str().to_owned());
        };
        let taken = groups(regex).into_iter().filter_map(|name| {
            let text = group(&it, &name)?;
            Some((name, vec![text]))
        });
        let groups: Captures = taken.collect();
        // The same words make the same text of themselves, wherever they stand.
        let key = mix(seed, it.get(0)?.as_str().as_bytes());
        let found = CaptureLookup::of(&groups, seed);
        let lists = BTreeMap::new();
        let mut source = TemplateSource::new(&found, &lists, SeededRng::new(key), key, 0);
        shape.can_fill(&source).then(|| shape.fill(&mut source))
    });
    found.collect()
}

fn group(captures: &regex::Captures<'_>, name: &str) -> Option<String> {
    let found = name.parse().map_or_else(|_| captures.name(name), |number| captures.get(number));
    found.map(|it| it.as_str().to_owned())
}

/// The texts of a request, and what was found in them so far.
#[derive(Debug, Default)]
pub(crate) struct RequestTexts {
    pub(crate) all: Vec<String>,
    found: RefCell<BTreeMap<String, Rc<[String]>>>,
}

impl RequestTexts {
    /// The one to answer first, then the system text, then the others from the newest.
    pub(crate) fn of(request: &Request) -> Self {
        let mut messages = request.messages.iter().rev().map(crate::Message::text);
        let last = messages.next();
        let all = last.into_iter().chain(request.system.clone()).chain(messages).collect();
        Self { all, found: RefCell::default() }
    }
}

/// What is found in a request: what the rule took, and what the script's captures find when they are asked.
pub(crate) struct CaptureLookup<'a> {
    taken: &'a Captures,
    seed: u64,
    finders: Option<(&'a BTreeMap<String, Finder>, &'a RequestTexts)>,
}

impl<'a> CaptureLookup<'a> {
    pub(crate) fn of(taken: &'a Captures, seed: u64) -> Self {
        Self { taken, seed, finders: None }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Adds captures that are looked for in texts when they are asked for.
    pub(crate) fn with(self, finders: &'a BTreeMap<String, Finder>, texts: &'a RequestTexts) -> Self {
        Self { finders: Some((finders, texts)), ..self }
    }

    /// All that was found by a name; none where nothing was.
    pub(crate) fn get(&self, name: &str) -> Option<Rc<[String]>> {
        if let Some(taken) = self.taken.get(name) {
            return Some(taken.as_slice().into());
        }
        let (finders, texts) = self.finders?;
        let (base, group) = name.split_once('.').map_or((name, None), |it| (it.0, Some(it.1)));
        let finder = finders.get(base)?;
        let find = || match group {
            Some(group) => finder.find_group(&texts.all, group).into_iter().collect(),
            None => finder.find(&texts.all, self.seed).into(),
        };
        let mut known = texts.found.borrow_mut();
        let found = known.entry(name.to_owned()).or_insert_with(find);
        (!found.is_empty()).then(|| Rc::clone(found))
    }
}
