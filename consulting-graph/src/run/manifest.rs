//! What a run was given, and by which program: enough to go on with it and to repeat it.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use graph_core::MemorySaver;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{RunProblem, files};
use crate::{
    config::Config,
    data::DataSource,
    debate,
    models::{Choice, Limit},
    pipeline,
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
    /// The configuration, as it stands in its file.
    #[serde(skip)]
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
    /// The hash of what the run was given, without the configuration.
    pub given_hash: String,
    /// The configuration's hash.
    pub config_hash: String,
    /// The hashes of what everybody is told about themselves.
    pub prompts: BTreeMap<String, String>,
    /// What the run may spend in all, as it was told last.
    #[serde(default, skip_serializing_if = "Limit::is_none")]
    pub limit: Limit,
    /// The run it branched off from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Box<Branch>>,
}

/// Where a run branched off from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// The other run.
    pub from: Manifest,
    /// The other run's configuration.
    pub config: String,
    /// Where.
    pub at: String,
    /// Whether only that move was debated again.
    pub only: bool,
    /// What was changed.
    pub set: Vec<String>,
    /// How many calls it took over, which the other run paid for.
    pub calls: usize,
}

impl Given {
    fn hash(&self) -> String {
        hash(
            &serde_json::to_string(self)
                .expect("what a run is given holds nothing that JSON cannot"),
        )
    }
}

impl Manifest {
    pub(super) fn new(given: Given, config: &Config) -> Result<Self, RunProblem> {
        Ok(Self {
            versions: versions(),
            graphs: graphs()?,
            given_hash: given.hash(),
            config_hash: hash(&given.config),
            prompts: prompts(config),
            limit: Limit::default(),
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
        if self.given.hash() != self.given_hash {
            found.push(format!(
                "what the run was given was changed in {}; put it back, or start a new run",
                folder.join("run.json").display()
            ));
        }
        let path = folder.join("config.toml");
        let text = files::read(&path)?;
        if hash(&text) != self.config_hash {
            found.push(format!(
                "{} was changed since the run was made; put it back, or branch off with `consulting fork --set`",
                path.display()
            ));
        }
        Ok(found)
    }

    /// The manifest as lines of a report.
    pub(super) fn lines(&self) -> BTreeMap<String, String> {
        let versions = self.versions.iter().map(|(name, it)| (name.clone(), it.clone()));
        let graphs = self.graphs.iter().map(|(name, it)| (format!("graph {name}"), it.clone()));
        let prompts = self.prompts.iter().map(|(name, it)| (format!("prompt {name}"), it.clone()));
        let mut lines: BTreeMap<String, String> = versions.chain(graphs).chain(prompts).collect();
        lines.insert("configuration".to_owned(), self.config_hash.clone());
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

/// The first half of a text's SHA-256.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(16).map(|it| format!("{it:02x}")).collect()
}
