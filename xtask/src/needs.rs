//! What the tests need beyond Rust: whether it is here, and how it comes here.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::step::{LeftOut, Step};

/// A program that some tests use. Without it they skip, and say so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    name: &'static str,
    left_out: LeftOut,
    /// The variable that lets its tests fail in place of skipping.
    require: &'static str,
    /// What installs it, in a shell, with the rights of root.
    install: &'static str,
    is_here: fn() -> bool,
}

/// All that the tests need.
pub(crate) const NEEDS: [Need; 2] = [
    Need {
        name: "PostgreSQL for the tests",
        left_out: LeftOut {
            title: "tests on PostgreSQL",
            install: "sudo apt-get install postgresql",
        },
        require: "GRAPH_REQUIRE_POSTGRES",
        // The package would also set up a database server that runs from then on; the tests start their own.
        install: "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends postgresql-common
sed -i 's/^#* *create_main_cluster .*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
apt-get install -y --no-install-recommends postgresql",
        is_here: || postgres_folders().iter().any(|it| it.join("initdb").is_file()),
    },
    Need {
        name: "Chromium for the tests",
        left_out: LeftOut {
            title: "tests of pages in a browser",
            install: "sudo apt-get install chromium",
        },
        require: "GRAPH_REQUIRE_CHROMIUM",
        install: "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends chromium",
        is_here: || {
            let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
            path().iter().any(|folder| names.iter().any(|it| folder.join(it).is_file()))
        },
    },
];

/// How a need is met on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Found {
    Here,
    /// It can be installed without a question to anybody.
    Installable(Rights),
    Missing,
}

/// What it takes to install a package.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rights {
    Root,
    Sudo,
}

impl Need {
    /// Looks where the tests look.
    pub(crate) fn look(&self) -> Found {
        if (self.is_here)() {
            return Found::Here;
        }
        if !succeeds("apt-get", &["--version"]) {
            return Found::Missing;
        }
        match said("id", &["-u"]).as_deref() {
            Some("0") => Found::Installable(Rights::Root),
            _ if succeeds("sudo", &["-n", "true"]) => Found::Installable(Rights::Sudo),
            _ => Found::Missing,
        }
    }

    /// The step that brings it, where it is not here and can be.
    pub(crate) fn install(&self, found: Found) -> Option<Step> {
        let step = |program, line| {
            Some(Step::new(self.name, program, line).args([self.install.to_owned()]))
        };
        match found {
            Found::Installable(Rights::Root) => step("sh", "-ec"),
            Found::Installable(Rights::Sudo) => step("sudo", "-n sh -ec"),
            Found::Here | Found::Missing => None,
        }
    }

    /// Lets a step's tests fail, and not skip, where they do not find it.
    pub(crate) fn require(&self, found: Found, tests: Step) -> Step {
        match found {
            Found::Here | Found::Installable(_) => tests.env(self.require, "1"),
            Found::Missing => tests,
        }
    }

    /// What the tests have to do without.
    pub(crate) fn left_out(&self, found: Found) -> Option<LeftOut> {
        (found == Found::Missing).then_some(self.left_out)
    }
}

/// Where the tests look for it, in `graph_tests::postgres`.
fn postgres_folders() -> Vec<PathBuf> {
    if let Some(folder) = env::var_os("GRAPH_POSTGRES_BIN") {
        return vec![PathBuf::from(folder)];
    }
    let mut folders = path();
    let versions = fs::read_dir(Path::new("/usr/lib/postgresql")).into_iter().flatten().flatten();
    folders.extend(versions.map(|it| it.path().join("bin")));
    folders.extend(said("pg_config", &["--bindir"]).map(PathBuf::from));
    folders
}

fn path() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    said(program, args).is_some()
}
