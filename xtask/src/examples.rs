//! The example programs that `cargo xtask test` runs.

use std::{fs, io, path::Path};

use crate::{error::Error, step::Step};

/// An example program.
#[derive(Debug, PartialEq)]
pub(crate) struct Example {
    name: String,
    /// Texts that the program prints, in this order. They are the lines of the file `NAME.expected` next to its source.
    expected: Vec<String>,
}

impl Example {
    /// Returns the step that runs the program.
    pub(crate) fn step(&self) -> Step {
        let Self { name, expected } = self;
        let step = Step::built(format!("example {name}"), &format!("debug/examples/{name}"), "");
        step.expect(expected.clone())
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), expected: vec![] }
    }
}

/// Crates whose example programs are run.
const PACKAGES: [&str; 7] =
    ["graph-core", "graph-store", "graph-trace", "llm", "graph-agents", "sandbox-vm", "draft-gate"];

/// Returns the example programs to run.
pub(crate) fn examples(root: &Path) -> Result<Vec<Example>, Error> {
    let mut examples = vec![];
    for package in PACKAGES {
        let dir = root.join(package).join("examples");
        let found = examples_in(&dir);
        examples.extend(found.map_err(|source| Error::File { path: dir, source })?);
    }
    Ok(examples)
}

fn examples_in(dir: &Path) -> io::Result<Vec<Example>> {
    if !dir.exists() {
        return Ok(vec![]);
    }
    let mut names = vec![];
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "rs") {
            names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
        }
    }
    // The `measure` programs are benchmarks, which need an otherwise idle machine.
    names.retain(|it| it != "measure");
    names.sort();
    let example = |name: String| match fs::read_to_string(dir.join(format!("{name}.expected"))) {
        Ok(text) => Ok(Example { name, expected: text.lines().map(str::to_owned).collect() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Example { name, expected: vec![] })
        }
        Err(error) => Err(error),
    };
    names.into_iter().map(example).collect()
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn examples_are_sorted_and_a_missing_directory_has_none() {
        let dir = env::temp_dir().join(format!("xtask-examples-{}", std::process::id()));
        assert!(examples_in(&dir).unwrap().is_empty());
        fs::create_dir_all(&dir).unwrap();
        for name in ["two.rs", "one.rs", "notes.md"] {
            fs::write(dir.join(name), "").unwrap();
        }
        fs::write(dir.join("two.expected"), "first\nsecond\n").unwrap();
        let expected = ["first", "second"].map(str::to_owned).into();
        let two = Example { expected, ..Example::named("two") };
        assert_eq!(examples_in(&dir).unwrap(), [Example::named("one"), two]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn output_of_all_agent_examples_is_checked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let examples = examples_in(&root.join("graph-agents/examples")).unwrap();
        assert!(!examples.is_empty());
        for example in examples {
            assert!(!example.expected.is_empty(), "{}.expected is missing", example.name);
        }
    }
}
