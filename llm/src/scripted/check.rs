//! Validates a script when a model is created from it, so that a misspelled name does not make a later call fail.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{
    capture::Finder,
    script::{Answer, Capture, Phrase, Rule, Script},
    source::{Entry, Lists, TemplateSource},
    template::Template,
    tree::Tree,
};

/// The error returned when a script is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("script `{script}`, {location}: {problem}")]
pub struct ScriptError {
    /// Name of the script.
    pub script: String,
    /// Where the problem is: `ignore`, `captures`, a list by its name, or a rule by its number, starting at 1.
    pub location: String,
    /// What is wrong and what to write instead.
    pub problem: String,
}

/// A validated script.
#[derive(Debug)]
pub(crate) struct CheckedScript {
    pub(crate) ignore: Vec<Regex>,
    pub(crate) captures: Finders,
    pub(crate) lists: Lists,
    pub(crate) rules: Vec<CheckedRule>,
}

type Finders = BTreeMap<String, Finder>;

/// A rule with parsed templates.
#[derive(Debug, Default)]
pub(crate) struct CheckedRule {
    pub(crate) rule: Rule,
    pub(crate) captures: Finders,
    pub(crate) answer: CheckedAnswer,
}

/// An answer with parsed templates.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum CheckedAnswer {
    #[default]
    Schema,
    Text(Template),
    Json(Tree),
    Tool {
        name: String,
        arguments: Tree,
    },
}

/// Parses all templates of a script and checks that the names in them exist.
pub(crate) fn check(script: &Script) -> Result<CheckedScript, ScriptError> {
    let at = |location: String| {
        move |problem| ScriptError { script: script.name.clone(), location, problem }
    };
    let ignore = script.ignore.iter().map(|it| Regex::new(it).map_err(|it| it.to_string()));
    let ignore = ignore.collect::<Result<_, _>>().map_err(at("`ignore`".to_owned()))?;
    let captures = read_captures(&script.captures).map_err(at("`captures`".to_owned()))?;
    let mut lists = Lists::new();
    for (name, phrases) in &script.lists {
        let phrases = phrases.iter().map(entry).collect::<Result<_, _>>();
        lists.insert(name.clone(), phrases.map_err(at(format!("list `{name}`")))?);
    }
    for name in lists.keys() {
        let mut path = Vec::new();
        check_acyclic(name, &lists, &mut path).map_err(at(format!("list `{name}`")))?;
    }
    let rules = script.rules.iter().enumerate().map(|(n, rule)| {
        check_rule(rule, &captures, &lists).map_err(at(format!("rule {}", n + 1)))
    });
    let rules = rules.collect::<Result<_, _>>()?;
    Ok(CheckedScript { ignore, captures, lists, rules })
}

fn read_captures(captures: &BTreeMap<String, Capture>) -> Result<Finders, String> {
    let read = captures.iter().map(|(name, capture)| {
        let finder = Finder::parse(capture).map_err(|it| format!("the capture `{name}` {it}"))?;
        Ok((name.clone(), finder))
    });
    read.collect()
}

fn entry(phrase: &Phrase) -> Result<Entry, String> {
    Ok(match phrase {
        Phrase::Text(text) => Entry { tree: Tree::Template(Template::parse(text)?), label: None },
        Phrase::Json { value, label } => Entry { tree: Tree::parse(value)?, label: label.clone() },
    })
}

fn check_rule(rule: &Rule, shared: &Finders, lists: &Lists) -> Result<CheckedRule, String> {
    let captures = read_captures(&rule.captures)?;
    if let Some(turn) = rule.turn.as_ref().filter(|it| !rule.captures.contains_key(*it)) {
        return Err(format!("`turn` refers to `{turn}`, which is not a capture of this rule"));
    }
    let chances =
        [rule.violation.map(|it| it.chance), rule.failure.map(|it| it.chance), rule.when.chance];
    if let Some(chance) = chances.into_iter().flatten().find(|it| !(0.0..=1.0).contains(it)) {
        return Err(format!("`chance` is {chance}, but must be between 0 and 1"));
    }
    let answer = match &rule.answer {
        Answer::Schema => CheckedAnswer::Schema,
        Answer::Text(text) => CheckedAnswer::Text(Template::parse(text)?),
        Answer::Json(value) => CheckedAnswer::Json(Tree::parse(value)?),
        Answer::Tool { name, arguments } => {
            CheckedAnswer::Tool { name: name.clone(), arguments: Tree::parse(arguments)? }
        }
    };
    let mut seen = BTreeSet::new();
    for template in answer.templates() {
        check_template(template, &captures, shared, lists, &mut seen)?;
    }
    Ok(CheckedRule { rule: rule.clone(), captures, answer })
}

/// Checks that each label in a template occurs in some list, and that each name is a capture or a list. If a name is a
/// list, the phrases of the list are checked in the same way.
fn check_template<'a>(
    template: &'a Template,
    captures: &Finders,
    shared: &Finders,
    lists: &'a Lists,
    seen: &mut BTreeSet<&'a str>,
) -> Result<(), String> {
    let mut labels = lists.values().flatten().filter_map(|it| it.label.as_deref());
    if let Some(label) = template.labels().iter().find(|it| !labels.any(|known| known == **it)) {
        return Err(format!("`{{place {label}}}` refers to a label that no list has"));
    }
    template.names().iter().try_for_each(|it| check_name(it, captures, shared, lists, seen))
}

fn check_name<'a>(
    name: &'a str,
    captures: &Finders,
    shared: &Finders,
    lists: &'a Lists,
    seen: &mut BTreeSet<&'a str>,
) -> Result<(), String> {
    if captures.contains_key(name) || !seen.insert(name) {
        return Ok(());
    }
    let Some(phrases) = lists.get(name) else {
        let known = match name.split_once('.') {
            None => shared.contains_key(name),
            Some((name, group)) => shared.get(name).is_some_and(|it| it.has_group(group)),
        };
        if known {
            return Ok(());
        }
        let names = |keys: Vec<&String>| match keys.is_empty() {
            true => "none".to_owned(),
            false => keys.into_iter().cloned().collect::<Vec<_>>().join(", "),
        };
        return Err(format!(
            "`{{{name}}}` is neither a capture ({}) nor a list ({}); write `{{{{` for a literal brace",
            names(captures.keys().chain(shared.keys()).collect()),
            names(lists.keys().collect()),
        ));
    };
    if phrases.is_empty() {
        return Err(format!("the list `{name}` is empty"));
    }
    let mut templates = phrases.iter().flat_map(|it| it.tree.templates());
    templates.try_for_each(|it| check_template(it, captures, shared, lists, seen))
}

fn check_acyclic<'a>(
    name: &'a str,
    lists: &'a Lists,
    path: &mut Vec<&'a str>,
) -> Result<(), String> {
    if path.contains(&name) {
        return Err(format!("`{{{name}}}` refers to itself"));
    }
    // The limit is far above what scripts need, because they nest lists only a few levels deep.
    if path.len() > 16 {
        return Err("lists are nested too deeply".to_owned());
    }
    path.push(name);
    let inner = lists.get(name).into_iter().flatten().flat_map(|it| it.tree.names());
    for name in inner.collect::<BTreeSet<_>>() {
        check_acyclic(name, lists, path)?;
    }
    path.pop();
    Ok(())
}

impl CheckedAnswer {
    fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Schema => Vec::new(),
            Self::Text(template) => vec![template],
            Self::Json(tree) | Self::Tool { arguments: tree, .. } => tree.templates(),
        }
    }

    /// Returns whether every capture, phrase and label that the answer uses is available.
    pub(crate) fn can_fill(&self, source: &TemplateSource<'_>) -> bool {
        match self {
            Self::Schema => true,
            Self::Text(template) => template.can_fill(source),
            Self::Json(tree) | Self::Tool { arguments: tree, .. } => tree.can_fill(source),
        }
    }
}
