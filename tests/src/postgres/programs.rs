//! Where PostgreSQL's programs are, and as whom they run.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder with PostgreSQL's programs, all of one version.
#[derive(Debug)]
pub(super) struct Programs {
    folder: PathBuf,
}

const NEEDED: [&str; 4] = ["initdb", "pg_ctl", "postgres", "psql"];

impl Programs {
    /// Looks for them in the folder that GRAPH_POSTGRES_BIN names, or else in all places known for them.
    pub(super) fn find() -> Option<Self> {
        if let Some(folder) = env::var_os("GRAPH_POSTGRES_BIN") {
            return Self::at(Path::new(&folder));
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
        folders.extend(by_version(Path::new("/usr/lib/postgresql")));
        let at = folders.iter().find_map(|it| Self::at(it));
        at.or_else(|| Self::at(&told_by_pg_config()?))
    }

    /// Follows links: Debian puts a link to one program beside wrappers for the others.
    fn at(folder: &Path) -> Option<Self> {
        let initdb = folder.join("initdb").canonicalize().ok()?;
        let folder = initdb.parent()?.to_owned();
        NEEDED.iter().all(|it| folder.join(it).is_file()).then_some(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of the programs, as if no setting for it were in the environment.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join(name));
        without_settings(&mut command);
        command
    }
}

/// As whom the server runs.
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

/// The ids of the user `postgres` and of its group.
pub(super) fn postgres_user() -> Option<(u32, u32)> {
    let id = |flag| said(Command::new("id").args([flag, "postgres"]))?.parse().ok();
    Some((id("-u")?, id("-g")?))
}

/// Takes the settings for PostgreSQL's clients out of a command's environment, and foreign languages.
pub(super) fn without_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
}

/// The program folders below `base`, newest version first.
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
    found.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn told_by_pg_config() -> Option<PathBuf> {
    said(Command::new("pg_config").arg("--bindir")).map(PathBuf::from)
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|it| it.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first_and_other_folders_do_not_count() {
        let base = tempfile::tempdir().unwrap();
        for name in ["9.6", "15", "9.10", "16", "common"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let expect = ["16", "15", "9.10", "9.6"].map(|it| base.path().join(it).join("bin"));
        assert_eq!(by_version(base.path()), expect);
        assert!(by_version(&base.path().join("absent")).is_empty());
    }

    #[test]
    fn programs_are_taken_from_where_a_link_leads_and_only_all_together() {
        let base = tempfile::tempdir().unwrap();
        let (real, links) = (base.path().join("real"), base.path().join("links"));
        fs::create_dir(&real).unwrap();
        fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink(real.join("initdb"), links.join("initdb")).unwrap();
        for name in NEEDED {
            assert!(Programs::at(&links).is_none());
            fs::write(real.join(name), "").unwrap();
        }
        let real = real.canonicalize().unwrap();
        assert_eq!(Programs::at(&links).map(|it| it.folder), Some(real));
    }
}
