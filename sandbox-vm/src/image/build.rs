//! Builds guest images from Debian packages.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::{
    cpio::Archive,
    images::{Images, MANIFEST, Manifest, VERSION, sha256},
    kernel::{self, KernelError},
    modules::{DRIVERS, Module, read_in_load_order},
};

/// A meta package that depends on the current kernel for cloud machines. That kernel has few drivers, including virtio.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// Packages that CPython and its standard library need. The package of the interpreter itself is not listed, because
/// its name contains the version of Python.
const PYTHON_LIBRARIES: [&str; 13] = [
    "libc6", "libgcc-s1", "zlib1g", "libexpat1", "libffi8", "libssl3", "libbz2-1.0", "liblzma5",
    "libsqlite3-0", "libuuid1", "libcrypt1", "media-types", "busybox-static",
];
/// Shell commands in the Python image.
const SHELL_COMMANDS: [&str; 22] = [
    "sh", "ls", "cat", "cp", "mv", "rm", "mkdir", "rmdir", "ln", "echo", "env", "head", "tail",
    "grep", "sed", "sleep", "sort", "wc", "true", "false", "dd", "ps",
];
/// Directories that no program in a guest reads.
const EXCLUDED_DIRS: [&str; 6] =
    ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "etc", "var"];

/// Why images could not be built.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A Debian tool failed or is not installed.
    #[error(
        "`{command}` failed: {problem}; building images requires apt and dpkg, as on Debian and its derivatives"
    )]
    Command {
        /// The command.
        command: String,
        /// What went wrong.
        problem: String,
    },
    /// A downloaded package differs from apt's package list.
    #[error("the SHA-256 of `{0}` differs from apt's package list; delete the file and try again")]
    HashMismatch(PathBuf),
    /// The packages lack a part that is needed.
    #[error("the packages do not contain {0}")]
    Missing(String),
    /// The kernel cannot be extracted.
    #[error("cannot extract the kernel from `{path}`: {source}")]
    Kernel {
        /// The kernel image.
        path: PathBuf,
        /// The cause.
        source: KernelError,
    },
    /// A file cannot be read or written.
    #[error("cannot access `{path}`: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

graph_core::readable_debug!(BuildError);

/// Builds the kernel and all images in a directory and returns the packages that they were built from.
///
/// Downloaded packages are kept in the directory, so a later build downloads only what has changed. If the packages,
/// the files and the way to build them are unchanged, nothing is built. Concurrent builds in one directory wait for
/// each other, and readers of the directory always see complete files.
///
/// ```no_run
/// let packages = sandbox_vm::image::build("images".as_ref())?;
/// println!("built from {} packages", packages.len());
/// # Ok::<(), sandbox_vm::image::BuildError>(())
/// ```
pub fn build(dir: &Path) -> Result<Vec<String>, BuildError> {
    create_dir(dir)?;
    let _lock = lock(&dir.join("lock"))?;
    let packages = dir.join("packages");
    create_dir(&packages)?;
    let interpreter = find_dependency("python3-minimal", "python3.")?;
    let kernel_packages =
        list_packages(&[find_dependency(KERNEL_PACKAGE, "linux-image-")?], &packages)?;
    let python_packages = list_packages(&python_package_names(&interpreter), &packages)?;
    let all = kernel_packages.iter().chain(&python_packages);
    let sources: BTreeMap<_, _> = all.map(|it| (it.id.clone(), it.sha256.clone())).collect();
    let names = sources.keys().cloned().collect();
    if is_up_to_date(dir, &sources) {
        return Ok(names);
    }

    let trees = dir.join("unpacked");
    remove_dir(&trees)?;
    let kernel_tree = unpack(&kernel_packages, &packages, trees.join("kernel"))?;
    let python_tree = unpack(&python_packages, &packages, trees.join("python"))?;
    let image = find_file(&kernel_tree, "vmlinuz-")?;
    let kernel = kernel::extract_kernel(&read(&image)?)
        .map_err(|source| BuildError::Kernel { path: image, source })?;
    let files = [
        ("vmlinux", kernel),
        ("base.cpio", base_image(&kernel_tree)?.finish()),
        ("python.cpio", python_image(&kernel_tree, &python_tree, &interpreter)?.finish()),
    ];
    let mut sums = BTreeMap::new();
    for (name, content) in &files {
        write(&temporary_path(dir, name), content)?;
        sums.insert((*name).to_owned(), sha256(content));
    }
    remove_dir(&trees)?;
    let manifest = Manifest { version: VERSION, files: sums, packages: sources, recipe: recipe() };
    let text =
        serde_json::to_vec_pretty(&manifest).expect("a map of strings can be written as JSON");
    write(&temporary_path(dir, MANIFEST), &text)?;
    // Rename all files only now, the manifest last, so that a build that failed halfway is not mistaken for a complete
    // one.
    for name in files.iter().map(|(name, _)| *name).chain([MANIFEST]) {
        let path = dir.join(name);
        fs::rename(temporary_path(dir, name), &path)
            .map_err(|source| BuildError::Io { path, source })?;
    }
    Ok(names)
}

/// Returns whether a directory already contains what would be built from these packages.
fn is_up_to_date(dir: &Path, packages: &BTreeMap<String, String>) -> bool {
    let Ok(images) = Images::open(dir) else { return false };
    let Images { manifest, .. } = &images;
    let is_unchanged = |(name, sum): (&String, &String)| {
        fs::read(dir.join(name)).is_ok_and(|it| sha256(&it) == *sum)
    };
    manifest.packages == *packages
        && manifest.recipe == recipe()
        && !manifest.files.is_empty()
        && manifest.files.iter().all(is_unchanged)
}

/// Returns a hash of the code that turns packages into images: the source of this module and of the modules that it
/// uses.
fn recipe() -> String {
    let parts = [
        include_str!("build.rs"),
        include_str!("cpio.rs"),
        include_str!("kernel.rs"),
        include_str!("lz4.rs"),
        include_str!("modules.rs"),
    ];
    sha256(parts.concat().as_bytes())
}

/// Returns the path to which a file is written before it is renamed.
fn temporary_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.new"))
}

fn lock(path: &Path) -> Result<fs::File, BuildError> {
    let locked = fs::File::create(path).and_then(|it| it.lock().map(|()| it));
    locked.map_err(|source| BuildError::Io { path: path.to_path_buf(), source })
}

/// Downloads missing packages and unpacks all of them into one new directory.
fn unpack(packages: &[Package], downloads: &Path, tree: PathBuf) -> Result<PathBuf, BuildError> {
    download_missing(packages, downloads)?;
    create_dir(&tree)?;
    for package in packages {
        run_command(Command::new("dpkg-deb").arg("-x").arg(&package.file).arg(&tree))?;
    }
    Ok(tree)
}

/// Creates the base image: the directories of every guest, and the modules that its agent loads.
fn base_image(kernel_tree: &Path) -> Result<Archive, BuildError> {
    let mut archive = Archive::default();
    for dir in ["dev", "proc", "sys", "tmp", "workspace", "modules"] {
        archive.directory(dir);
    }
    // The kernel opens the console for the first process before anything is mounted.
    archive.character_device("dev/console", 5, 1);
    let modules = read_in_load_order(&DRIVERS, &|name| read_module(kernel_tree, name))?;
    // The agent loads the modules in the order of their file names.
    for (index, Module { name, content }) in modules.iter().enumerate() {
        archive.file(&format!("modules/{index:02}-{name}.ko"), false, content);
    }
    Ok(archive)
}

/// Reads a kernel module. Where a module's name has underscores, its file name may have hyphens.
fn read_module(kernel_tree: &Path, name: &str) -> Result<Vec<u8>, BuildError> {
    let path = find_file(kernel_tree, &format!("{}.ko", name.replace('_', "-")))
        .or_else(|_| find_file(kernel_tree, &format!("{name}.ko")))?;
    read(&path)
}

fn python_image(kernel_tree: &Path, tree: &Path, interpreter: &str) -> Result<Archive, BuildError> {
    for dir in EXCLUDED_DIRS {
        remove_dir(&tree.join(dir))?;
    }
    let version = interpreter.trim_end_matches("-minimal");
    let mut archive = base_image(kernel_tree)?;
    archive.tree(tree).map_err(|source| BuildError::Io { path: tree.to_path_buf(), source })?;
    // Newer packages keep everything below `usr` and expect these links.
    for dir in ["bin", "lib", "lib64"] {
        if !tree.join(dir).exists() {
            archive.link(dir, &format!("usr/{dir}"));
        }
    }
    archive.link("usr/bin/python3", version);
    archive.link("usr/bin/python", version);
    let busybox = find_file(tree, "busybox")?;
    let busybox = busybox.strip_prefix(tree).unwrap_or(&busybox).to_string_lossy();
    for command in SHELL_COMMANDS {
        archive.link(&format!("usr/bin/{command}"), &format!("/{busybox}"));
    }
    if tree.join("bin").exists() {
        archive.link("bin/sh", &format!("/{busybox}"));
    }
    Ok(archive)
}

fn python_package_names(interpreter: &str) -> Vec<String> {
    let python = [
        interpreter.to_owned(),
        format!("lib{interpreter}"),
        format!("lib{}-stdlib", interpreter.trim_end_matches("-minimal")),
    ];
    python.into_iter().chain(PYTHON_LIBRARIES.map(str::to_owned)).collect()
}

fn find_dependency(package: &str, prefix: &str) -> Result<String, BuildError> {
    let output = run_command(Command::new("apt-cache").args(["depends", package]))?;
    let names = output.lines().filter_map(|line| line.split_once("Depends: "));
    let found = names.map(|(_, name)| name.trim()).find(|it| it.starts_with(prefix));
    found
        .map(str::to_owned)
        .ok_or_else(|| BuildError::Missing(format!("a dependency `{prefix}…` of `{package}`")))
}

struct Package {
    id: String,
    file: PathBuf,
    sha256: String,
}

/// Reads the entries of packages in apt's package list. The list is signed, so its hashes are authentic.
fn list_packages(names: &[String], dir: &Path) -> Result<Vec<Package>, BuildError> {
    let listed =
        run_command(Command::new("apt-get").args(["download", "--print-uris", "-qq"]).args(names))?;
    let parsed = listed.lines().map(|line| {
        let package = parse_uri_line(line, dir);
        package.ok_or_else(|| BuildError::Missing(format!("a SHA-256 in apt's line `{line}`")))
    });
    parsed.collect()
}

/// Downloads the packages that are missing and verifies all of them.
fn download_missing(packages: &[Package], dir: &Path) -> Result<(), BuildError> {
    let mut missing = Vec::new();
    for package in packages {
        if !is_downloaded(package)? {
            missing.push(package.id.clone());
        }
    }
    if !missing.is_empty() {
        run_command(
            Command::new("apt-get").args(["download", "-qq"]).args(&missing).current_dir(dir),
        )?;
    }
    match packages.iter().find(|it| !is_downloaded(it).unwrap_or(false)) {
        Some(package) => Err(BuildError::HashMismatch(package.file.clone())),
        None => Ok(()),
    }
}

/// Parses a line `'URI' name_version_architecture.deb size SHA256:sum`.
fn parse_uri_line(line: &str, dir: &Path) -> Option<Package> {
    let mut words = line.split_whitespace().skip(1);
    let file = words.next()?;
    let sha256 = words.nth(1)?.strip_prefix("SHA256:")?.to_owned();
    let mut parts = file.split('_');
    let (name, version) = (parts.next()?, parts.next()?.replace("%3a", ":"));
    Some(Package { id: format!("{name}={version}"), file: dir.join(file), sha256 })
}

fn is_downloaded(package: &Package) -> Result<bool, BuildError> {
    Ok(package.file.is_file() && sha256(&read(&package.file)?) == package.sha256)
}

/// Returns the first file in a directory tree, in name order, whose name starts with `prefix`.
fn find_file(dir: &Path, prefix: &str) -> Result<PathBuf, BuildError> {
    fn walk(dir: &Path, prefix: &str) -> io::Result<Option<PathBuf>> {
        let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
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
    let found =
        walk(dir, prefix).map_err(|source| BuildError::Io { path: dir.to_path_buf(), source })?;
    found.ok_or_else(|| BuildError::Missing(format!("a file `{prefix}…`")))
}

fn run_command(command: &mut Command) -> Result<String, BuildError> {
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

fn create_dir(dir: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(dir).map_err(|source| BuildError::Io { path: dir.to_path_buf(), source })
}

fn remove_dir(dir: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BuildError::Io { path: dir.to_path_buf(), source: error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_uri_line_is_parsed() {
        let line = "'http://mirror/pool/l/libc6_2.36-9_amd64.deb' libc6_1%3a2.36-9_amd64.deb 2757 SHA256:ab12";
        let package = parse_uri_line(line, Path::new("/p")).unwrap();
        assert_eq!(package.id, "libc6=1:2.36-9");
        assert_eq!(package.file, Path::new("/p/libc6_1%3a2.36-9_amd64.deb"));
        assert_eq!(package.sha256, "ab12");
        assert!(
            parse_uri_line("'x' libc6_2_amd64.deb 2757 MD5Sum:ab12", Path::new("/p")).is_none()
        );
    }

    #[test]
    fn unchanged_images_are_not_rebuilt() {
        let dir = tempfile::tempdir().unwrap();
        let of = |version: &str| BTreeMap::from([(format!("libc6={version}"), "ab".to_owned())]);
        let list = |recipe: String| {
            fs::write(dir.path().join("vmlinux"), "kernel").unwrap();
            let files = BTreeMap::from([("vmlinux".to_owned(), sha256(b"kernel"))]);
            let manifest = Manifest { version: VERSION, files, packages: of("1"), recipe };
            let text = serde_json::to_vec(&manifest).unwrap();
            fs::write(dir.path().join(MANIFEST), text).unwrap();
        };
        assert!(!is_up_to_date(dir.path(), &of("1")));
        list(recipe());
        assert!(is_up_to_date(dir.path(), &of("1")));
        assert!(!is_up_to_date(dir.path(), &of("2")), "another package");
        fs::write(dir.path().join("vmlinux"), "another").unwrap();
        assert!(!is_up_to_date(dir.path(), &of("1")), "another file");
        list("another recipe".to_owned());
        assert!(!is_up_to_date(dir.path(), &of("1")), "another build recipe");
    }

    #[test]
    fn failed_command_is_reported_with_its_output() {
        let error =
            run_command(Command::new("sh").args(["-c", "echo no such package >&2; exit 1"]));
        let message = error.unwrap_err().to_string();
        assert!(message.contains("`sh -c") && message.contains("no such package"), "{message}");
    }
}
