//! `cargo xtask test`: runs all CI checks.

use std::{fs, io, path::Path};

use crate::{
    book,
    error::Error,
    guest_image, lint,
    needs::{Availability, DOCKER, KVM, NEEDS, QEMU},
    package,
    plan::{Depth, Plan, Stage},
    step::{Step, succeeds},
    web,
};

pub(crate) fn run(root: &Path, depth: Depth) -> Result<(), Error> {
    let machine = Machine {
        examples: examples(root)?,
        cargo_deny: succeeds("cargo", &["deny", "--version"]),
        mdbook: book::is_installed(),
        minimum_rust: package::can_check_minimum_rust(),
        node: web::is_possible(),
        needs: NEEDS.map(|it| it.availability(depth)),
    };
    plan(&machine, depth).run(root)
}

/// Properties of the checkout and of the machine that determine the plan.
struct Machine {
    /// The example programs to run.
    examples: Vec<Example>,
    cargo_deny: bool,
    mdbook: bool,
    /// Whether the minimum supported Rust version can be checked.
    minimum_rust: bool,
    /// Whether the web page of `consulting serve` can be built.
    node: bool,
    /// Availability of each entry of [`NEEDS`].
    needs: [Availability; NEEDS.len()],
}

fn plan(machine: &Machine, depth: Depth) -> Plan {
    let needs = || NEEDS.iter().zip(machine.needs);
    let mut skipped: Vec<_> = needs().filter_map(|(need, it)| need.skipped(it)).collect();
    let mut tests = needs().fold(tests(depth), |step, (need, it)| need.require(it, step));

    let mut install: Vec<Step> = needs().filter_map(|(need, it)| need.install(it)).collect();
    if !machine.cargo_deny {
        install.push(install_cargo_deny());
    }
    if !machine.mdbook {
        install.push(book::install());
    }
    if depth == Depth::Nightly {
        install.push(Step::cargo("model for the local-model tests", "xtask model"));
    }

    let [qemu, kvm, docker] =
        [QEMU, KVM, DOCKER].map(|it| machine.needs[it] != Availability::Missing);
    let mut guests = vec![];
    guests.extend((qemu || kvm || docker).then(guest_image::agents));
    guests.extend(qemu.then(guest_image::images));

    let mut page = vec![];
    if machine.node {
        page.extend(web::steps());
        tests = tests.env(web::REQUIRE, "1");
    } else {
        skipped.push(web::SKIPPED);
    }

    let mut after_tests = vec![conformance(), eager_conformance()];
    after_tests.extend((depth == Depth::Nightly).then(fuzzing));
    after_tests.extend(machine.examples.iter().map(example));
    after_tests.extend(deny());
    after_tests.push(package::package(depth));
    if machine.minimum_rust {
        after_tests.push(package::minimum_rust());
    } else {
        skipped.push(package::MINIMUM_RUST_SKIPPED);
    }

    let stages = vec![
        Stage::sequence(install),
        // Guests are compiled into another directory than everything else, so neither build waits for the other.
        Stage::parallel(vec![guests, page, vec![lint::format(), lint::clippy()]]),
        Stage::sequence([tests]),
        Stage::parallel(vec![vec![lint::doc(), book::render()], after_tests]),
    ];
    Plan { stages, skipped }
}

/// All features except the feature `local` of `llm`, which takes longer to build than everything else.
const FEATURES: &str = "consulting-graph/cluster,draft-gate/sandbox,graph-agents/mcp,graph-agents/sandbox,\
                        graph-cluster/http,graph-cluster/restate,graph-cluster/server,graph-core/schema,\
                        graph-core/tracing,graph-server/postgres,graph-store/compression,graph-store/encryption,\
                        graph-store/postgres,llm/testkit,reflexion-graph/docker,sandbox-testkit/docker,sandbox-vm/docker";

/// Returns the step that builds and tests the workspace. It is a single step, because separate steps would enable
/// different features and so build shared dependencies twice.
fn tests(depth: Depth) -> Step {
    match depth {
        Depth::Usual => Step::cargo("tests", &format!("xtask run-tests --features {FEATURES}")),
        Depth::Nightly => {
            Step::cargo("nightly tests", "xtask run-tests --all-features").env("GRAPH_NIGHTLY", "1")
        }
    }
}

/// Files of conformance cases.
const CASES: &str = "fixtures/conformance/hand.jsonl fixtures/conformance/random.jsonl fixtures/conformance/found.jsonl";

fn conformance() -> Step {
    Step::built("LangGraph conformance", "debug/conformance", CASES)
}

/// Number of cases of [`CASES`] in which tasks run ahead if their graphs are eager.
const CASES_AHEAD: usize = 44;

fn eager_conformance() -> Step {
    let args = format!("--eager --min-ahead {CASES_AHEAD} {CASES}");
    Step::built("LangGraph conformance of eager graphs", "debug/conformance", &args)
}

/// Returns the step that runs a million inputs for each fuzz target. In the usual tests, the targets run with a few inputs.
fn fuzzing() -> Step {
    let step = Step::cargo(
        "fuzzing",
        "test --release -p draft-gate -p graph-server -p llm -p sandbox-vm fuzz -- --nocapture",
    );
    step.env("FUZZ_INPUTS", "1000000")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
}

/// An example program.
#[derive(Debug, PartialEq)]
struct Example {
    name: String,
    /// Texts that the program prints, in this order. They are the lines of the file `NAME.expected` next to its source.
    expected: Vec<String>,
}

fn example(example: &Example) -> Step {
    let Example { name, expected } = example;
    let step = Step::built(format!("example {name}"), &format!("debug/examples/{name}"), "");
    step.expect(expected.clone())
}

fn install_cargo_deny() -> Step {
    Step::cargo("cargo-deny", "install cargo-deny --locked --no-default-features")
}

/// Returns the steps that check the dependencies. The first step fetches the dependencies for all platforms, because
/// the check reads all of them, whereas a build fetches only those for its own platform.
fn deny() -> [Step; 2] {
    [
        Step::cargo("dependencies of all platforms", "fetch --locked"),
        Step::cargo(
            "dependency licences and sources",
            "deny --offline check bans licenses sources",
        ),
    ]
}

/// Crates whose example programs are run.
const PACKAGES: [&str; 7] =
    ["graph-core", "graph-store", "graph-trace", "llm", "graph-agents", "sandbox-vm", "draft-gate"];

fn examples(root: &Path) -> Result<Vec<Example>, Error> {
    let mut examples = vec![];
    for package in PACKAGES {
        let dir = root.join(package).join("examples");
        let found = examples_in(&dir);
        examples.extend(found.map_err(|source| Error::File { path: dir, source })?);
    }
    Ok(examples)
}

fn examples_in(dir: &Path) -> io::Result<Vec<Example>> {
    if !dir.exists() {
        return Ok(vec![]);
    }
    let mut names = vec![];
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "rs") {
            names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
        }
    }
    // The `measure` programs are benchmarks, which need an otherwise idle machine.
    names.retain(|it| it != "measure");
    names.sort();
    let example = |name: String| match fs::read_to_string(dir.join(format!("{name}.expected"))) {
        Ok(text) => Ok(Example { name, expected: text.lines().map(str::to_owned).collect() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Example { name, expected: vec![] })
        }
        Err(error) => Err(error),
    };
    names.into_iter().map(example).collect()
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;
    use crate::needs::Rights;

    fn machine(needs: [Availability; NEEDS.len()]) -> Machine {
        let examples = vec![];
        Machine { examples, cargo_deny: true, mdbook: true, minimum_rust: true, node: false, needs }
    }

    fn named(name: &str) -> Example {
        Example { name: name.to_owned(), expected: vec![] }
    }

    fn lines(plan: &Plan) -> Vec<String> {
        plan.steps().map(Step::to_string).collect()
    }

    #[test]
    fn features_are_complete() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut features = vec![];
        for entry in fs::read_dir(root).unwrap() {
            let package = entry.unwrap().path();
            let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
            let section = manifest.split("[features]").nth(1).unwrap_or_default();
            let section = section.split("\n[").next().unwrap_or_default();
            let default = section.lines().find(|it| it.starts_with("default")).unwrap_or_default();
            let names = section.lines().filter_map(|it| it.split_once(" = ").map(|it| it.0));
            let package = package.file_name().unwrap().to_string_lossy().into_owned();
            let optional = |it: &&str| {
                !["default", "local"].contains(it) && !default.contains(&format!("\"{it}\""))
            };
            features.extend(names.filter(optional).map(|it| format!("{package}/{it}")));
        }
        features.sort();
        assert_eq!(features, FEATURES.split(',').collect::<Vec<_>>());
    }

    #[test]
    fn usual_plan_without_optional_programs() {
        let bare = Machine {
            cargo_deny: false,
            mdbook: false,
            minimum_rust: false,
            ..machine([Availability::Missing; NEEDS.len()])
        };
        let plan = plan(&bare, Depth::Usual);
        let [mdbook, render] = [book::install(), book::render()];
        assert_eq!(
            lines(&plan).join("\n"),
            format!(
                "\
cargo install cargo-deny --locked --no-default-features
{mdbook}
cargo fmt --all -- --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
cargo xtask run-tests --features {FEATURES}
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features
{render}
target/debug/conformance {CASES}
target/debug/conformance --eager --min-ahead {CASES_AHEAD} {CASES}
cargo fetch --locked
cargo deny --offline check bans licenses sources
{}",
                package::package(Depth::Usual)
            ),
        );
        assert_eq!(plan.skipped.len(), NEEDS.len() + 2);
        assert_eq!(plan.skipped[0].fix, "sudo apt-get install postgresql");
    }

    #[test]
    fn nightly_plan_with_all_programs() {
        let full = Machine {
            examples: ["a", "b"].map(named).into(),
            node: true,
            ..machine([Availability::Installed; NEEDS.len()])
        };
        let plan = plan(&full, Depth::Nightly);
        let [agents, images] = [guest_image::agents(), guest_image::images()];
        let page = web::steps().map(|it| it.to_string()).join("\n");
        let render = book::render();
        assert_eq!(
            lines(&plan).join("\n"),
            format!(
                "\
cargo xtask model
{agents}
{images}
{page}
cargo fmt --all -- --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
GRAPH_NIGHTLY=1 GRAPH_REQUIRE_POSTGRES=1 GRAPH_REQUIRE_CHROMIUM=1 GRAPH_REQUIRE_AIMOCK=1 GRAPH_REQUIRE_LLAMA=1 GRAPH_REQUIRE_GVISOR=1 GRAPH_REQUIRE_MCP=1 GRAPH_REQUIRE_SCHEMATHESIS=1 GRAPH_REQUIRE_MCP_EVERYTHING=1 GRAPH_REQUIRE_MCP_TIME=1 GRAPH_REQUIRE_LANGGRAPH_SDK=1 GRAPH_REQUIRE_UI_CLIENTS=1 GRAPH_REQUIRE_UI_RUNTIMES=1 GRAPH_REQUIRE_A2A=1 GRAPH_REQUIRE_RESTATE=1 GRAPH_REQUIRE_HAPROXY=1 GRAPH_REQUIRE_MICROVM=1 GRAPH_REQUIRE_KVM=1 GRAPH_REQUIRE_DOCKER=1 GRAPH_REQUIRE_PAGE=1 cargo xtask run-tests --all-features
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features
{render}
target/debug/conformance {CASES}
target/debug/conformance --eager --min-ahead {CASES_AHEAD} {CASES}
FUZZ_INPUTS=1000000 CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true cargo test --release -p draft-gate -p graph-server -p llm -p sandbox-vm fuzz -- --nocapture
target/debug/examples/a
target/debug/examples/b
cargo fetch --locked
cargo deny --offline check bans licenses sources
{}
{}",
                package::package(Depth::Nightly),
                package::minimum_rust(),
            ),
        );
        assert!(plan.skipped.is_empty());
    }

    #[test]
    fn missing_system_packages_are_installed_then_required() {
        for (rights, start) in [(Rights::Root, "sh -ec "), (Rights::Sudo, "sudo -n sh -ec ")] {
            let mut needs = [Availability::Missing; NEEDS.len()];
            needs[0] = Availability::Installable(rights);
            let plan = plan(&machine(needs), Depth::Usual);
            let lines = lines(&plan);
            assert!(lines[0].starts_with(start), "{}", lines[0]);
            assert!(lines[0].ends_with("install -y --no-install-recommends postgresql'"));
            assert!(
                lines[3].starts_with("GRAPH_REQUIRE_POSTGRES=1 cargo xtask run-tests"),
                "{}",
                lines[3]
            );
            assert_eq!(plan.skipped[0].fix, "sudo apt-get install chromium");
        }
    }

    #[test]
    fn programs_in_the_target_directory_need_no_privileges() {
        let user = Availability::Installable(Rights::User);
        let mut needs = [Availability::Missing; NEEDS.len()];
        let here = Availability::Installed;
        needs[..2].fill(here);
        needs[2..QEMU].fill(user);
        // gVisor and HAProxy are Debian packages, which only root can install.
        needs[4] = Availability::Missing;
        needs[QEMU - 1] = Availability::Missing;
        let lines = lines(&plan(&machine(needs), Depth::Usual));
        let dirs = [
            "aimock-1.43.0",
            "llama-11549",
            "mcp-2.3.0",
            "schemathesis-4.32.5",
            "mcp-everything-2026.8.31",
            "mcp-time-2026.10.19",
            "langgraph-sdk-0.4.14-1.12.0",
            "ui-clients-1.0.0-6.0.326-0.0.43-0.14.25",
            "ui-runtimes-1.75.0-2.0.296",
            "a2a-1.3.0",
            "restate-1.7.12",
        ];
        for (line, dir) in lines.iter().zip(dirs) {
            assert!(line.starts_with("sh -ec ") && line.ends_with(dir), "{line}");
        }
        let required = "GRAPH_REQUIRE_AIMOCK=1 GRAPH_REQUIRE_LLAMA=1 GRAPH_REQUIRE_MCP=1 \
                        GRAPH_REQUIRE_SCHEMATHESIS=1 GRAPH_REQUIRE_MCP_EVERYTHING=1 GRAPH_REQUIRE_MCP_TIME=1 \
                        GRAPH_REQUIRE_LANGGRAPH_SDK=1 GRAPH_REQUIRE_UI_CLIENTS=1 GRAPH_REQUIRE_UI_RUNTIMES=1 \
                        GRAPH_REQUIRE_A2A=1 GRAPH_REQUIRE_RESTATE=1 cargo xtask run-tests";
        assert!(lines[13].contains(required), "{}", lines[13]);
    }

    #[test]
    fn kvm_alone_needs_agents_but_no_image() {
        let mut needs = [Availability::Missing; NEEDS.len()];
        needs[KVM] = Availability::Installed;
        let lines = lines(&plan(&machine(needs), Depth::Usual));
        assert_eq!(lines[0], guest_image::agents().to_string());
        assert!(lines[1].starts_with("cargo fmt"), "{}", lines[1]);
        assert!(lines[3].starts_with("GRAPH_REQUIRE_KVM=1 cargo xtask run-tests"), "{}", lines[3]);
    }

    #[test]
    fn programs_without_guarantee_are_installed_but_not_required() {
        let mut needs = [Availability::Missing; NEEDS.len()];
        needs[4] = Availability::Installable(Rights::Root);
        let plan = plan(&machine(needs), Depth::Usual);
        let lines = lines(&plan);
        assert!(lines[0].contains("runsc"), "{}", lines[0]);
        assert!(plan.skipped.iter().any(|it| it.title == "gVisor tests"));
        assert!(lines[3].starts_with("cargo xtask run-tests"), "{}", lines[3]);
    }

    #[test]
    fn examples_are_sorted_and_may_be_absent() {
        let dir = env::temp_dir().join(format!("xtask-examples-{}", std::process::id()));
        assert!(examples_in(&dir).unwrap().is_empty());
        fs::create_dir_all(&dir).unwrap();
        for name in ["two.rs", "one.rs", "notes.md"] {
            fs::write(dir.join(name), "").unwrap();
        }
        fs::write(dir.join("two.expected"), "first\nsecond\n").unwrap();
        let expected = ["first", "second"].map(str::to_owned).into();
        let two = Example { expected, ..named("two") };
        assert_eq!(examples_in(&dir).unwrap(), [named("one"), two]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn output_of_all_agent_examples_is_checked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let examples = examples_in(&root.join("graph-agents/examples")).unwrap();
        assert!(!examples.is_empty());
        for example in examples {
            assert!(!example.expected.is_empty(), "{}.expected is missing", example.name);
        }
    }
}
