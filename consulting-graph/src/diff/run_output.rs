//! Outputs of a complete run.

use std::{io, path::PathBuf};

use crate::{report::Report, run::Run};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    #[error("{} does not exist, because the run is not complete; complete it with `consulting resume`", .0.display())]
    NoReport(PathBuf),
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a valid report of this program version: {problem}", path.display())]
    Report { path: PathBuf, problem: String },
}

pub(super) struct RunOutput {
    pub(super) report: Report,
    /// Documents of layer 0, by file name.
    pub(super) documents: Vec<(&'static str, String)>,
}

impl RunOutput {
    pub(super) fn read(run: &Run) -> Result<Self, DiffError> {
        let file = |name: &str| {
            let path = run.dir().join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok((path, text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(DiffError::NoReport(path))
                }
                Err(source) => Err(DiffError::Io { path, source }),
            }
        };
        let (path, text) = file("report.json")?;
        let report = serde_json::from_str(&text)
            .map_err(|error| DiffError::Report { path, problem: error.to_string() })?;
        let mut documents = Vec::new();
        for name in ["financial.md", "news.md"] {
            documents.push((name, file(name)?.1));
        }
        Ok(Self { report, documents })
    }
}
