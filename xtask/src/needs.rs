//! What the tests need beyond Rust: whether it is here, and how it comes here.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    backports, peers,
    step::{LeftOut, Step},
};

/// A program that some tests use. Without it they skip, and say so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    name: &'static str,
    left_out: LeftOut,
    /// The variable that lets its tests fail in place of skipping.
    require: &'static str,
    /// Whether it is sure to be here once its script has run.
    is_certain: bool,
    install: Install,
    is_here: fn() -> bool,
}

/// What installs a program: a script for a shell.
#[derive(Debug, Clone, Copy)]
enum Install {
    /// Into the system, with the rights of root.
    System(&'static str),
    /// The same, where the script wants to know where the system's backports come from.
    Backport(&'static str),
    /// Into a folder of its own, which is the script's first argument, under [`peers::folder`].
    Folder {
        name: &'static str,
        script: &'static str,
        /// A command that succeeds where the script can run.
        by: (&'static str, &'static [&'static str]),
    },
    /// Nothing does: the machine has it or has it not.
    Never,
}

/// All that the tests need.
pub(crate) const NEEDS: [Need; 10] = [
    Need {
        name: "PostgreSQL for the tests",
        left_out: LeftOut::new("tests on PostgreSQL", "sudo apt-get install postgresql"),
        require: "GRAPH_REQUIRE_POSTGRES",
        is_certain: true,
        // The package would also set up a database server that runs from then on; the tests start their own.
        install: Install::System(
            "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends postgresql-common
sed -i 's/^#* *create_main_cluster .*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
apt-get install -y --no-install-recommends postgresql",
        ),
        is_here: || postgres_folders().iter().any(|it| it.join("initdb").is_file()),
    },
    Need {
        name: "Chromium for the tests",
        left_out: LeftOut::new("tests of pages in a browser", "sudo apt-get install chromium"),
        require: "GRAPH_REQUIRE_CHROMIUM",
        is_certain: true,
        install: Install::System(
            "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends chromium",
        ),
        is_here: || {
            let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
            path().iter().any(|folder| names.iter().any(|it| folder.join(it).is_file()))
        },
    },
    Need {
        name: "aimock for the tests",
        left_out: LeftOut::new("tests of the six providers' protocols against aimock", "sudo apt-get install npm"),
        require: "GRAPH_REQUIRE_AIMOCK",
        is_certain: true,
        install: Install::Folder {
            name: peers::AIMOCK,
            script: peers::INSTALL_AIMOCK,
            by: ("npm", &["--version"]),
        },
        is_here: || peers::folder().join(peers::AIMOCK).is_dir(),
    },
    Need {
        name: "llama.cpp's server for the tests",
        left_out: LeftOut::new("tests against llama.cpp's server with a real model", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_LLAMA",
        is_certain: true,
        install: Install::Folder {
            name: peers::LLAMA,
            script: peers::INSTALL_LLAMA,
            by: ("python3", &["-m", "pip", "--version"]),
        },
        is_here: || peers::folder().join(peers::LLAMA).is_dir(),
    },
    Need {
        name: "gVisor for the tests",
        left_out: LeftOut::new("tests in gVisor", "sudo apt-get install runsc, on Debian 12 with -t bookworm-backports"),
        require: "GRAPH_REQUIRE_GVISOR",
        // Not every system has a package of it, and Debian 12 has one that works among its backports alone. Where it
        // is installed its tests fail, whatever the variable says, if it does not work.
        is_certain: false,
        install: Install::Backport(
            "\
export DEBIAN_FRONTEND=noninteractive
add() { apt-get update && apt-get install -y --no-install-recommends \"$@\" runsc; }
. /etc/os-release
if [ \"$VERSION_CODENAME\" = bookworm ]; then
    if [ $# -eq 2 ]; then printf '%s' \"$2\" > \"/etc/apt/sources.list.d/$1\"; fi
    add -t bookworm-backports
else
    add
fi || echo 'left out: tests in gVisor; this system has no package runsc'",
        ),
        is_here: || path().iter().any(|folder| folder.join("runsc").is_file()),
    },
    Need {
        name: "the MCP client for the tests",
        left_out: LeftOut::new("tests of the draft gate's server with the official MCP client", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_MCP",
        is_certain: true,
        install: Install::Folder {
            name: peers::MCP,
            script: peers::INSTALL_MCP,
            by: ("python3", &["-m", "pip", "--version"]),
        },
        is_here: || peers::folder().join(peers::MCP).is_dir(),
    },
    Need {
        name: "schemathesis for the tests",
        left_out: LeftOut::new("tests of the servers by what their OpenAPI documents say", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_SCHEMATHESIS",
        is_certain: true,
        install: Install::Folder {
            name: peers::SCHEMATHESIS,
            script: peers::INSTALL_SCHEMATHESIS,
            by: ("python3", &["-m", "pip", "--version"]),
        },
        is_here: || peers::folder().join(peers::SCHEMATHESIS).is_dir(),
    },
    Need {
        name: "QEMU for the tests",
        left_out: LeftOut::new("tests in micro VMs", "sudo apt-get install qemu-system-x86"),
        require: "GRAPH_REQUIRE_MICROVM",
        is_certain: true,
        install: Install::System(
            "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
add() { apt-get install -y --no-install-recommends \"$@\" qemu-system-x86; }
. /etc/os-release
# Where a part of QEMU is there out of the backports already, the rest has to come from there too.
add || add -t \"$VERSION_CODENAME-backports\"",
        ),
        is_here: || path().iter().any(|folder| folder.join("qemu-system-x86_64").is_file()),
    },
    Need {
        name: "KVM for the tests",
        left_out: LeftOut::new("tests in VMs without a kernel, on a machine that has /dev/kvm", "sudo usermod -aG kvm $USER"),
        require: "GRAPH_REQUIRE_KVM",
        is_certain: false,
        install: Install::Never,
        is_here: || {
            let device = fs::File::options().read(true).write(true).open("/dev/kvm");
            cfg!(target_arch = "x86_64") && device.is_ok()
        },
    },
    Need {
        name: "a Docker engine for the tests",
        left_out: LeftOut::new(
            "tests in containers, where a Docker engine answers",
            "sudo apt-get install docker.io",
        ),
        require: "GRAPH_REQUIRE_DOCKER",
        is_certain: false,
        // An engine is a service of the machine's, which tests do not set up.
        install: Install::Never,
        is_here: || succeeds("docker", &["version", "--format", "{{.Server.Version}}"]),
    },
];

/// Three of [`NEEDS`]: where one is met, what its guests start is built first.
pub(crate) const QEMU: usize = NEEDS.len() - 3;
pub(crate) const KVM: usize = NEEDS.len() - 2;
pub(crate) const DOCKER: usize = NEEDS.len() - 1;

/// How a need is met on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Found {
    Here,
    /// It can be installed without a question to anybody.
    Installable(Rights),
    Missing,
}

/// Who installs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rights {
    /// Whoever we are: it goes into a folder of ours.
    User,
    /// We are root.
    Root,
    Sudo,
}

impl Need {
    /// Looks where the tests look.
    pub(crate) fn look(&self) -> Found {
        if (self.is_here)() {
            return Found::Here;
        }
        let rights = match self.install {
            Install::System(_) | Install::Backport(_) => system_rights(),
            Install::Folder { by: (program, args), .. } => {
                succeeds(program, args).then_some(Rights::User)
            }
            Install::Never => None,
        };
        rights.map_or(Found::Missing, Found::Installable)
    }

    /// The step that brings it, where it is not here and can be.
    pub(crate) fn install(&self, found: Found) -> Option<Step> {
        let Found::Installable(rights) = found else {
            return None;
        };
        let step = match rights {
            Rights::User | Rights::Root => Step::new(self.name, "sh", "-ec"),
            Rights::Sudo => Step::new(self.name, "sudo", "-n sh -ec"),
        };
        match self.install {
            Install::System(script) => Some(step.args([script.to_owned()])),
            Install::Backport(script) => {
                let step = step.args([script.to_owned(), "install".to_owned()]);
                Some(step.args(backports::missing_source()))
            }
            Install::Folder { name, script, .. } => {
                let folder = peers::folder().join(name).display().to_string();
                Some(step.args([script.to_owned(), "install".to_owned(), folder]))
            }
            Install::Never => None,
        }
    }

    /// Lets a step's tests fail, and not skip, where they do not find it.
    pub(crate) fn require(&self, found: Found, tests: Step) -> Step {
        match found {
            Found::Here => tests.env(self.require, "1"),
            Found::Installable(_) if self.is_certain => tests.env(self.require, "1"),
            Found::Installable(_) | Found::Missing => tests,
        }
    }

    /// What the tests have to do without, perhaps: where its script may fail, it is looked for again at the end.
    pub(crate) fn left_out(&self, found: Found) -> Option<LeftOut> {
        match found {
            Found::Missing => Some(self.left_out),
            Found::Installable(_) if !self.is_certain => {
                Some(LeftOut { unless: self.is_here, ..self.left_out })
            }
            Found::Installable(_) | Found::Here => None,
        }
    }
}

/// The rights that install a package of the system, where there are any.
fn system_rights() -> Option<Rights> {
    if !succeeds("apt-get", &["--version"]) {
        return None;
    }
    match said("id", &["-u"]).as_deref() {
        Some("0") => Some(Rights::Root),
        _ => succeeds("sudo", &["-n", "true"]).then_some(Rights::Sudo),
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
