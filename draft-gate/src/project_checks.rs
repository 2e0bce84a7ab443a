//! Runs project checks on a copy of the project that includes a change set.

use std::collections::BTreeMap;

use crate::{
    blob,
    checks::{ProjectChecks, ProjectFile},
    confine::Dir,
    contract::{Check, Contract},
    digest::Digest,
    error::Error,
    escape::{escape_for_message, without_controls},
    finding::{Finding, Severity},
    gate::Gate,
    path::WorkspacePath,
    propose::Proposal,
    records::RecordedFindings,
};

/// Maximum total size, in bytes, of the project's files. Larger projects are not copied.
const MAX_BYTES: usize = 64 << 20;

const MAX_OUTPUT_BYTES: usize = 2_000;

impl Gate {
    /// Runs the contract's checks on a proposal. If the checks cannot run, returns a finding that says so.
    pub(crate) fn run_checks(&self, proposal: &Proposal, contract: &Contract) -> RecordedFindings {
        let project = self.project(proposal);
        let applies_to = project_fingerprint(proposal.fingerprint, &project, contract);
        let cannot_run = |why: String| vec![Finding::new("checks", Severity::Escalate, why)];
        let findings = match (&self.checks, project) {
            (None, _) => {
                let why = "the contract requires checks, but this program cannot run them; build it with \
                           `--features sandbox`, or decide without them";
                cannot_run(why.to_owned())
            }
            (_, Err(error)) => cannot_run(error.to_string()),
            (Some(checks), Ok(files)) => {
                let run = |check: &Check| run_check(checks.as_ref(), check, &files);
                contract.draft_gate.checks.iter().filter_map(run).collect()
            }
        };
        RecordedFindings { applies_to, findings }
    }

    /// Returns a digest of everything that a judgement depends on: the change and, if the contract has checks, the
    /// whole project.
    pub(crate) fn judged_state(&self, proposal: &Proposal, contract: &Contract) -> Digest {
        if contract.draft_gate.checks.is_empty() {
            return proposal.fingerprint;
        }
        project_fingerprint(proposal.fingerprint, &self.project(proposal), contract)
    }

    /// Returns all files that workers may access, as they would be with the proposal applied.
    fn project(&self, proposal: &Proposal) -> Result<Vec<ProjectFile>, Error> {
        let mut files = BTreeMap::new();
        let mut room = MAX_BYTES;
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
    let (severity, text) = match checks.run(check, files) {
        Ok(outcome) if outcome.passed => return None,
        Ok(outcome) => {
            (Severity::Reject, format!("`{}` failed: {}", check.name, output_tail(&outcome.output)))
        }
        Err(error) => (Severity::Escalate, error.to_string()),
    };
    Some(Finding::new("checks", severity, text))
}

/// Returns a digest of a change, of the project with that change, and of the contract's checks.
fn project_fingerprint(
    fingerprint: Digest,
    project: &Result<Vec<ProjectFile>, Error>,
    contract: &Contract,
) -> Digest {
    let mut text = format!("{fingerprint}\n");
    match project {
        Ok(files) => text.extend(
            files
                .iter()
                .map(|it| format!("{} {} {}\n", it.path, it.is_executable, Digest::of(&it.bytes))),
        ),
        Err(error) => text += &error.to_string(),
    }
    let checks =
        serde_json::to_string(&contract.draft_gate.checks).expect("checks serialize to JSON");
    Digest::of((text + &checks).as_bytes())
}

fn collect(
    dir: &Dir,
    path: &str,
    files: &mut BTreeMap<WorkspacePath, ProjectFile>,
    room: &mut usize,
) -> Result<(), Error> {
    for name in dir.names()? {
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        let parsed = WorkspacePath::parse(&path).and_then(WorkspacePath::ensure_unprotected);
        let Ok(parsed) = parsed else { continue };
        if let Ok(inner) = dir.subdir(&name) {
            if !is_build_output(dir, &name) {
                collect(&inner, &path, files, room)?;
            }
            continue;
        }
        // Skip links, pipes and other special files. Checks do not see them.
        let Ok(Some(content)) = dir.read(&name, blob::MAX_BYTES) else { continue };
        *room = room.checked_sub(content.bytes.len()).ok_or_else(|| Error::CheckNotRun {
            check: escape_for_message(&path),
            why: format!("the project is larger than {MAX_BYTES} bytes"),
        })?;
        let is_executable = content.mode & 0o111 != 0;
        files.insert(
            parsed.clone(),
            ProjectFile { path: parsed, bytes: content.bytes, is_executable },
        );
    }
    Ok(())
}

/// Returns whether a directory contains build output or downloads. Source directories can be named `target` or `dist`
/// too, so these names count only if a build file such as `Cargo.toml` is next to the directory.
fn is_build_output(parent: &Dir, name: &str) -> bool {
    let build_files: &[&str] = match name {
        "node_modules" | "__pycache__" | ".venv" => return true,
        "target" => &["Cargo.toml", "pom.xml", "build.sbt"],
        "dist" => &["package.json", "pyproject.toml", "setup.py"],
        _ => return false,
    };
    build_files.iter().any(|it| parent.has(it))
}

fn output_tail(output: &str) -> String {
    let output = output.trim_end();
    let start = output.ceil_char_boundary(output.len().saturating_sub(MAX_OUTPUT_BYTES));
    without_controls(&output[start..])
}
