//! `cargo xtask test`: runs all CI checks.

use std::path::Path;

use crate::{
    book,
    error::Error,
    examples::{Example, examples},
    guest_image, lint,
    needs::{Availability, DOCKER, KVM, NEEDS, QEMU, Rights},
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
    if !machine.node {
        skipped.push(web::SKIPPED);
    }
    if !machine.minimum_rust {
        skipped.push(package::MINIMUM_RUST_SKIPPED);
    }
    let require = |tests: Step| {
        let tests = needs().fold(tests, |step, (need, it)| need.require(it, step));
        if machine.node { tests.env(web::REQUIRE, "1") } else { tests }
    };

    // All sequences but the first only wait for downloads or build into separate directories, so no build waits for the
    // lock of another one.
    let build = Stage::parallel(vec![
        vec![build_tests(depth)],
        vec![lint::format()],
        system_packages_and_guests(machine),
        downloads(machine, depth),
        if machine.node { web::steps().into() } else { vec![] },
    ]);
    // Many tests wait for VMs, browsers and timers. The other checks use the processor while the tests are idle.
    let mut others = vec![require(documentation_tests(depth))];
    others.extend(other_checks(machine, depth));
    let others = others.into_iter().map(Step::low_priority).collect();
    let check = Stage::parallel(vec![vec![require(tests(depth))], others]);
    Plan { stages: vec![build, check], skipped }
}

/// Returns the steps that install system packages, followed by those that build what runs in VMs. These also use the
/// system's package manager, which serves one program at a time.
fn system_packages_and_guests(machine: &Machine) -> Vec<Step> {
    let needs = NEEDS.iter().zip(machine.needs);
    let system = needs.filter(|(_, it)| !is_download(*it));
    let mut steps: Vec<Step> = system.filter_map(|(need, it)| need.install(it)).collect();
    let [qemu, kvm, docker] =
        [QEMU, KVM, DOCKER].map(|it| machine.needs[it] != Availability::Missing);
    steps.extend((qemu || kvm || docker).then(guest_image::agents));
    steps.extend(qemu.then(guest_image::images));
    steps
}

/// Returns the steps that install programs for the current user.
fn downloads(machine: &Machine, depth: Depth) -> Vec<Step> {
    let needs = NEEDS.iter().zip(machine.needs).filter(|(_, it)| is_download(*it));
    let mut steps: Vec<Step> = needs.filter_map(|(need, it)| need.install(it)).collect();
    steps.extend((!machine.cargo_deny).then(install_cargo_deny));
    steps.extend((!machine.mdbook).then(book::install));
    if depth == Depth::Nightly {
        steps.push(Step::cargo("model for the tests with a small real model", "xtask model"));
    }
    steps
}

fn is_download(availability: Availability) -> bool {
    availability == Availability::Installable(Rights::User)
}

/// Returns the checks besides the tests.
fn other_checks(machine: &Machine, depth: Depth) -> Vec<Step> {
    let mut steps = vec![lint::clippy(), lint::doc(), book::render()];
    steps.extend([conformance(), eager_conformance()]);
    steps.extend(machine.examples.iter().map(Example::step));
    steps.extend(deny());
    steps.push(package::package(depth));
    steps.extend(machine.minimum_rust.then(package::minimum_rust));
    steps.extend((depth == Depth::Nightly).then(fuzzing));
    steps
}

/// All features except the feature `local` of `llm`, which takes longer to build than everything else.
const FEATURES: &str = "app-support/server,consulting-graph/cluster,draft-gate/sandbox,graph-agents/mcp,\
                        graph-agents/sandbox,graph-cluster/http,graph-cluster/restate,graph-cluster/server,\
                        graph-core/schema,graph-core/tracing,graph-server/postgres,graph-store/compression,\
                        graph-store/encryption,graph-store/postgres,graph-tests/cluster,llm/testkit,\
                        reflexion-graph/docker,sandbox-testkit/docker,sandbox-vm/docker";

/// Returns the step that builds the tests. All tests are built at once, because separate steps would enable different
/// features and so build shared dependencies twice.
fn build_tests(depth: Depth) -> Step {
    Step::cargo("build of the tests", &format!("test --workspace --no-run {}", features(depth)))
}

fn tests(depth: Depth) -> Step {
    at_depth(Step::cargo("tests", &format!("xtask run-tests {}", features(depth))), depth)
}

/// Returns the step that runs the examples of the documentation.
fn documentation_tests(depth: Depth) -> Step {
    let line = format!("test --workspace --doc {}", features(depth));
    at_depth(Step::cargo("documentation tests", &line), depth)
}

/// Returns Cargo's options that select the features to test.
fn features(depth: Depth) -> String {
    match depth {
        Depth::Usual => format!("--features {FEATURES}"),
        Depth::Nightly => "--all-features".to_owned(),
    }
}

fn at_depth(tests: Step, depth: Depth) -> Step {
    match depth {
        Depth::Usual => tests,
        Depth::Nightly => tests.env("GRAPH_NIGHTLY", "1"),
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

/// Returns the step that runs a million inputs for each fuzz target. In the usual tests, the targets run with a few
/// inputs.
fn fuzzing() -> Step {
    let step = Step::cargo(
        "fuzzing",
        "test --release -p draft-gate -p graph-server -p llm -p sandbox-vm fuzz -- --nocapture",
    );
    step.env("FUZZ_INPUTS", "1000000")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
}

/// Returns the step that installs cargo-deny. Its own release profile optimises across crates, which takes minutes.
fn install_cargo_deny() -> Step {
    let step = Step::cargo("cargo-deny", "install cargo-deny --locked --no-default-features");
    step.env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
}

/// Returns the steps that check the dependencies. The first step fetches the dependencies for all platforms, because
/// the check reads all of them, whereas a build fetches only those for its own platform.
fn deny() -> [Step; 2] {
    [
        Step::cargo("dependencies of all platforms", "fetch --locked"),
        Step::cargo(
            "dependency licences and sources", "deny --offline check bans licenses sources",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(needs: [Availability; NEEDS.len()]) -> Machine {
        let examples = vec![];
        Machine { examples, cargo_deny: true, mdbook: true, minimum_rust: true, node: false, needs }
    }

    fn lines(plan: &Plan) -> Vec<String> {
        plan.steps().map(Step::to_string).collect()
    }

    /// Returns the only line that contains a text.
    #[track_caller]
    fn line<'a>(lines: &'a [String], text: &str) -> &'a str {
        let mut found = lines.iter().filter(|it| it.contains(text));
        let line = found.next().unwrap_or_else(|| panic!("no line contains {text}: {lines:#?}"));
        assert_eq!(found.next(), None);
        line
    }

    #[test]
    fn all_optional_features_are_tested() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut features = vec![];
        for entry in fs::read_dir(root).unwrap() {
            let package = entry.unwrap().path();
            let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
            let section = manifest.split("[features]").nth(1).unwrap_or_default();
            let section = section.split("\n[").next().unwrap_or_default();
            let default = section.lines().find(|it| it.starts_with("default")).unwrap_or_default();
            let names = section.lines().filter_map(|it| it.split_once(" = ").map(|it| it.0));
            let package = manifest.split("name = \"").nth(1).unwrap_or_default();
            let package = package.split('"').next().unwrap_or_default();
            let optional = |it: &&str| {
                !["default", "local"].contains(it) && !default.contains(&format!("\"{it}\""))
            };
            features.extend(names.filter(optional).map(|it| format!("{package}/{it}")));
        }
        features.sort();
        assert_eq!(features, FEATURES.split(',').collect::<Vec<_>>());
    }

    #[test]
    fn usual_plan_skips_tests_of_missing_programs() {
        let bare = Machine {
            cargo_deny: false,
            mdbook: false,
            minimum_rust: false,
            ..machine([Availability::Missing; NEEDS.len()])
        };
        let plan = plan(&bare, Depth::Usual);
        let [deny, mdbook, render] = [install_cargo_deny(), book::install(), book::render()];
        assert_eq!(
            lines(&plan).join("\n"),
            format!(
                "\
cargo test --workspace --no-run --features {FEATURES}
cargo fmt --all -- --check
{deny}
{mdbook}
cargo xtask run-tests --features {FEATURES}
nice -n 19 cargo test --workspace --doc --features {FEATURES}
nice -n 19 cargo clippy --workspace --all-targets --all-features -- -D warnings
RUSTDOCFLAGS='-D warnings' nice -n 19 cargo doc --workspace --no-deps --all-features
nice -n 19 {render}
nice -n 19 target/debug/conformance {CASES}
nice -n 19 target/debug/conformance --eager --min-ahead {CASES_AHEAD} {CASES}
nice -n 19 cargo fetch --locked
nice -n 19 cargo deny --offline check bans licenses sources
nice -n 19 {}",
                package::package(Depth::Usual)
            ),
        );
        assert_eq!(plan.skipped.len(), NEEDS.len() + 2);
        assert_eq!(plan.skipped[0].fix, "sudo apt-get install postgresql");
    }

    /// The environment of the nightly tests if all programs are installed.
    const REQUIRE_ALL: &str = "GRAPH_NIGHTLY=1 GRAPH_REQUIRE_POSTGRES=1 GRAPH_REQUIRE_CHROMIUM=1 GRAPH_REQUIRE_AIMOCK=1 GRAPH_REQUIRE_LLAMA=1 GRAPH_REQUIRE_GVISOR=1 GRAPH_REQUIRE_MCP=1 GRAPH_REQUIRE_MCP_CONFORMANCE=1 GRAPH_REQUIRE_SCHEMATHESIS=1 GRAPH_REQUIRE_MCP_EVERYTHING=1 GRAPH_REQUIRE_MCP_TIME=1 GRAPH_REQUIRE_LANGGRAPH_SDK=1 GRAPH_REQUIRE_UI_CLIENTS=1 GRAPH_REQUIRE_UI_RUNTIMES=1 GRAPH_REQUIRE_A2A=1 GRAPH_REQUIRE_RESTATE=1 GRAPH_REQUIRE_HAPROXY=1 GRAPH_REQUIRE_MICROVM=1 GRAPH_REQUIRE_KVM=1 GRAPH_REQUIRE_DOCKER=1 GRAPH_REQUIRE_PAGE=1";

    #[test]
    fn nightly_plan_requires_all_programs() {
        let full = Machine {
            examples: ["a", "b"].map(Example::named).into(),
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
cargo test --workspace --no-run --all-features
cargo fmt --all -- --check
{agents}
{images}
cargo xtask model
{page}
{REQUIRE_ALL} cargo xtask run-tests --all-features
{REQUIRE_ALL} nice -n 19 cargo test --workspace --doc --all-features
nice -n 19 cargo clippy --workspace --all-targets --all-features -- -D warnings
RUSTDOCFLAGS='-D warnings' nice -n 19 cargo doc --workspace --no-deps --all-features
nice -n 19 {render}
nice -n 19 target/debug/conformance {CASES}
nice -n 19 target/debug/conformance --eager --min-ahead {CASES_AHEAD} {CASES}
nice -n 19 target/debug/examples/a
nice -n 19 target/debug/examples/b
nice -n 19 cargo fetch --locked
nice -n 19 cargo deny --offline check bans licenses sources
nice -n 19 {}
nice -n 19 {}
FUZZ_INPUTS=1000000 CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true nice -n 19 cargo test --release -p draft-gate -p graph-server -p llm -p sandbox-vm fuzz -- --nocapture",
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
            let install = line(&lines, "apt-get");
            assert!(install.starts_with(start), "{install}");
            assert!(install.ends_with("install -y --no-install-recommends postgresql'"));
            let tests = line(&lines, "run-tests");
            assert!(tests.starts_with("GRAPH_REQUIRE_POSTGRES=1 cargo xtask run-tests"), "{tests}");
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
            "aimock-1.43.0", "llama-11549", "mcp-2.3.0", "mcp-conformance-0.1.16",
            "schemathesis-4.32.5", "mcp-everything-2026.8.31", "mcp-time-2026.10.19",
            "langgraph-sdk-0.4.14-1.12.0-1.1.0", "ui-clients-1.0.0-6.0.326-0.0.43-0.14.25",
            "ui-runtimes-1.75.0-2.0.296", "a2a-1.3.0", "restate-1.7.12",
        ];
        for dir in dirs {
            let install = line(&lines, dir);
            assert!(install.starts_with("sh -ec ") && install.ends_with(dir), "{install}");
        }
        let required = "GRAPH_REQUIRE_AIMOCK=1 GRAPH_REQUIRE_LLAMA=1 GRAPH_REQUIRE_MCP=1 \
                        GRAPH_REQUIRE_MCP_CONFORMANCE=1 GRAPH_REQUIRE_SCHEMATHESIS=1 \
                        GRAPH_REQUIRE_MCP_EVERYTHING=1 GRAPH_REQUIRE_MCP_TIME=1 \
                        GRAPH_REQUIRE_LANGGRAPH_SDK=1 GRAPH_REQUIRE_UI_CLIENTS=1 GRAPH_REQUIRE_UI_RUNTIMES=1 \
                        GRAPH_REQUIRE_A2A=1 GRAPH_REQUIRE_RESTATE=1 cargo xtask run-tests";
        assert!(line(&lines, "run-tests").contains(required), "{lines:#?}");
    }

    #[test]
    fn kvm_alone_needs_agents_but_no_image() {
        let mut needs = [Availability::Missing; NEEDS.len()];
        needs[KVM] = Availability::Installed;
        let lines = lines(&plan(&machine(needs), Depth::Usual));
        assert_eq!(line(&lines, "crt-static"), guest_image::agents().to_string());
        assert!(!lines.iter().any(|it| it.contains("image build")), "{lines:#?}");
        assert!(line(&lines, "run-tests").starts_with("GRAPH_REQUIRE_KVM=1 cargo"), "{lines:#?}");
    }

    #[test]
    fn programs_whose_installation_may_fail_are_not_required() {
        let mut needs = [Availability::Missing; NEEDS.len()];
        needs[4] = Availability::Installable(Rights::Root);
        let plan = plan(&machine(needs), Depth::Usual);
        let lines = lines(&plan);
        assert!(line(&lines, "apt-get").contains("runsc"), "{lines:#?}");
        assert!(plan.skipped.iter().any(|it| it.title == "gVisor tests"));
        assert!(line(&lines, "run-tests").starts_with("cargo xtask run-tests"), "{lines:#?}");
    }
}
