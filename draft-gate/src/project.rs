//! The project as it would be if a change set were accepted, for its checks.

use std::collections::BTreeMap;

use crate::{
    blob,
    checks::{ProjectChecks, ProjectFile},
    confine::Folder,
    contract::{Check, Contract},
    digest::Digest,
    error::{Error, shown},
    finding::{Finding, Weight},
    gate::Gate,
    path::WorkspacePath,
    propose::Proposal,
    registry::Found,
};

/// A project that is larger is not copied.
const MOST_BYTES: usize = 64 << 20;

const LONGEST_OUTPUT: usize = 2_000;

impl Gate {
    /// What the contract's checks say to a proposal; that they cannot be run is a finding too.
    pub(crate) fn run_checks(&self, proposal: &Proposal, contract: &Contract) -> Found {
        let project = self.project(proposal);
        let about = about_project(proposal.sight, &project, contract);
        let cannot_run = |why: String| vec![Finding::new("checks", Weight::Escalate, why)];
        let findings = match (&self.checks, project) {
            (None, _) => {
                let why = "the contract asks for checks, and nothing here runs them; build the program with \
                           `--features sandbox`, or decide without them";
                cannot_run(why.to_owned())
            }
            (_, Err(error)) => cannot_run(error.to_string()),
            (Some(checks), Ok(files)) => {
                let run = |check: &Check| run_check(checks.as_ref(), check, &files);
                contract.draft_gate.checks.iter().filter_map(run).collect()
            }
        };
        Found { about, findings }
    }

    /// Stands for all that a judgement is about: the change, and with checks the whole project as they would see it.
    pub(crate) fn about(&self, proposal: &Proposal, contract: &Contract) -> Digest {
        if contract.draft_gate.checks.is_empty() {
            return proposal.sight;
        }
        about_project(proposal.sight, &self.project(proposal), contract)
    }

    /// All files that a worker may see, with the proposal's in their place.
    fn project(&self, proposal: &Proposal) -> Result<Vec<ProjectFile>, Error> {
        let mut files = BTreeMap::new();
        let mut room = MOST_BYTES;
        collect(&self.root, "", &mut files, &mut room)?;
        for file in &proposal.files {
            let path = file.change.path.clone();
            match file.new {
                None => drop(files.remove(&path)),
                Some(_) => {
                    let is_executable = file.mode & 0o111 != 0;
                    let bytes = file.new_text.clone().into_bytes();
                    files.insert(path.clone(), ProjectFile { path, bytes, is_executable });
                }
            }
        }
        Ok(files.into_values().collect())
    }
}

fn run_check(checks: &dyn ProjectChecks, check: &Check, files: &[ProjectFile]) -> Option<Finding> {
    let (weight, text) = match checks.run(check, files) {
        Ok(outcome) if outcome.is_passed => return None,
        Ok(outcome) => {
            (Weight::Reject, format!("`{}` failed: {}", check.name, end_of(&outcome.output)))
        }
        Err(error) => (Weight::Escalate, error.to_string()),
    };
    Some(Finding::new("checks", weight, text))
}

/// Stands for a change, a project with it, and the checks that the contract asks for.
fn about_project(
    sight: Digest,
    project: &Result<Vec<ProjectFile>, Error>,
    contract: &Contract,
) -> Digest {
    let mut text = format!("{sight}\n");
    match project {
        Ok(files) => text.extend(
            files
                .iter()
                .map(|it| format!("{} {} {}\n", it.path, it.is_executable, Digest::of(&it.bytes))),
        ),
        Err(error) => text += &error.to_string(),
    }
    let checks = serde_json::to_string(&contract.draft_gate.checks).expect("checks are plain data");
    Digest::of((text + &checks).as_bytes())
}

fn collect(
    folder: &Folder,
    path: &str,
    files: &mut BTreeMap<WorkspacePath, ProjectFile>,
    room: &mut usize,
) -> Result<(), Error> {
    for name in folder.names()? {
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        let parsed = WorkspacePath::parse(&path).and_then(WorkspacePath::unprotected);
        let Ok(parsed) = parsed else { continue };
        if let Ok(inner) = folder.folder(&name) {
            if !is_made(folder, &name) {
                collect(&inner, &path, files, room)?;
            }
            continue;
        }
        // Links, pipes and their like are no part of what is checked.
        let Ok(Some(content)) = folder.read(&name, blob::MOST) else { continue };
        *room = room.checked_sub(content.bytes.len()).ok_or_else(|| Error::Check {
            check: shown(&path),
            why: format!("the project is larger than {MOST_BYTES} bytes"),
        })?;
        let is_executable = content.mode & 0o111 != 0;
        files.insert(
            parsed.clone(),
            ProjectFile { path: parsed, bytes: content.bytes, is_executable },
        );
    }
    Ok(())
}

/// Whether a folder holds things that were built or fetched. A name that sources may have as well counts only beside
/// what would build into it.
fn is_made(parent: &Folder, name: &str) -> bool {
    let makers: &[&str] = match name {
        "node_modules" | "__pycache__" | ".venv" => return true,
        "target" => &["Cargo.toml", "pom.xml", "build.sbt"],
        "dist" => &["package.json", "pyproject.toml", "setup.py"],
        _ => return false,
    };
    makers.iter().any(|it| parent.has(it))
}

fn end_of(output: &str) -> String {
    let output = output.trim_end();
    let start = output.ceil_char_boundary(output.len().saturating_sub(LONGEST_OUTPUT));
    output[start..].chars().filter(|it| *it == '\n' || *it == '\t' || !it.is_control()).collect()
}
