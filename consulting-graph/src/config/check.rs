//! What cannot be in a configuration, although it has the right shape.

use std::{collections::BTreeSet, fmt};

use super::{Config, Group, ModelSetting, Persona};

/// Something wrong in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, like `decision_makers[1].id`.
    pub at: String,
    /// What, and what to write instead.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Found(Vec::new());
    found.range("rounds", u64::from(config.rounds), 50);
    found.range("moves_per_analyst", u64::from(config.moves_per_analyst), 9);
    found.range("top_k", config.top_k as u64, 100);
    if let Some(lines) = config.inferences.chunk_lines {
        found.range("inferences.chunk_lines", u64::from(lines), 10_000);
    }
    found.range("analysts", config.analysts.len() as u64, 20);
    found.range("decision_makers", config.decision_makers.len() as u64, 9);
    found.range("metrics", config.metrics.len() as u64, 20);

    let personas = personas(config);
    for (at, persona) in &personas {
        found.persona(at, persona);
    }
    found.unique(personas.iter().map(|(at, it)| (format!("{at}.id"), it.id.as_str())));
    if config.critic.id != "critic" {
        found.add("critic.id", "has to be `critic`: that is what logs and events call it");
    }
    for (idx, metric) in config.metrics.iter().enumerate() {
        let at = format!("metrics[{idx}]");
        let fits = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        if !metric.id.starts_with(|it: char| it.is_ascii_lowercase())
            || !metric.id.chars().all(fits)
        {
            found.add(
                format!("{at}.id"),
                "is no name for a field; use small letters and `_`, like `risk_adjusted_return`",
            );
        }
        if ["reasoning", "score_source", "adjustments"].contains(&metric.id.as_str()) {
            found.add(
                format!("{at}.id"),
                "is the name of another field of the answer; use another one",
            );
        }
        found.filled(&format!("{at}.name"), &metric.name);
        found.filled(&format!("{at}.question"), &metric.question);
    }
    found.unique(
        config
            .metrics
            .iter()
            .enumerate()
            .map(|(idx, it)| (format!("metrics[{idx}].id"), it.id.as_str())),
    );
    found.models(config, &personas.iter().map(|(_, it)| it.id.as_str()).collect());
    found.0
}

fn personas(config: &Config) -> Vec<(String, &Persona)> {
    let single = [
        ("synthesizers.financial", &config.synthesizers.financial),
        ("synthesizers.news", &config.synthesizers.news),
        ("inferences.F1", &config.inferences.f1),
        ("inferences.F2", &config.inferences.f2),
        ("critic", &config.critic),
    ];
    let mut found: Vec<(String, &Persona)> = single.map(|(at, it)| (at.to_owned(), it)).into();
    for (name, personas) in
        [("analysts", &config.analysts), ("decision_makers", &config.decision_makers)]
    {
        found.extend(personas.iter().enumerate().map(|(idx, it)| (format!("{name}[{idx}]"), it)));
    }
    found
}

struct Found(Vec<Problem>);

impl Found {
    fn add(&mut self, at: impl Into<String>, what: impl Into<String>) {
        self.0.push(Problem { at: at.into(), what: what.into() });
    }

    fn range(&mut self, at: &str, value: u64, most: u64) {
        if !(1..=most).contains(&value) {
            self.add(at, format!("is {value}; give 1 to {most}"));
        }
    }

    fn filled(&mut self, at: &str, text: &str) {
        if text.trim().is_empty() {
            self.add(at, "is empty; write something there");
        }
    }

    fn persona(&mut self, at: &str, persona: &Persona) {
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if persona.id.is_empty() || !persona.id.chars().all(fits) {
            self.add(format!("{at}.id"), "is no id; use letters, digits and `_`, like `analyst_1`");
        }
        self.filled(&format!("{at}.name"), &persona.name);
        self.filled(&format!("{at}.system_prompt"), &persona.system_prompt);
    }

    fn unique<'a>(&mut self, ids: impl Iterator<Item = (String, &'a str)>) {
        let mut known = BTreeSet::new();
        for (at, id) in ids {
            if !known.insert(id) {
                self.add(at, format!("is `{id}`, which is taken; give each an id of its own"));
            }
        }
    }

    fn models(&mut self, config: &Config, ids: &BTreeSet<&str>) {
        let groups: Vec<&str> = Group::ALL.iter().map(|it| it.name()).collect();
        for (name, setting) in &config.models {
            let known =
                name == "default" || groups.contains(&name.as_str()) || ids.contains(name.as_str());
            if !known {
                let what = format!(
                    "is nobody; name default, {}, or an id of this file",
                    groups.join(", ")
                );
                self.add(format!("models.{name}"), what);
            }
            self.setting(&format!("models.{name}"), setting);
        }
        let default = config.models.get("default");
        if default.is_none_or(|it| {
            it.model.is_none() || it.temperature.is_none() || it.max_tokens.is_none()
        }) {
            self.add("models.default", "has to set model, temperature and max_tokens");
        }
    }

    fn setting(&mut self, at: &str, setting: &ModelSetting) {
        if let Some(model) = &setting.model {
            self.filled(&format!("{at}.model"), model);
        }
        if setting.temperature.is_some_and(|it| !(0.0..=2.0).contains(&it)) {
            self.add(format!("{at}.temperature"), "is out of range; give 0.0 to 2.0");
        }
        if setting.max_tokens.is_some_and(|it| it < 16) {
            self.add(format!("{at}.max_tokens"), "is too short for any answer; give 16 or more");
        }
    }
}
