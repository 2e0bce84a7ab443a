//! What a run was given, and by which program: enough to go on with it and to repeat it.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use graph_core::MemorySaver;
use sandbox_vm::Isolation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{RunProblem, files};
use crate::{
    config::{Config, Group},
    data::DataSource,
    debate,
    diff::{SettingChange, changes},
    models::{Choice, Limit},
    pipeline, prompt,
};

/// What a run is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The run's id.
    pub run_id: String,
    /// The company.
    pub ticker: String,
    /// Where its data come from.
    pub data: DataSource,
    /// Who speaks.
    pub choice: Choice,
    /// Whether scores are asked for before the debates too.
    pub baseline: bool,
    /// Whether a person looks at the moves before they are debated.
    pub review: bool,
    /// What untrusted text stands between: nobody who writes such text may know it.
    pub nonce: String,
    /// The configuration, as it stood in its file.
    pub config: String,
}

/// What a run was given, and by which program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What it was given.
    #[serde(flatten)]
    pub given: Given,
    /// The version of this program and of the engine.
    pub versions: BTreeMap<String, String>,
    /// What the graphs declare, as hashes.
    pub graphs: BTreeMap<String, String>,
    /// The hashes of what the run was given.
    pub hashes: BTreeMap<String, String>,
    /// Who speaks for whom, and how.
    pub models: BTreeMap<String, Speaks>,
    /// The hashes of what everybody is told about themselves.
    pub prompts: BTreeMap<String, String>,
    /// The hashes of what everybody is asked.
    pub tasks: BTreeMap<String, String>,
    /// What the run may spend in all, as it was told last.
    #[serde(default, skip_serializing_if = "Limit::is_none")]
    pub limit: Limit,
    /// How much isolation its debates need, as it was told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The run it branched off from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Box<Branch>>,
}

/// Where a run branched off from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// The other run.
    pub from: Manifest,
    /// Where.
    pub at: String,
    /// Whether only that move was debated again.
    pub only: bool,
    /// What was changed.
    pub set: Vec<String>,
    /// How many calls it took over, which the other run paid for.
    pub calls: usize,
}

/// Who speaks for someone, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Speaks {
    /// The provider and its model.
    pub model: String,
    /// How freely it speaks.
    pub temperature: f64,
    /// How long an answer may be.
    pub max_tokens: u32,
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, temperature, max_tokens } = self;
        write!(f, "{model}, temperature {temperature}, at most {max_tokens} tokens an answer")
    }
}

impl Given {
    /// The hash of each part.
    fn hashes(&self) -> BTreeMap<String, String> {
        let given = serde_json::to_value(self);
        let given = given.expect("what a run is given holds nothing that JSON cannot");
        let parts = given.as_object().into_iter().flatten();
        parts.map(|(name, it)| (name.clone(), hash(&it.to_string()))).collect()
    }

    /// Who speaks for whom, and how.
    fn models(&self, config: &Config) -> BTreeMap<String, Speaks> {
        let speaks = |(group, who): (Group, String)| {
            let voice = self.choice.voice(config, group, &who);
            let speaks = Speaks {
                model: self.choice.model(config, group, &who).to_string(),
                temperature: voice.temperature,
                max_tokens: voice.max_tokens,
            };
            (group.role(&who), speaks)
        };
        config.speakers().into_iter().map(speaks).collect()
    }
}

impl Manifest {
    pub(super) fn new(given: Given, config: &Config) -> Result<Self, RunProblem> {
        Ok(Self {
            versions: versions(),
            graphs: graphs()?,
            hashes: given.hashes(),
            models: given.models(config),
            prompts: prompts(config),
            tasks: tasks(),
            limit: Limit::default(),
            isolation: None,
            branch: None,
            given,
        })
    }

    pub(super) fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("a manifest holds nothing that JSON cannot") + "\n"
    }

    /// What is not as it was when the run was made.
    pub(super) fn differences(&self, folder: &Path) -> Result<Vec<String>, RunProblem> {
        let mut found = Vec::new();
        for (name, now) in versions() {
            let then = self.versions.get(&name).map_or("none", String::as_str);
            if then != now {
                // Another version asks with other words, and the run's recording would not know them.
                found.push(format!(
                    "the run was made with {name} {then}, this program has {now}; use the program that made it, or start \
                     a new run"
                ));
            }
        }
        for (name, now) in graphs()? {
            let then = self.graphs.get(&name).map_or("nothing", String::as_str);
            if then != now {
                found.push(format!(
                    "the graph `{name}` is another one: the run was made with {then}, this program has {now}; use the \
                     program that made it, or start a new run"
                ));
            }
        }
        let others = tasks().into_iter().filter(|(name, now)| self.tasks.get(name) != Some(now));
        let others: Vec<String> = others.map(|it| it.0).collect();
        if !others.is_empty() {
            found.push(format!(
                "this program asks with other words ({}); use the program that made the run, or start a new run",
                others.join(", ")
            ));
        }
        let path = folder.join("run.json");
        for (name, now) in self.given.hashes() {
            if self.hashes.get(&name) != Some(&now) {
                found.push(format!(
                    "`{name}` was changed in {}; put it back, or start a new run",
                    path.display()
                ));
            }
        }
        found.extend(self.config_changes(&folder.join("config.toml"))?);
        Ok(found)
    }

    /// What was changed in the file of the configuration, each setting with what it was and what it is.
    fn config_changes(&self, path: &Path) -> Result<Vec<String>, RunProblem> {
        let text = files::read(path)?;
        if text == self.given.config {
            return Ok(Vec::new());
        }
        let what_to_do = "put it back, or branch off with `consulting fork --set`";
        let file = path.display();
        let Ok(now) = toml::from_str(&text) else {
            return Ok(vec![format!("{file} cannot be read any more; {what_to_do}")]);
        };
        let then = toml::from_str(&self.given.config).unwrap_or_default();
        let change = |it: SettingChange| {
            let or_nothing = |it: Option<String>| it.unwrap_or_else(|| "nothing".to_owned());
            let (then, now) = (or_nothing(it.values.a), or_nothing(it.values.b));
            format!("{file} was changed: {}: {then} → {now}; {what_to_do}", it.path)
        };
        Ok(changes(&then, &now).into_iter().map(change).collect())
    }

    /// The manifest as lines of a report.
    pub(super) fn lines(&self) -> BTreeMap<String, String> {
        let versions = self.versions.iter().map(|(name, it)| (name.clone(), it.clone()));
        let graphs = self.graphs.iter().map(|(name, it)| (format!("graph {name}"), it.clone()));
        let prompts = self.prompts.iter().map(|(name, it)| (format!("prompt {name}"), it.clone()));
        let models =
            self.models.iter().map(|(name, it)| (format!("model of {name}"), it.to_string()));
        let tasks = self.tasks.iter().map(|(name, it)| (format!("task {name}"), it.clone()));
        let mut lines: BTreeMap<String, String> =
            versions.chain(graphs).chain(models).chain(prompts).chain(tasks).collect();
        lines.insert("configuration".to_owned(), hash(&self.given.config));
        lines.insert("seed".to_owned(), self.given.choice.seed.to_string());
        if let Some(branch) = &self.branch {
            let changed = branch.set.join(", ");
            let from = format!("{} at {}, {changed}", branch.from.given.run_id, branch.at);
            lines.insert("branched off from".to_owned(), from);
        }
        lines
    }
}

/// The versions of this program and of the engine.
fn versions() -> BTreeMap<String, String> {
    let versions =
        [("consulting-graph", env!("CARGO_PKG_VERSION")), ("graph-core", graph_core::VERSION)];
    versions.map(|(name, it)| (name.to_owned(), it.to_owned())).into()
}

fn graphs() -> Result<BTreeMap<String, String>, RunProblem> {
    let saver = Arc::new(MemorySaver::new());
    let pipeline = pipeline::graph(saver.clone())?.identity();
    let debate = debate::graph(saver)?.identity();
    Ok([(pipeline::GRAPH, pipeline), (debate::GRAPH, debate)]
        .map(|(name, it)| (name.to_owned(), it))
        .into())
}

fn prompts(config: &Config) -> BTreeMap<String, String> {
    let personas = config.personas();
    personas.into_iter().map(|it| (it.id.clone(), hash(&it.system_prompt))).collect()
}

fn tasks() -> BTreeMap<String, String> {
    let task = |(name, request): (&str, llm::Request)| {
        let json = serde_json::to_string(&request);
        (name.to_owned(), hash(&json.expect("a request holds nothing that JSON cannot")))
    };
    prompt::samples().into_iter().map(task).collect()
}

/// The first half of a text's SHA-256.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(16).map(|it| format!("{it:02x}")).collect()
}
