//! The inputs that are mutated, and the inputs that failed earlier.

use std::{
    collections::HashSet,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
};

/// Maximum number of inputs that are kept because of their behaviour.
const MAX_KEPT: usize = 20_000;

/// Inputs with distinct behaviours.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    inputs: Vec<Vec<u8>>,
    behaviours: HashSet<u64>,
}

impl Corpus {
    /// Adds an input, even if its behaviour is known.
    pub(crate) fn add_seed(&mut self, input: Vec<u8>, behaviour: &impl Hash) {
        self.behaviours.insert(hash(behaviour));
        self.inputs.push(input);
    }

    /// Adds an input if no other input had the same behaviour.
    pub(crate) fn add_if_new(&mut self, input: Vec<u8>, behaviour: &impl Hash) {
        if self.inputs.len() < MAX_KEPT && self.behaviours.insert(hash(behaviour)) {
            self.inputs.push(input);
        }
    }

    /// Returns the inputs. There is at least one after the first seed.
    pub(crate) fn inputs(&self) -> &[Vec<u8>] {
        &self.inputs
    }
}

fn hash(value: &impl Hash) -> u64 {
    // The hasher has fixed keys, so runs are reproducible.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Reads the stored inputs of a target, sorted by name. Returns an empty list if the directory does not exist.
pub(crate) fn read_dir(dir: &Path) -> Vec<Vec<u8>> {
    match read_files(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        files => files.unwrap_or_else(|error| {
            panic!("cannot read the inputs in {}: {error}", dir.display());
        }),
    }
}

fn read_files(dir: &Path) -> io::Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// Stores an input under a name that is derived from its bytes.
pub(crate) fn store(dir: &Path, input: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let path = dir.join(format!("{:016x}", hash(&input)));
    fs::write(&path, input)?;
    Ok(path)
}
