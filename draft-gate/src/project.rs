//! The project as it would be if a change set were accepted, for its checks.

use std::collections::BTreeMap;

use crate::{
    blob,
    checks::ProjectFile,
    confine::Folder,
    contract::{Check, Contract},
    error::{Error, shown},
    finding::{Finding, Weight},
    gate::Gate,
    judge::Proposal,
    path::WorkspacePath,
};

/// Folders of things that were built or fetched.
const LEFT_OUT: [&str; 5] = ["target", "node_modules", "__pycache__", ".venv", "dist"];

/// A project that is larger is not copied.
const MOST_BYTES: usize = 64 << 20;

const LONGEST_OUTPUT: usize = 2_000;

impl Gate {
    /// What the contract's checks say to a proposal; that they cannot be run is a finding too.
    pub(crate) fn run_checks(&self, proposal: &Proposal, contract: &Contract) -> Vec<Finding> {
        let cannot_run = |why: String| vec![Finding::new("checks", Weight::Escalate, why)];
        let Some(checks) = &self.checks else {
            return cannot_run(
                "the contract asks for checks, and nothing here runs them".to_owned(),
            );
        };
        let files = match self.project(proposal) {
            Ok(files) => files,
            Err(error) => return cannot_run(error.to_string()),
        };
        let run = |check: &Check| {
            let outcome = match checks.run(check, &files) {
                Ok(outcome) if outcome.is_passed => return None,
                Ok(outcome) => (
                    Weight::Reject,
                    format!("`{}` failed: {}", check.name, end_of(&outcome.output)),
                ),
                Err(error) => (Weight::Escalate, error.to_string()),
            };
            Some(Finding::new("checks", outcome.0, outcome.1))
        };
        contract.draft_gate.checks.iter().filter_map(run).collect()
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
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if let Ok(inner) = folder.folder(&name) {
            collect(&inner, &path, files, room)?;
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

fn end_of(output: &str) -> String {
    let output = output.trim_end();
    let start = output.ceil_char_boundary(output.len().saturating_sub(LONGEST_OUTPUT));
    output[start..].chars().filter(|it| *it == '\n' || *it == '\t' || !it.is_control()).collect()
}
