//! Programs besides Rust that the tests use, with commands for detecting and installing each of them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{
    backports, peers,
    plan::{Depth, Skipped},
    step::{Step, output_of, succeeds},
};

/// A program that some tests use. If it is missing, these tests are skipped with a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    name: &'static str,
    skipped: Skipped,
    /// Environment variable that makes the tests fail instead of being skipped if the program is missing.
    require: &'static str,
    install: Install,
}

/// Method of installing a program. Most variants contain a shell script.
#[derive(Debug, Clone, Copy)]
enum Install {
    /// A system package, which is installed with root privileges.
    System { script: &'static str, is_installed: fn() -> bool },
    /// A system package from Debian backports. The script receives an apt source for backports as arguments, unless one
    /// is already configured. Not every system has such a package, so the script may succeed without installing it.
    Backport { script: &'static str, is_installed: fn() -> bool },
    /// The program is installed into a directory in [`peers::dir`]. The script receives the path of that directory as
    /// its first argument.
    Directory {
        name: &'static str,
        script: &'static str,
        installer: Installer,
        /// [`Depth::Nightly`] if only the nightly tests install it, because the installation takes minutes.
        depth: Depth,
    },
    /// No script installs it, because it is a property of the machine, such as KVM support, or a system service.
    Never { is_installed: fn() -> bool },
}

/// Program and arguments of a command that succeeds if an installation script can be run.
type Installer = (&'static str, &'static [&'static str]);

const NPM: Installer = ("npm", &["--version"]);
const PIP: Installer = ("python3", &["-m", "pip", "--version"]);

impl Install {
    const fn directory(name: &'static str, script: &'static str, installer: Installer) -> Self {
        Self::Directory { name, script, installer, depth: Depth::Usual }
    }
}

/// All programs that the tests use.
pub(crate) const NEEDS: [Need; 19] = [
    Need {
        name: "PostgreSQL for the tests",
        skipped: Skipped::new("PostgreSQL tests", "sudo apt-get install postgresql"),
        require: "GRAPH_REQUIRE_POSTGRES",
        // The script keeps the package from starting a permanent database server, because the tests start their own
        // servers.
        install: Install::System {
            script: "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends postgresql-common
sed -i 's/^#* *create_main_cluster .*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
apt-get install -y --no-install-recommends postgresql",
            is_installed: || postgres_dirs().iter().any(|it| it.join("initdb").is_file()),
        },
    },
    Need {
        name: "Chromium for the tests",
        skipped: Skipped::new("browser tests", "sudo apt-get install chromium"),
        require: "GRAPH_REQUIRE_CHROMIUM",
        install: Install::System {
            script: "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends chromium",
            is_installed: || {
                let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
                search_path().iter().any(|dir| names.iter().any(|it| dir.join(it).is_file()))
            },
        },
    },
    Need {
        name: "aimock for the tests",
        skipped: Skipped::new("provider protocol tests against aimock", "sudo apt-get install npm"),
        require: "GRAPH_REQUIRE_AIMOCK",
        install: Install::directory(peers::AIMOCK, peers::INSTALL_AIMOCK, NPM),
    },
    Need {
        name: "llama.cpp's server for the tests",
        skipped: Skipped::new("tests against llama.cpp's server with a real model", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_LLAMA",
        install: Install::directory(peers::LLAMA, peers::INSTALL_LLAMA, PIP),
    },
    Need {
        name: "gVisor for the tests",
        skipped: Skipped::new("gVisor tests", "sudo apt-get install runsc (Debian 12: -t bookworm-backports)"),
        require: "GRAPH_REQUIRE_GVISOR",
        // If gVisor is installed but broken, its tests fail even if `GRAPH_REQUIRE_GVISOR` is not set.
        install: Install::Backport {
            script: "\
export DEBIAN_FRONTEND=noninteractive
add() { apt-get update && apt-get install -y --no-install-recommends \"$@\" runsc; }
. /etc/os-release
if [ \"$VERSION_CODENAME\" = bookworm ]; then
    if [ $# -eq 2 ]; then printf '%s' \"$2\" > \"/etc/apt/sources.list.d/$1\"; fi
    add -t bookworm-backports
else
    add
fi || echo 'skipped gVisor tests: this system has no package runsc'",
            is_installed: || search_path().iter().any(|dir| dir.join("runsc").is_file()),
        },
    },
    Need {
        name: "the MCP client for the tests",
        skipped: Skipped::new("tests with the official MCP client", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_MCP",
        install: Install::directory(peers::MCP, peers::INSTALL_MCP, PIP),
    },
    Need {
        name: "the MCP conformance suite for the tests",
        skipped: Skipped::new("conformance tests of the MCP endpoint", "sudo apt-get install npm"),
        require: "GRAPH_REQUIRE_MCP_CONFORMANCE",
        install: Install::directory(peers::MCP_CONFORMANCE, peers::INSTALL_MCP_CONFORMANCE, NPM),
    },
    Need {
        name: "schemathesis for the tests",
        skipped: Skipped::new("OpenAPI conformance tests of the servers", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_SCHEMATHESIS",
        install: Install::directory(peers::SCHEMATHESIS, peers::INSTALL_SCHEMATHESIS, PIP),
    },
    Need {
        name: "an MCP server from npm for the tests",
        skipped: Skipped::new("graph-agents tests with MCP's reference server", "sudo apt-get install npm"),
        require: "GRAPH_REQUIRE_MCP_EVERYTHING",
        install: Install::directory(peers::MCP_EVERYTHING, peers::INSTALL_MCP_EVERYTHING, NPM),
    },
    Need {
        name: "an MCP server from PyPI for the tests",
        skipped: Skipped::new("graph-agents tests with a Python MCP server", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_MCP_TIME",
        install: Install::directory(peers::MCP_TIME, peers::INSTALL_MCP_TIME, PIP),
    },
    Need {
        name: "LangGraph's clients for the tests",
        skipped: Skipped::new("LangGraph API tests with the official clients", "sudo apt-get install python3-pip npm"),
        require: "GRAPH_REQUIRE_LANGGRAPH_SDK",
        install: Install::directory(
            peers::LANGGRAPH_SDK,
            peers::INSTALL_LANGGRAPH_SDK,
            ("sh", &["-c", "python3 -m pip --version && npm --version"]),
        ),
    },
    Need {
        name: "clients for user interfaces for the tests",
        skipped: Skipped::new("user interface tests with the official clients", "sudo apt-get install npm"),
        require: "GRAPH_REQUIRE_UI_CLIENTS",
        install: Install::directory(peers::UI_CLIENTS, peers::INSTALL_UI_CLIENTS, NPM),
    },
    Need {
        name: "runtimes for user interfaces for the tests",
        skipped: Skipped::new("user interface tests with CopilotKit's runtime", "cargo xtask test --nightly"),
        require: "GRAPH_REQUIRE_UI_RUNTIMES",
        install: Install::Directory {
            name: peers::UI_RUNTIMES,
            script: peers::INSTALL_UI_RUNTIMES,
            installer: NPM,
            depth: Depth::Nightly,
        },
    },
    Need {
        name: "the A2A client for the tests",
        skipped: Skipped::new("tests with the official A2A client", "sudo apt-get install python3-pip"),
        require: "GRAPH_REQUIRE_A2A",
        install: Install::directory(peers::A2A, peers::INSTALL_A2A, PIP),
    },
    Need {
        name: "the Restate server for the tests",
        skipped: Skipped::new("cluster tests with the scheduler Restate", "sudo apt-get install npm"),
        require: "GRAPH_REQUIRE_RESTATE",
        install: Install::directory(peers::RESTATE, peers::INSTALL_RESTATE, NPM),
    },
    Need {
        name: "HAProxy for the tests",
        skipped: Skipped::new("cluster tests behind a load balancer", "sudo apt-get install haproxy"),
        require: "GRAPH_REQUIRE_HAPROXY",
        // The script disables the service that the package installs, so that no load balancer keeps running.
        install: Install::System {
            script: "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends haproxy
if [ -d /run/systemd/system ]; then systemctl disable --now haproxy; fi",
            is_installed: || {
                let sbin = PathBuf::from("/usr/sbin");
                search_path().iter().chain([&sbin]).any(|dir| dir.join("haproxy").is_file())
            },
        },
    },
    Need {
        name: "QEMU for the tests",
        skipped: Skipped::new(
            "micro VM tests",
            "sudo apt-get install qemu-system-x86 (if parts of QEMU come from backports: -t bookworm-backports)",
        ),
        require: "GRAPH_REQUIRE_MICROVM",
        install: Install::System {
            script: "\
export DEBIAN_FRONTEND=noninteractive
apt-get update
add() { apt-get install -y --no-install-recommends \"$@\" qemu-system-x86; }
. /etc/os-release
# If a part of QEMU is already installed from backports, the rest must come from there too.
add || add -t \"$VERSION_CODENAME-backports\"",
            is_installed: || search_path().iter().any(|dir| dir.join("qemu-system-x86_64").is_file()),
        },
    },
    Need {
        name: "KVM for the tests",
        skipped: Skipped::new("tests in VMs without a guest kernel (requires /dev/kvm)", "sudo usermod -aG kvm $USER"),
        require: "GRAPH_REQUIRE_KVM",
        install: Install::Never {
            is_installed: || {
                let device = fs::File::options().read(true).write(true).open("/dev/kvm");
                cfg!(target_arch = "x86_64") && device.is_ok()
            },
        },
    },
    Need {
        name: "a Docker engine for the tests",
        skipped: Skipped::new(
            "container tests (require a running Docker engine)",
            "sudo apt-get install docker.io",
        ),
        require: "GRAPH_REQUIRE_DOCKER",
        // The Docker engine is a system service, which the tests do not set up.
        install: Install::Never {
            is_installed: || succeeds("docker", &["version", "--format", "{{.Server.Version}}"]),
        },
    },
];

/// Index of the [`NEEDS`] entry for QEMU. Its tests require that the guest agents are built first.
pub(crate) const QEMU: usize = NEEDS.len() - 3;
/// Index of the [`NEEDS`] entry for KVM. Its tests require that the guest agents are built first, because they also
/// test static guests.
pub(crate) const KVM: usize = NEEDS.len() - 2;
/// Index of the [`NEEDS`] entry for Docker. Its tests require that the guest agents are built first.
pub(crate) const DOCKER: usize = NEEDS.len() - 1;

/// Whether a program is available on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Availability {
    Installed,
    /// The program can be installed without user interaction.
    Installable(Rights),
    Missing,
}

/// Privileges that an installation uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rights {
    /// The privileges of the current user. The program is installed into the target directory.
    User,
    /// Root privileges, because the current user is root.
    Root,
    /// Root privileges through `sudo` without a password.
    Sudo,
}

impl Need {
    /// Determines the availability of the program. Searches for it in the same places as the tests.
    pub(crate) fn availability(&self, depth: Depth) -> Availability {
        let is_installed = match self.install {
            Install::System { is_installed, .. }
            | Install::Backport { is_installed, .. }
            | Install::Never { is_installed } => is_installed(),
            Install::Directory { name, .. } => peers::dir().join(name).is_dir(),
        };
        if is_installed {
            return Availability::Installed;
        }
        let rights = match self.install {
            Install::System { .. } | Install::Backport { .. } => system_rights(),
            Install::Directory { depth: Depth::Nightly, .. } if depth != Depth::Nightly => None,
            Install::Directory { installer: (program, args), .. } => {
                succeeds(program, args).then_some(Rights::User)
            }
            Install::Never { .. } => None,
        };
        rights.map_or(Availability::Missing, Availability::Installable)
    }

    /// Returns the installation step if the program is missing and installable.
    pub(crate) fn install(&self, availability: Availability) -> Option<Step> {
        let Availability::Installable(rights) = availability else {
            return None;
        };
        let step = match rights {
            Rights::User | Rights::Root => Step::new(self.name, "sh", "-ec"),
            Rights::Sudo => Step::new(self.name, "sudo", "-n sh -ec"),
        };
        match self.install {
            Install::System { script, .. } => Some(step.args([script.to_owned()])),
            Install::Backport { script, .. } => {
                let step = step.args([script.to_owned(), "install".to_owned()]);
                Some(step.args(backports::missing_source()))
            }
            Install::Directory { name, script, .. } => {
                let dir = peers::dir().join(name).display().to_string();
                Some(step.args([script.to_owned(), "install".to_owned(), dir]))
            }
            Install::Never { .. } => None,
        }
    }

    /// Makes the tests fail instead of being skipped if the program does not work. Does so only if the program is
    /// already installed, or if it is installable and its installation script guarantees that it works.
    pub(crate) fn require(&self, availability: Availability, tests: Step) -> Step {
        match (availability, self.install) {
            (Availability::Missing, _)
            | (Availability::Installable(_), Install::Backport { .. }) => tests,
            (Availability::Installed | Availability::Installable(_), _) => {
                tests.env(self.require, "1")
            }
        }
    }

    /// Returns the tests to report as skipped, or `None` if the program is or will certainly be available. If the
    /// installation script does not guarantee that the program works, the summary checks again after all steps and
    /// reports the tests only if the program is still unavailable.
    pub(crate) fn skipped(&self, availability: Availability) -> Option<Skipped> {
        match (availability, self.install) {
            (Availability::Missing, _) => Some(self.skipped),
            (Availability::Installable(_), Install::Backport { is_installed, .. }) => {
                Some(Skipped { is_available: is_installed, ..self.skipped })
            }
            (Availability::Installable(_) | Availability::Installed, _) => None,
        }
    }
}

/// Returns the privileges with which system packages can be installed, if there are any.
fn system_rights() -> Option<Rights> {
    if !succeeds("apt-get", &["--version"]) {
        return None;
    }
    match output_of("id", &["-u"]).as_deref() {
        Some("0") => Some(Rights::Root),
        _ => succeeds("sudo", &["-n", "true"]).then_some(Rights::Sudo),
    }
}

/// Returns the directories in which `graph_tests::postgres` searches for the PostgreSQL server.
fn postgres_dirs() -> Vec<PathBuf> {
    if let Some(dir) = env::var_os("GRAPH_POSTGRES_BIN") {
        return vec![PathBuf::from(dir)];
    }
    let mut dirs = search_path();
    let versions = fs::read_dir(Path::new("/usr/lib/postgresql")).into_iter().flatten().flatten();
    dirs.extend(versions.map(|it| it.path().join("bin")));
    dirs.extend(output_of("pg_config", &["--bindir"]).map(PathBuf::from));
    dirs
}

fn search_path() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs the installation script of QEMU with a fake `apt-get` that fails unless the shell condition `works` holds
    /// for its arguments. Returns whether the script succeeds, and the arguments of each call of `apt-get`.
    fn install_qemu(name: &str, works: &str) -> (bool, Vec<String>) {
        let Install::System { script, .. } = NEEDS[QEMU].install else {
            panic!("QEMU is a system package")
        };
        let dir = env::temp_dir().join(format!("xtask-qemu-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (apt, log) = (dir.join("apt-get"), dir.join("log"));
        let text = format!("#!/bin/sh\necho \"$*\" >> {}\n{works}\n", log.display());
        // Another process writes the program: a process that another test starts meanwhile could inherit a file that is
        // open here, and the kernel does not execute a file that is open for writing.
        let write = "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(&apt).arg(text).status().unwrap();
        assert!(written.success());
        let mut install = Command::new("/bin/sh");
        let status = install.args(["-ec", script]).env("PATH", &dir).status().unwrap();
        let calls = fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
        fs::remove_dir_all(&dir).unwrap();
        (status.success(), calls)
    }

    #[test]
    fn qemu_installation_falls_back_to_backports() {
        let codename = output_of("sh", &["-ec", ". /etc/os-release; echo \"$VERSION_CODENAME\""]);
        let codename = codename.expect("every distribution has this file");
        let ordinary = "install -y --no-install-recommends qemu-system-x86".to_owned();
        let backports =
            format!("install -y --no-install-recommends -t {codename}-backports qemu-system-x86");
        let update = "update".to_owned();
        let calls = vec![update.clone(), ordinary.clone()];
        assert_eq!(install_qemu("ordinary", "true"), (true, calls));
        // Without backports, `apt-get` reports unmet dependencies.
        let calls = vec![update, ordinary, backports];
        let only_backports = "case \"$*\" in update|*-t*) true;; *) false;; esac";
        assert_eq!(install_qemu("mixed", only_backports), (true, calls.clone()));
        let nothing = "case \"$*\" in update) true;; *) false;; esac";
        assert_eq!(install_qemu("missing", nothing), (false, calls));
    }

    #[test]
    fn hint_for_qemu_covers_parts_from_backports() {
        let fix = NEEDS[QEMU].skipped(Availability::Missing).unwrap().fix;
        assert!(fix.starts_with("sudo apt-get install qemu-system-x86"), "{fix}");
        assert!(fix.contains("-t bookworm-backports"), "{fix}");
    }
}
