//! Configuration and environment of a run: everything needed to resume and replay it.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use app_support::files;
use graph_core::MemorySaver;
use sandbox_vm::{Isolation, report::IsolationLevel};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::RunError;
use crate::{
    config::{Config, Group},
    data::DataSource,
    debate,
    difference::{SettingChange, setting_changes},
    models::{Limit, ModelChoice},
    pipeline, prompt,
};

/// Configuration of a run, as given by the caller that creates the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunConfig {
    pub run_id: String,
    pub ticker: String,
    pub data: DataSource,
    pub choice: ModelChoice,
    /// Whether moves are also scored before the debates.
    pub baseline: bool,
    /// Whether the run pauses before the debates so that a person can review the moves.
    pub review: bool,
    /// Random part of the delimiters around untrusted text. It must be unknown to the authors of that text.
    pub nonce: String,
    #[serde(rename = "config")]
    pub config_toml: String,
}

/// Configuration and environment of a run, stored in `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(flatten)]
    pub run_config: RunConfig,
    /// Versions of this program and of the engine.
    pub versions: BTreeMap<String, String>,
    /// Hashes of the graph declarations, by graph name.
    pub graphs: BTreeMap<String, String>,
    /// Hashes of the run configuration, by field.
    pub hashes: BTreeMap<String, String>,
    pub models: BTreeMap<String, AgentModel>,
    /// Hashes of the agents' system prompts.
    pub prompts: BTreeMap<String, String>,
    /// Hashes of the task prompts.
    pub tasks: BTreeMap<String, String>,
    /// Current spending limit of the whole run.
    #[serde(default, skip_serializing_if = "Limit::is_unlimited")]
    pub limit: Limit,
    /// Weakest isolation that the debates may have. Without such a requirement, the strongest available isolation is
    /// used. Older versions called this field `isolation`.
    #[serde(alias = "isolation", default, skip_serializing_if = "Option::is_none")]
    pub required_isolation: Option<Isolation>,
    /// Weakest isolation of a debate, once the run is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_isolation: Option<IsolationLevel>,
    /// Origin of the run, if it is a fork.
    #[serde(rename = "branch", default, skip_serializing_if = "Option::is_none")]
    pub fork_origin: Option<Box<ForkOrigin>>,
}

/// Origin of a fork, and how the fork differs from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForkOrigin {
    pub from: Manifest,
    pub at: String,
    /// Whether only the debate at the fork point is repeated.
    pub only: bool,
    /// Changed settings, each as `path=value`.
    pub set: Vec<String>,
    /// Number of recorded calls that were copied from the origin. The origin paid for these calls.
    #[serde(rename = "calls")]
    pub inherited_calls: usize,
    /// Number of failures before the fork point. They are final for the fork.
    #[serde(default)]
    pub inherited_failures: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentModel {
    /// Model, as `provider/model`.
    pub model: String,
    pub temperature: f64,
    /// Maximum length of an answer, in tokens.
    pub max_tokens: u32,
}

impl fmt::Display for AgentModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, temperature, max_tokens } = self;
        write!(f, "{model}, temperature {temperature}, at most {max_tokens} tokens per answer")
    }
}

impl RunConfig {
    /// Returns the hash of each field.
    fn hashes(&self) -> BTreeMap<String, String> {
        let run_config = serde_json::to_value(self);
        let run_config = run_config.expect("a run configuration serializes to JSON");
        let parts = run_config.as_object().into_iter().flatten();
        parts.map(|(name, it)| (name.clone(), hash(&it.to_string()))).collect()
    }

    /// Returns the model and settings of every agent.
    fn models(&self, config: &Config) -> BTreeMap<String, AgentModel> {
        let agent_model = |(group, agent_id): (Group, String)| {
            let settings = self.choice.call_settings(config, group, &agent_id);
            let agent_model = AgentModel {
                model: self.choice.model(config, group, &agent_id).to_string(),
                temperature: settings.temperature,
                max_tokens: settings.max_tokens,
            };
            (group.role(&agent_id), agent_model)
        };
        config.agents().into_iter().map(agent_model).collect()
    }
}

impl Manifest {
    pub(super) fn new(run_config: RunConfig, config: &Config) -> Result<Self, RunError> {
        Ok(Self {
            versions: versions(),
            graphs: graphs()?,
            hashes: run_config.hashes(),
            models: run_config.models(config),
            prompts: prompts(config),
            tasks: tasks(),
            limit: Limit::default(),
            required_isolation: None,
            used_isolation: None,
            fork_origin: None,
            run_config,
        })
    }

    pub(super) fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("a manifest serializes to JSON") + "\n"
    }

    /// Returns the reasons why this program cannot resume the run.
    pub(super) fn incompatibilities(&self, dir: &Path) -> Result<Vec<String>, RunError> {
        let mut reasons = Vec::new();
        for (name, after) in versions() {
            let before = self.versions.get(&name).map_or("none", String::as_str);
            if before != after {
                // Another version may use other prompts, which the recording does not contain.
                reasons.push(format!(
                    "the run was created with {name} {before}, but this program has {after}; use the program that created it, or start \
                     a new run"
                ));
            }
        }
        for (name, after) in graphs()? {
            let before = self.graphs.get(&name).map_or("nothing", String::as_str);
            if before != after {
                reasons.push(format!(
                    "the graph `{name}` changed: the run was created with {before}, but this program has {after}; use the \
                     program that created it, or start a new run"
                ));
            }
        }
        let changed_tasks =
            tasks().into_iter().filter(|(name, after)| self.tasks.get(name) != Some(after));
        let changed_tasks: Vec<String> = changed_tasks.map(|it| it.0).collect();
        if !changed_tasks.is_empty() {
            reasons.push(format!(
                "this program uses other prompts ({}); use the program that created the run, or start a new run",
                changed_tasks.join(", ")
            ));
        }
        let path = dir.join("run.json");
        for (name, after) in self.run_config.hashes() {
            if self.hashes.get(&name) != Some(&after) {
                reasons.push(format!(
                    "`{name}` was changed in {}; restore it, or start a new run",
                    path.display()
                ));
            }
        }
        reasons.extend(self.config_changes(&dir.join("config.toml"))?);
        Ok(reasons)
    }

    /// Returns the settings that were changed in the configuration file, each with its old and new value.
    fn config_changes(&self, path: &Path) -> Result<Vec<String>, RunError> {
        let text = files::read(path)?;
        if text == self.run_config.config_toml {
            return Ok(Vec::new());
        }
        let what_to_do = "restore it, or fork the run with `consulting fork --set`";
        let file = path.display();
        let Ok(after) = toml::from_str(&text) else {
            return Ok(vec![format!("{file} is no longer valid TOML; {what_to_do}")]);
        };
        let before = toml::from_str(&self.run_config.config_toml).unwrap_or_default();
        let change = |it: SettingChange| {
            let or_nothing = |it: Option<String>| it.unwrap_or_else(|| "nothing".to_owned());
            let (before, after) = (or_nothing(it.values.a), or_nothing(it.values.b));
            format!("{file} was changed: {}: {before} → {after}; {what_to_do}", it.path)
        };
        Ok(setting_changes(&before, &after).into_iter().map(change).collect())
    }

    /// Returns the rows of the report's manifest table.
    pub(super) fn report_lines(&self) -> BTreeMap<String, String> {
        let versions = self.versions.iter().map(|(name, it)| (name.clone(), it.clone()));
        let graphs = self.graphs.iter().map(|(name, it)| (format!("graph {name}"), it.clone()));
        let prompts = self.prompts.iter().map(|(name, it)| (format!("prompt {name}"), it.clone()));
        let models =
            self.models.iter().map(|(name, it)| (format!("model of {name}"), it.to_string()));
        let tasks = self.tasks.iter().map(|(name, it)| (format!("task {name}"), it.clone()));
        let mut lines: BTreeMap<String, String> =
            versions.chain(graphs).chain(models).chain(prompts).chain(tasks).collect();
        lines.insert("configuration".to_owned(), hash(&self.run_config.config_toml));
        lines.insert("seed".to_owned(), self.run_config.choice.seed.to_string());
        if let Some(origin) = &self.fork_origin {
            let changed = origin.set.join(", ");
            let from = format!("{} at {}, {changed}", origin.from.run_config.run_id, origin.at);
            lines.insert("forked from".to_owned(), from);
        }
        lines
    }
}

/// Returns the versions of this program and of the engine.
fn versions() -> BTreeMap<String, String> {
    let versions =
        [("consulting-graph", env!("CARGO_PKG_VERSION")), ("graph-core", graph_core::VERSION)];
    versions.map(|(name, it)| (name.to_owned(), it.to_owned())).into()
}

fn graphs() -> Result<BTreeMap<String, String>, RunError> {
    let saver = Arc::new(MemorySaver::new());
    let pipeline = pipeline::graph(saver)?.fingerprint();
    let debate = debate::graph()?.fingerprint();
    Ok([(pipeline::GRAPH, pipeline), (debate::GRAPH, debate)]
        .map(|(name, it)| (name.to_owned(), it))
        .into())
}

fn prompts(config: &Config) -> BTreeMap<String, String> {
    let personas = config.personas();
    personas.into_iter().map(|(_, it)| (it.id.clone(), hash(&it.system_prompt))).collect()
}

fn tasks() -> BTreeMap<String, String> {
    let task = |(name, request): (&str, llm::Request)| {
        let json = serde_json::to_string(&request);
        (name.to_owned(), hash(&json.expect("a request serializes to JSON")))
    };
    prompt::samples().into_iter().map(task).collect()
}

/// Returns the first half of the text's SHA-256 hash, in hexadecimal.
fn hash(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..16])
}
