//! Measures builds with an empty target directory: the README program with the engine, and the same program with each
//! Rust peer.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs, io,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;

use crate::table::{cell_text, time};

/// Name of the workload on the command line.
pub const NAME: &str = "build";

/// Name of the engine in the results.
const ENGINE: &str = "engine";

/// A program that is built with an empty target directory.
struct Program {
    name: &'static str,
    source: &'static str,
    /// Dependencies besides tokio, as in a manifest. `ROOT` is the directory of the repository.
    dependencies: &'static str,
    /// File with the versions of all dependencies.
    lock: &'static str,
}

const PEERS_LOCK: &str = "benches/peers/rust/Cargo.lock";

const PROGRAMS: [Program; 5] = [
    Program {
        name: ENGINE,
        source: "graph-core/examples/essay.rs",
        dependencies: r#"graph-core = { path = "ROOT/graph-core" }"#,
        lock: "Cargo.lock",
    },
    Program {
        name: "juncture",
        source: "benches/peers/hello/juncture.rs",
        dependencies: "juncture-core = '*'\njuncture-derive = '*'\nserde = { version = '1', features = ['derive'] }\nserde_json = '1'",
        lock: PEERS_LOCK,
    },
    Program {
        name: "adk-graph",
        source: "benches/peers/hello/adk_graph.rs",
        dependencies: "adk-graph = '*'\nserde_json = '1'",
        lock: PEERS_LOCK,
    },
    Program {
        name: "graph-flow",
        source: "benches/peers/hello/graph_flow.rs",
        dependencies: "graph-flow = { version = '*', default-features = false }\nasync-trait = '0.1'",
        lock: PEERS_LOCK,
    },
    Program {
        name: "cognis-graph",
        source: "benches/peers/hello/cognis_graph.rs",
        dependencies: "cognis-graph = '*'",
        lock: PEERS_LOCK,
    },
];

/// The build of one program.
#[derive(Debug)]
pub struct Build {
    peer: &'static str,
    /// The cost, or the reason why the build failed.
    cost: Result<Cost, String>,
}

/// The cost of a build.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Number of compiled packages, including the program itself.
    packages: usize,
    /// CPU time of cargo and all compilers.
    cpu: Duration,
    duration: Duration,
}

/// Builds all programs without optimisation, one after another, in a directory that is deleted afterwards.
pub fn measure(scratch: &Path) -> Vec<Build> {
    let build = |program: &Program| {
        eprintln!("{NAME} {} …", program.name);
        let dir = scratch.join(program.name);
        let cost = build(program, &dir).map_err(|it| it.to_string());
        // The directories are large; the scratch directory would be deleted only at the end.
        let _ = fs::remove_dir_all(&dir);
        Build { peer: program.name, cost }
    };
    PROGRAMS.iter().map(build).collect()
}

fn build(program: &Program, dir: &Path) -> io::Result<Cost> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(dir.join("src"))?;
    fs::copy(root.join(program.source), dir.join("src/main.rs"))?;
    fs::copy(root.join(program.lock), dir.join("Cargo.lock"))?;
    let dependencies = program.dependencies.replace("ROOT", &root.display().to_string());
    let manifest = format!(
        "[package]\nname = 'hello'\nedition = '2024'\n\n[workspace]\n\n[dependencies]\n{dependencies}\n\
         tokio = {{ version = '1', features = ['macros', 'rt-multi-thread'] }}\n"
    );
    fs::write(dir.join("Cargo.toml"), manifest)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--offline", "--message-format=json", "--target-dir", "target"]);
    // The user's build settings would change the result.
    for (name, _) in env::vars_os().filter(|(name, _)| changes_builds(name)) {
        cargo.env_remove(name);
    }
    cargo.current_dir(dir);
    let (before, start) = (cpu_of_children()?, Instant::now());
    let output = cargo.stdin(Stdio::null()).output()?;
    let (duration, cpu) = (start.elapsed(), cpu_of_children()?.saturating_sub(before));
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().rev().find(|it| it.starts_with("error")).unwrap_or("no message");
        return Err(io::Error::other(format!("failed: {last}")));
    }
    Ok(Cost { packages: count_packages(&String::from_utf8_lossy(&output.stdout)), cpu, duration })
}

/// Returns whether an environment variable changes how cargo builds.
fn changes_builds(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let prefixes = ["RUSTC_", "CARGO_PROFILE_", "CARGO_BUILD_"];
    prefixes.iter().any(|it| name.starts_with(it))
        || name.ends_with("RUSTFLAGS")
        || name == "CARGO_INCREMENTAL"
}

/// Returns the CPU time of all child processes that have ended.
fn cpu_of_children() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(io::Error::from)?;
    let time = |it: nix::sys::time::TimeVal| {
        Duration::new(it.tv_sec() as u64, it.tv_usec() as u32 * 1_000)
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// Counts the packages in cargo's messages.
fn count_packages(messages: &str) -> usize {
    #[derive(Deserialize)]
    struct Artifact {
        package_id: String,
    }
    let artifacts = messages.lines().filter(|it| it.contains("\"compiler-artifact\""));
    let ids = artifacts.filter_map(|it| serde_json::from_str::<Artifact>(it).ok());
    ids.map(|it| it.package_id).collect::<BTreeSet<_>>().len()
}

/// Returns the ratio of the CPU times of the cheapest peer and the engine, and the name of this peer.
pub fn ratio_to_best_peer(builds: &[Build]) -> Option<(f64, &'static str)> {
    let cpu = |it: &Build| Some(it.cost.as_ref().ok()?.cpu.as_secs_f64());
    let engine = builds.iter().find(|it| it.peer == ENGINE).and_then(cpu)?;
    let peers = builds.iter().filter(|it| it.peer != ENGINE);
    let best = peers.filter_map(|it| Some((cpu(it)?, it.peer)));
    let (best, peer) = best.min_by(|a, b| f64::total_cmp(&a.0, &b.0))?;
    Some((best / engine, peer))
}

/// Formats the results as a section of Markdown.
pub fn section(builds: &[Build]) -> String {
    let mut text = "\n## Clean build\n\n`cargo build` of the program in the README, and of the same program with \
                    each Rust peer, with an empty target directory and all sources downloaded.\n\n\
                    | peer | packages | CPU | time |\n|---|---|---|---|\n"
        .to_owned();
    for Build { peer, cost } in builds {
        text += &match cost {
            Ok(Cost { packages, cpu, duration }) => {
                let [cpu, duration] = [cpu, duration].map(|it| time(it.as_secs_f64() * 1e9));
                format!("| {peer} | {packages} | {cpu} | {duration} |\n")
            }
            Err(problem) => format!("| {peer} | {} | | |\n", cell_text(problem)),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_several_artifacts_count_once() {
        let messages = r#"{"reason":"compiler-artifact","package_id":"a"}
{"reason":"build-script-executed","package_id":"a"}
{"reason":"compiler-artifact","package_id":"a"}
{"reason":"compiler-artifact","package_id":"b"}
"#;
        assert_eq!(count_packages(messages), 2);
    }

    #[test]
    fn settings_of_builds_are_recognised() {
        let changes = |it: &&str| changes_builds(OsStr::new(it));
        let settings = ["RUSTC_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "CARGO_PROFILE_DEV_DEBUG"];
        assert!(settings.iter().all(changes));
        assert!(!["PATH", "CARGO_HOME", "RUSTUP_TOOLCHAIN"].iter().any(changes));
    }

    #[test]
    fn cheapest_peer_is_compared() {
        let build = |peer, cpu| {
            let (cpu, duration) = (Duration::from_secs(cpu), Duration::from_secs(1));
            Build { peer, cost: Ok(Cost { packages: 3, cpu, duration }) }
        };
        let failed = Build { peer: "c", cost: Err("failed: error".to_owned()) };
        let builds = [build(ENGINE, 10), build("a", 40), build("b", 20), failed];
        assert_eq!(ratio_to_best_peer(&builds), Some((2.0, "b")));
        let text = section(&builds);
        assert!(text.contains("| b | 3 | 20 s | 1 s |\n| c | failed: error | | |\n"), "{text}");
    }
}
