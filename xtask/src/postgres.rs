//! PostgreSQL for the tests: whether it is here, and how it comes here.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::step::{LeftOut, Step};

/// What this machine has of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Postgres {
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

impl Postgres {
    /// Looks where the tests look, in `graph_tests::postgres`.
    pub(crate) fn look() -> Self {
        if folders().iter().any(|it| it.join("initdb").is_file()) {
            return Self::Here;
        }
        if !succeeds("apt-get", &["--version"]) {
            return Self::Missing;
        }
        match said("id", &["-u"]).as_deref() {
            Some("0") => Self::Installable(Rights::Root),
            _ if succeeds("sudo", &["-n", "true"]) => Self::Installable(Rights::Sudo),
            _ => Self::Missing,
        }
    }

    /// The step that brings it, where it is not here and can be.
    pub(crate) fn install(self) -> Option<Step> {
        let step = |program, line| {
            let step = Step::new("PostgreSQL for the tests", program, line);
            Some(step.args([INSTALL.to_owned()]))
        };
        match self {
            Self::Installable(Rights::Root) => step("sh", "-ec"),
            Self::Installable(Rights::Sudo) => step("sudo", "-n sh -ec"),
            Self::Here | Self::Missing => None,
        }
    }

    /// Lets a step's tests fail, and not skip, where they find no PostgreSQL.
    pub(crate) fn require(self, tests: Step) -> Step {
        match self {
            Self::Here | Self::Installable(_) => tests.env("GRAPH_REQUIRE_POSTGRES", "1"),
            Self::Missing => tests,
        }
    }

    /// What the tests have to do without.
    pub(crate) fn left_out(self) -> Option<LeftOut> {
        let left_out =
            LeftOut { title: "tests on PostgreSQL", install: "sudo apt-get install postgresql" };
        (self == Self::Missing).then_some(left_out)
    }
}

/// The package would also set up a database server that runs from then on; the tests start their own.
const INSTALL: &str = "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends postgresql-common
sed -i 's/^#* *create_main_cluster .*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
apt-get install -y --no-install-recommends postgresql";

fn folders() -> Vec<PathBuf> {
    if let Some(folder) = env::var_os("GRAPH_POSTGRES_BIN") {
        return vec![PathBuf::from(folder)];
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let versions = fs::read_dir(Path::new("/usr/lib/postgresql")).into_iter().flatten().flatten();
    folders.extend(versions.map(|it| it.path().join("bin")));
    folders.extend(said("pg_config", &["--bindir"]).map(PathBuf::from));
    folders
}

fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    said(program, args).is_some()
}
