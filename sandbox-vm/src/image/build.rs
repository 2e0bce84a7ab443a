//! Builds guest images from Debian's packages.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::{KernelError, MANIFEST, MODULES, Manifest, VERSION, cpio::Archive, kernel, sha256};

/// A package that only depends on the current kernel for cloud machines: few drivers, virtio among them.
const KERNEL: &str = "linux-image-cloud-amd64";
/// What CPython and its standard library need, the interpreter itself left out: its name has its version.
const LIBRARIES: [&str; 13] = [
    "libc6",
    "libgcc-s1",
    "zlib1g",
    "libexpat1",
    "libffi8",
    "libssl3",
    "libbz2-1.0",
    "liblzma5",
    "libsqlite3-0",
    "libuuid1",
    "libcrypt1",
    "media-types",
    "busybox-static",
];
/// The commands of the shell that a Python image has.
const COMMANDS: [&str; 22] = [
    "sh", "ls", "cat", "cp", "mv", "rm", "mkdir", "rmdir", "ln", "echo", "env", "head", "tail",
    "grep", "sed", "sleep", "sort", "wc", "true", "false", "dd", "ps",
];
/// What no program in a guest reads.
const LEFT_OUT: [&str; 6] =
    ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "etc", "var"];

/// Why images could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A program of Debian failed, or is not here.
    #[error(
        "`{command}` failed: {problem}; images are built on Debian and systems like it, with apt and dpkg"
    )]
    Command {
        /// The command.
        command: String,
        /// What it said.
        problem: String,
    },
    /// A package that is not what apt's list says.
    #[error("{0} does not have the SHA-256 that apt's list gives; remove it and try again")]
    Package(PathBuf),
    /// A package without a part that is needed.
    #[error("the packages hold no {0}")]
    Part(String),
    /// A kernel that cannot be unpacked.
    #[error("the kernel {path}: {source}")]
    Kernel {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KernelError,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Builds the kernel and all images into a folder, and says which packages they are of.
///
/// The packages are kept beside them, so a second build fetches only what has changed.
pub fn build(folder: &Path) -> Result<Vec<String>, BuildError> {
    let packages = folder.join("packages");
    let trees = folder.join("unpacked");
    remove(&trees)?;
    create(&packages)?;
    let mut built_of = BTreeMap::new();
    let mut unpack = |name: &str, names: &[String]| -> Result<PathBuf, BuildError> {
        let tree = trees.join(name);
        create(&tree)?;
        for package in fetch(names, &packages)? {
            run(Command::new("dpkg-deb").arg("-x").arg(&package.file).arg(&tree))?;
            built_of.insert(package.id, package.sha256);
        }
        Ok(tree)
    };

    let kernel_tree = unpack("kernel", &[dependency(KERNEL, "linux-image-")?])?;
    let interpreter = dependency("python3-minimal", "python3.")?;
    let python_tree = unpack("python", &python_packages(&interpreter))?;

    let image = find(&kernel_tree, "vmlinuz-")?;
    let kernel = kernel::unpack(&read(&image)?)
        .map_err(|source| BuildError::Kernel { path: image, source })?;
    let files = [
        ("vmlinux", kernel),
        ("base.cpio", base(&kernel_tree)?.finish()),
        ("python.cpio", python(&kernel_tree, &python_tree, &interpreter)?.finish()),
    ];
    let mut sums = BTreeMap::new();
    for (name, content) in files {
        write(&folder.join(name), &content)?;
        sums.insert(name.to_owned(), sha256(&content));
    }
    remove(&trees)?;
    let packages = built_of.keys().cloned().collect();
    let manifest = Manifest { version: VERSION, files: sums, packages: built_of };
    let text = serde_json::to_vec_pretty(&manifest).expect("a map of texts is JSON");
    // Last, so that a build that failed in the middle is not taken for one.
    write(&folder.join(MANIFEST), &text)?;
    Ok(packages)
}

/// The folders of every guest, and the modules that its agent loads.
fn base(kernel_tree: &Path) -> Result<Archive, BuildError> {
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "workspace", "modules"] {
        archive.directory(folder);
    }
    // The kernel opens it for the first process before anything is mounted.
    archive.character_device("dev/console", 5, 1);
    for module in MODULES {
        let path = find(kernel_tree, &format!("{module}.ko"))?;
        archive.file(&format!("modules/{module}.ko"), false, &read(&path)?);
    }
    Ok(archive)
}

fn python(kernel_tree: &Path, tree: &Path, interpreter: &str) -> Result<Archive, BuildError> {
    for folder in LEFT_OUT {
        remove(&tree.join(folder))?;
    }
    let version = interpreter.trim_end_matches("-minimal");
    let mut archive = base(kernel_tree)?;
    archive.tree(tree).map_err(|source| BuildError::Io { path: tree.to_path_buf(), source })?;
    // Newer packages have everything below `usr`, and count on these links.
    for folder in ["bin", "lib", "lib64"] {
        if !tree.join(folder).exists() {
            archive.link(folder, &format!("usr/{folder}"));
        }
    }
    archive.link("usr/bin/python3", version);
    archive.link("usr/bin/python", version);
    let busybox = find(tree, "busybox")?;
    let busybox = busybox.strip_prefix(tree).unwrap_or(&busybox).to_string_lossy();
    for command in COMMANDS {
        archive.link(&format!("usr/bin/{command}"), &format!("/{busybox}"));
    }
    if tree.join("bin").exists() {
        archive.link("bin/sh", &format!("/{busybox}"));
    }
    Ok(archive)
}

fn python_packages(interpreter: &str) -> Vec<String> {
    let python = [
        interpreter.to_owned(),
        format!("lib{interpreter}"),
        format!("lib{}-stdlib", interpreter.trim_end_matches("-minimal")),
    ];
    python.into_iter().chain(LIBRARIES.map(str::to_owned)).collect()
}

/// The package that another one only stands for.
fn dependency(package: &str, prefix: &str) -> Result<String, BuildError> {
    let said = run(Command::new("apt-cache").args(["depends", package]))?;
    let names = said.lines().filter_map(|line| line.split_once("Depends: "));
    let found = names.map(|(_, name)| name.trim()).find(|it| it.starts_with(prefix));
    found.map(str::to_owned).ok_or_else(|| BuildError::Part(format!("{prefix}… for {package}")))
}

struct Package {
    id: String,
    file: PathBuf,
    sha256: String,
}

/// Fetches packages that are not here yet. Apt's list is signed, so its hashes say what is Debian's.
fn fetch(names: &[String], folder: &Path) -> Result<Vec<Package>, BuildError> {
    let listed =
        run(Command::new("apt-get").args(["download", "--print-uris", "-qq"]).args(names))?;
    let mut packages = Vec::new();
    let mut missing = Vec::new();
    for line in listed.lines() {
        let package = parse(line, folder)
            .ok_or_else(|| BuildError::Part(format!("SHA-256 in apt's list: {line}")))?;
        if !is(&package)? {
            missing.push(package.id.clone());
        }
        packages.push(package);
    }
    if !missing.is_empty() {
        run(Command::new("apt-get").args(["download", "-qq"]).args(&missing).current_dir(folder))?;
    }
    for package in &packages {
        if !is(package)? {
            return Err(BuildError::Package(package.file.clone()));
        }
    }
    Ok(packages)
}

/// Reads a line `'URI' name_version_architecture.deb size SHA256:sum`.
fn parse(line: &str, folder: &Path) -> Option<Package> {
    let mut words = line.split_whitespace().skip(1);
    let file = words.next()?;
    let sha256 = words.nth(1)?.strip_prefix("SHA256:")?.to_owned();
    let mut parts = file.split('_');
    let (name, version) = (parts.next()?, parts.next()?.replace("%3a", ":"));
    Some(Package { id: format!("{name}={version}"), file: folder.join(file), sha256 })
}

fn is(package: &Package) -> Result<bool, BuildError> {
    Ok(package.file.is_file() && sha256(&read(&package.file)?) == package.sha256)
}

/// The first file of the folder, by name, whose name begins with this.
fn find(folder: &Path, prefix: &str) -> Result<PathBuf, BuildError> {
    fn walk(folder: &Path, prefix: &str) -> io::Result<Option<PathBuf>> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type()?;
            if kind.is_file() && entry.file_name().to_string_lossy().starts_with(prefix) {
                return Ok(Some(entry.path()));
            }
            if kind.is_dir()
                && let Some(found) = walk(&entry.path(), prefix)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
    let found = walk(folder, prefix)
        .map_err(|source| BuildError::Io { path: folder.to_path_buf(), source })?;
    found.ok_or_else(|| BuildError::Part(prefix.to_owned()))
}

fn run(command: &mut Command) -> Result<String, BuildError> {
    let problem = match command.output() {
        Ok(Output { status, stdout, .. }) if status.success() => {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        Ok(Output { stderr, .. }) => String::from_utf8_lossy(&stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(BuildError::Command { command: command_line(command), problem })
}

fn command_line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    fs::read(path).map_err(|source| BuildError::Io { path: path.to_path_buf(), source })
}

fn write(path: &Path, content: &[u8]) -> Result<(), BuildError> {
    fs::write(path, content).map_err(|source| BuildError::Io { path: path.to_path_buf(), source })
}

fn create(folder: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(folder)
        .map_err(|source| BuildError::Io { path: folder.to_path_buf(), source })
}

fn remove(folder: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BuildError::Io { path: folder.to_path_buf(), source: error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_apts_list() {
        let line = "'http://mirror/pool/l/libc6_2.36-9_amd64.deb' libc6_1%3a2.36-9_amd64.deb 2757 SHA256:ab12";
        let package = parse(line, Path::new("/p")).unwrap();
        assert_eq!(package.id, "libc6=1:2.36-9");
        assert_eq!(package.file, Path::new("/p/libc6_1%3a2.36-9_amd64.deb"));
        assert_eq!(package.sha256, "ab12");
        assert!(parse("'x' libc6_2_amd64.deb 2757 MD5Sum:ab12", Path::new("/p")).is_none());
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_words() {
        let error = run(Command::new("sh").args(["-c", "echo no such package >&2; exit 1"]));
        let words = error.unwrap_err().to_string();
        assert!(words.contains("`sh -c") && words.contains("no such package"), "{words}");
    }
}
