//! Finds PostgreSQL's programs and the user that runs them.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

/// A directory that contains PostgreSQL's programs, all of the same version.
#[derive(Debug)]
pub(super) struct Programs {
    dir: PathBuf,
}

const REQUIRED_PROGRAMS: [&str; 4] = ["initdb", "pg_ctl", "postgres", "psql"];

impl Programs {
    /// Searches the directory that `GRAPH_POSTGRES_BIN` specifies. If the variable is not set, searches `PATH` and
    /// the usual installation directories.
    pub(super) fn find() -> Option<Self> {
        if let Some(dir) = env::var_os("GRAPH_POSTGRES_BIN") {
            return Self::at(Path::new(&dir));
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let mut dirs: Vec<PathBuf> = env::split_paths(&path).collect();
        dirs.extend(by_version(Path::new("/usr/lib/postgresql")));
        let at = dirs.iter().find_map(|it| Self::at(it));
        at.or_else(|| Self::at(&dir_from_pg_config()?))
    }

    /// Returns the programs in a directory. Follows symbolic links, because Debian installs a link to one program
    /// next to wrappers for the others.
    fn at(dir: &Path) -> Option<Self> {
        let initdb = dir.join("initdb").canonicalize().ok()?;
        let dir = initdb.parent()?.to_owned();
        REQUIRED_PROGRAMS.iter().all(|it| dir.join(it).is_file()).then_some(Self { dir })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a command for a program, without PostgreSQL settings from the environment.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.dir.join(name));
        clear_settings(&mut command);
        command
    }
}

/// The user that runs the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum User {
    Current,
    Other { uid: u32, gid: u32 },
}

impl User {
    pub(super) fn apply(self, command: &mut Command) {
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
    }
}

/// Returns the user id and the group id of the user `postgres`.
pub(super) fn postgres_user() -> Option<(u32, u32)> {
    let id = |flag| output_of(Command::new("id").args([flag, "postgres"]))?.parse().ok();
    Some((id("-u")?, id("-g")?))
}

/// Removes PostgreSQL client settings from a command's environment and sets the C locale.
pub(super) fn clear_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
}

/// Returns the program directories below `base`, with the newest version first.
fn by_version(base: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_string_lossy().split('.').map(str::parse).collect();
        if let Ok::<Vec<u32>, _>(version) = numbers {
            found.push((version, entry.path().join("bin")));
        }
    }
    found.sort();
    found.into_iter().rev().map(|(_, dir)| dir).collect()
}

fn dir_from_pg_config() -> Option<PathBuf> {
    output_of(Command::new("pg_config").arg("--bindir")).map(PathBuf::from)
}

fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|it| it.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_version_comes_first_and_other_directories_are_ignored() {
        let base = tempfile::tempdir().unwrap();
        for name in ["9.6", "15", "9.10", "16", "common"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let expect = ["16", "15", "9.10", "9.6"].map(|it| base.path().join(it).join("bin"));
        assert_eq!(by_version(base.path()), expect);
        assert!(by_version(&base.path().join("absent")).is_empty());
    }

    #[test]
    fn links_are_followed_and_all_programs_are_required() {
        let base = tempfile::tempdir().unwrap();
        let (real, links) = (base.path().join("real"), base.path().join("links"));
        fs::create_dir(&real).unwrap();
        fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink(real.join("initdb"), links.join("initdb")).unwrap();
        for name in REQUIRED_PROGRAMS {
            assert!(Programs::at(&links).is_none());
            fs::write(real.join(name), "").unwrap();
        }
        let real = real.canonicalize().unwrap();
        assert_eq!(Programs::at(&links).map(|it| it.dir), Some(real));
    }
}
