//! Validates the values of a configuration that was parsed successfully.

use std::{collections::BTreeSet, fmt};

use super::schema::{Config, Group, ModelSetting, Persona};

/// Returns the violations, each with the path to the value, such as `decision_makers[1].id`.
pub(super) fn violations(config: &Config) -> Vec<String> {
    let mut checker = Checker(Vec::new());
    checker.check_range("rounds", u64::from(config.rounds), 50);
    checker.check_range("moves_per_analyst", u64::from(config.moves_per_analyst), 9);
    checker.check_range("top_k", config.top_k as u64, 100);
    if let Some(lines) = config.inferences.chunk_lines {
        checker.check_range("inferences.chunk_lines", u64::from(lines), 10_000);
    }
    checker.check_range("analysts", config.analysts.len() as u64, 20);
    checker.check_range("decision_makers", config.decision_makers.len() as u64, 9);
    checker.check_range("metrics", config.metrics.len() as u64, 20);

    let personas = config.personas();
    for (at, persona) in &personas {
        checker.check_persona(at, persona);
    }
    checker.check_unique(personas.iter().map(|(at, it)| (format!("{at}.id"), it.id.as_str())));
    if config.critic.id != "critic" {
        checker.add("critic.id", "must be `critic`, the name used in logs and events");
    }
    for (idx, metric) in config.metrics.iter().enumerate() {
        let at = format!("metrics[{idx}]");
        let fits = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        if !metric.id.starts_with(|it: char| it.is_ascii_lowercase())
            || !metric.id.chars().all(fits)
        {
            checker.add(
                format!("{at}.id"),
                "not a valid field name; use lower-case letters, digits and `_`, as in `risk_adjusted_return`",
            );
        }
        if ["reasoning", "score_source", "adjustments"].contains(&metric.id.as_str()) {
            checker.add(
                format!("{at}.id"),
                "reserved for another field of the answer; choose another name",
            );
        }
        checker.check_not_empty(&format!("{at}.name"), &metric.name);
        checker.check_not_empty(&format!("{at}.question"), &metric.question);
    }
    checker.check_unique(
        config
            .metrics
            .iter()
            .enumerate()
            .map(|(idx, it)| (format!("metrics[{idx}].id"), it.id.as_str())),
    );
    checker.check_models(config, &personas.iter().map(|(_, it)| it.id.as_str()).collect());
    checker.0
}

struct Checker(Vec<String>);

impl Checker {
    fn add(&mut self, path: impl fmt::Display, message: impl fmt::Display) {
        self.0.push(format!("{path}: {message}"));
    }

    fn check_range(&mut self, at: &str, value: u64, most: u64) {
        if !(1..=most).contains(&value) {
            self.add(at, format!("must be between 1 and {most}, not {value}"));
        }
    }

    fn check_not_empty(&mut self, at: &str, text: &str) {
        if text.trim().is_empty() {
            self.add(at, "must not be empty");
        }
    }

    fn check_persona(&mut self, at: &str, persona: &Persona) {
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if persona.id.is_empty() || !persona.id.chars().all(fits) {
            self.add(
                format!("{at}.id"),
                "not a valid id; use letters, digits and `_`, as in `analyst_1`",
            );
        }
        self.check_not_empty(&format!("{at}.name"), &persona.name);
        self.check_not_empty(&format!("{at}.system_prompt"), &persona.system_prompt);
    }

    fn check_unique<'a>(&mut self, ids: impl Iterator<Item = (String, &'a str)>) {
        let mut known = BTreeSet::new();
        for (at, id) in ids {
            if !known.insert(id) {
                self.add(at, format!("`{id}` is already in use; ids must be unique"));
            }
        }
    }

    fn check_models(&mut self, config: &Config, ids: &BTreeSet<&str>) {
        let groups: Vec<&str> = Group::ALL.iter().map(|it| it.name()).collect();
        for (name, setting) in &config.models {
            let known =
                name == "default" || groups.contains(&name.as_str()) || ids.contains(name.as_str());
            if !known {
                let what = format!(
                    "not a known persona or group; use default, {}, or the id of a persona",
                    groups.join(", ")
                );
                self.add(format!("models.{name}"), what);
            }
            self.check_setting(&format!("models.{name}"), setting);
        }
        let default = config.models.get("default");
        if default.is_none_or(|it| {
            it.model.is_none() || it.temperature.is_none() || it.max_tokens.is_none()
        }) {
            self.add("models.default", "must set model, temperature and max_tokens");
        }
    }

    fn check_setting(&mut self, at: &str, setting: &ModelSetting) {
        if let Some(model) = &setting.model {
            self.check_not_empty(&format!("{at}.model"), model);
        }
        if setting.temperature.is_some_and(|it| !(0.0..=2.0).contains(&it)) {
            self.add(format!("{at}.temperature"), "must be between 0.0 and 2.0");
        }
        if setting.context_tokens.is_some_and(|it| it < 1024) {
            self.add(format!("{at}.context_tokens"), "must be at least 1024");
        }
        if setting.max_tokens.is_some_and(|it| it < 16) {
            self.add(format!("{at}.max_tokens"), "must be at least 16");
        }
    }
}
