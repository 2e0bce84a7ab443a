//! Searches requests for the texts that conditions and captures of rules specify.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    rc::Rc,
};

use regex::Regex;

use super::{
    script::Capture,
    seeded_rng::{SeededRng, mix},
    source::TemplateSource,
    template::Template,
};
use crate::{Request, Role};

/// Maximum length, in bytes, of a text captured by a `{}` pattern. Such patterns are meant for names, ids and
/// sentences.
const MAX_CAPTURE: usize = 400;

/// Captured texts by name.
pub(crate) type Captures = BTreeMap<String, Vec<String>>;

/// Returns the text of the last user message.
pub(crate) fn prompt(request: &Request) -> String {
    let mut messages = request.messages.iter().rev();
    messages.find(|it| it.role == Role::User).map(crate::Message::text).unwrap_or_default()
}

/// Returns whether a text contains a pattern, ignoring case. Each `*` in the pattern matches any text.
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

/// A parsed and validated [`Capture`].
#[derive(Clone, Debug)]
pub(crate) struct Finder {
    pattern: Pattern,
    or: Option<String>,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// The texts before and after the captured part.
    Place(String, String),
    Regex(Regex, Option<Template>),
}

impl Finder {
    /// Parses and validates a capture.
    pub(crate) fn parse(capture: &Capture) -> Result<Self, String> {
        let pattern = match capture {
            Capture::Find(find) | Capture::FindOr { find, .. } => match find.split_once("{}") {
                Some((before, after)) if !after.contains("{}") => {
                    Pattern::Place(before.to_owned(), after.to_owned())
                }
                _ => return Err("needs exactly one `{}` in its pattern".to_owned()),
            },
            Capture::Regex { regex, shape, .. } => {
                let regex = Regex::new(regex)
                    .map_err(|it| format!("is not a valid regular expression: {it}"))?;
                let shape = shape.as_deref().map(Template::parse).transpose();
                let shape = shape.map_err(|it| format!("has an invalid `as`: {it}"))?;
                check_groups(&regex, shape.as_ref())?;
                Pattern::Regex(regex, shape)
            }
        };
        Ok(Self { pattern, or: capture.or().map(str::to_owned) })
    }

    /// Returns whether the capture is a regular expression that has a group with this name or number.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        match &self.pattern {
            Pattern::Place(..) => false,
            Pattern::Regex(regex, _) => groups(regex).iter().any(|it| it == name),
        }
    }

    /// Returns the text of a group in the first match of the regular expression.
    fn find_group(&self, texts: &[String], name: &str) -> Option<String> {
        match &self.pattern {
            Pattern::Place(..) => None,
            Pattern::Regex(regex, _) => {
                texts.iter().find_map(|it| regex.captures(it)).and_then(|it| group(&it, name))
            }
        }
    }

    /// Returns all distinct matches, in the order of the texts. If there are none, returns the fallback, if any.
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

/// Returns the numbers and names of a regular expression's groups.
fn groups(regex: &Regex) -> Vec<String> {
    let numbers = (0..regex.captures_len()).map(|it| it.to_string());
    numbers.chain(regex.capture_names().flatten().map(str::to_owned)).collect()
}

fn check_groups(regex: &Regex, shape: Option<&Template>) -> Result<(), String> {
    let groups = groups(regex);
    let names = shape.map(Template::names).unwrap_or_default();
    match names.iter().find(|name| !groups.iter().any(|it| it == *name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "uses `{{{name}}}` in its `as`, which is not one of its groups; the groups are {groups:?}"
        )),
    }
}

fn places(before: &str, after: &str, text: &str) -> Vec<String> {
    // The search for the end of the captured text is limited to about 800 bytes, because it would otherwise take
    // quadratic time on long lines.
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
        // The seed is derived from the matched text, so equal matches give equal results wherever they occur.
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

/// Texts of a request, and the captures found in them so far, by name.
#[derive(Debug, Default)]
pub(crate) struct RequestTexts {
    pub(crate) all: Vec<String>,
    found: RefCell<BTreeMap<String, Rc<[String]>>>,
}

impl RequestTexts {
    /// Collects the texts in the order in which they are searched: the last message, the system prompt, then the
    /// other messages from the newest to the oldest.
    pub(crate) fn of(request: &Request) -> Self {
        let mut messages = request.messages.iter().rev().map(crate::Message::text);
        let last = messages.next();
        let all = last.into_iter().chain(request.system.clone()).chain(messages).collect();
        Self { all, found: RefCell::default() }
    }
}

/// Looks up captured texts by name. The rule's captures are already known; the script's captures are searched for
/// when they are used.
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

    /// Adds captures that are searched for in `texts` when they are used.
    pub(crate) fn with(
        self,
        finders: &'a BTreeMap<String, Finder>,
        texts: &'a RequestTexts,
    ) -> Self {
        Self { finders: Some((finders, texts)), ..self }
    }

    /// Returns all captured texts with this name, or `None` if there are none.
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
