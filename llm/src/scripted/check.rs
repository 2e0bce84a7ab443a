//! Checks a script when it is loaded, so that no run fails halfway on a misspelt name.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    script::{Answer, Rule, Script},
    template::{Template, Tree},
};

/// A script that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("script `{script}`, {place}: {problem}")]
pub struct ScriptError {
    /// The script's name.
    pub script: String,
    /// Where: a list, or a rule by its number from one.
    pub place: String,
    /// What is wrong and what to write.
    pub problem: String,
}

/// A rule whose templates were read.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) rule: Rule,
    pub(crate) answer: CheckedAnswer,
}

/// An answer whose templates were read.
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

type Lists = BTreeMap<String, Vec<Template>>;

/// Reads all templates of a script, and checks the names in them.
pub(crate) fn check(script: &Script) -> Result<(Lists, Vec<Checked>), ScriptError> {
    let at =
        |place: String| move |problem| ScriptError { script: script.name.clone(), place, problem };
    let mut lists = Lists::new();
    for (name, phrases) in &script.lists {
        let phrases = phrases.iter().map(|it| Template::parse(it)).collect::<Result<Vec<_>, _>>();
        lists.insert(name.clone(), phrases.map_err(at(format!("list `{name}`")))?);
    }
    for name in lists.keys() {
        let mut path = Vec::new();
        no_circle(name, &lists, &mut path).map_err(at(format!("list `{name}`")))?;
    }
    let rules = script
        .rules
        .iter()
        .enumerate()
        .map(|(n, rule)| check_rule(rule, &lists).map_err(at(format!("rule {}", n + 1))));
    let rules = rules.collect::<Result<_, _>>()?;
    Ok((lists, rules))
}

fn check_rule(rule: &Rule, lists: &Lists) -> Result<Checked, String> {
    for (name, capture) in &rule.captures {
        if capture.pattern().split("{}").count() != 2 {
            return Err(format!("the capture `{name}` has to have one `{{}}` in its pattern"));
        }
    }
    if let Some(turn) = rule.turn.as_ref().filter(|it| !rule.captures.contains_key(*it)) {
        return Err(format!("`turn` names `{turn}`, which is no capture of the rule"));
    }
    let chances = rule.flaw.map(|it| it.chance).into_iter().chain(rule.failure.map(|it| it.chance));
    if let Some(chance) = chances.into_iter().find(|it| !(0.0..=1.0).contains(it)) {
        return Err(format!("a chance of {chance} is not between 0 and 1"));
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
    for name in answer.names() {
        check_name(name, rule, lists, &mut seen)?;
    }
    Ok(Checked { rule: rule.clone(), answer })
}

/// A name is a capture of the rule, or a list whose phrases use such names only.
fn check_name<'a>(
    name: &'a str,
    rule: &Rule,
    lists: &'a Lists,
    seen: &mut BTreeSet<&'a str>,
) -> Result<(), String> {
    if rule.captures.contains_key(name) || !seen.insert(name) {
        return Ok(());
    }
    let Some(phrases) = lists.get(name) else {
        let names = |keys: Vec<&String>| match keys.is_empty() {
            true => "none".to_owned(),
            false => keys.into_iter().cloned().collect::<Vec<_>>().join(", "),
        };
        return Err(format!(
            "`{{{name}}}` is neither a capture of the rule ({}) nor a list ({}); write `{{{{` for a bracket",
            names(rule.captures.keys().collect()),
            names(lists.keys().collect()),
        ));
    };
    if phrases.is_empty() {
        return Err(format!("the list `{name}` is empty"));
    }
    phrases.iter().flat_map(Template::names).try_for_each(|it| check_name(it, rule, lists, seen))
}

fn no_circle<'a>(name: &'a str, lists: &'a Lists, path: &mut Vec<&'a str>) -> Result<(), String> {
    if path.contains(&name) {
        return Err(format!("`{{{name}}}` leads back to itself"));
    }
    // Lists that lead to lists are few and short; past this somebody is playing.
    if path.len() > 16 {
        return Err("lists lead to lists too deep".to_owned());
    }
    path.push(name);
    let inner = lists.get(name).into_iter().flatten().flat_map(Template::names);
    for name in inner.collect::<BTreeSet<_>>() {
        no_circle(name, lists, path)?;
    }
    path.pop();
    Ok(())
}

impl CheckedAnswer {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Schema => Vec::new(),
            Self::Text(template) => template.names(),
            Self::Json(tree) | Self::Tool { arguments: tree, .. } => tree.names(),
        }
    }
}
