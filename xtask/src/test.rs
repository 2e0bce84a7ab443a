//! `cargo xtask test`: every check that CI makes.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    error::Error,
    guest_image, lint,
    needs::{DOCKER, Found, KVM, NEEDS, QEMU},
    step::{LeftOut, Plan, Step, run_all},
    web,
};

pub(crate) fn run(root: &Path, depth: Depth) -> Result<(), Error> {
    let here = Here {
        examples: examples(root)?,
        cargo_deny: has_cargo_deny(),
        node: web::is_possible(),
        needs: NEEDS.map(|it| it.look()),
    };
    run_all(root, &plan(&here, depth))
}

/// How long the property tests may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Depth {
    Usual,
    Nightly,
}

/// What the checkout and the machine have.
struct Here {
    /// The names of the programs in the crates' folders `examples`.
    examples: Vec<String>,
    cargo_deny: bool,
    /// Whether the page can be built.
    node: bool,
    /// How each of [`NEEDS`] is met.
    needs: [Found; NEEDS.len()],
}

fn plan(here: &Here, depth: Depth) -> Plan {
    let mut plan = Plan::default();
    for (need, found) in NEEDS.iter().zip(here.needs) {
        plan.steps.extend(need.install(found));
        plan.left_out.extend(need.left_out(found));
    }
    let tests = tests(depth).map(|step| {
        NEEDS.iter().zip(here.needs).fold(step, |step, (need, found)| need.require(found, step))
    });
    let [qemu, kvm, docker] = [QEMU, KVM, DOCKER].map(|it| here.needs[it] != Found::Missing);
    plan.steps.extend((qemu || kvm || docker).then(guest_image::agents));
    plan.steps.extend(qemu.then(guest_image::images));
    let tests = if here.node {
        plan.steps.extend(web::steps());
        tests.map(|it| it.env(web::REQUIRE, "1"))
    } else {
        plan.left_out.push(web::LEFT_OUT);
        tests
    };
    if depth == Depth::Nightly {
        plan.steps.push(Step::cargo("a real model for the tests", "xtask model"));
    }
    plan.steps.extend([lint::format(), lint::clippy()]);
    plan.steps.extend(tests);
    plan.steps.extend([lint::doc(), conformance()]);
    plan.steps.extend(here.examples.iter().map(example));
    if here.cargo_deny {
        plan.steps.extend(deny());
    } else {
        plan.left_out.push(LeftOut::new(
            "licences and sources of the dependencies",
            "cargo install cargo-deny --locked",
        ));
    }
    plan
}

/// Who can have local models goes apart: that feature takes longer to build than all the rest. So do the others that
/// speak HTTP as a client: in one build with them the OTLP example would get a client that needs a choice of ciphers.
fn tests(depth: Depth) -> [Step; 2] {
    let apart = "-p llm -p consulting-graph -p graph-server -p reflexion-graph";
    let rest = "test --workspace --all-features --exclude llm --exclude consulting-graph --exclude graph-server \
                --exclude reflexion-graph";
    let rest = Step::cargo("tests", rest);
    match depth {
        Depth::Usual => [rest, Step::cargo("tests of models", &format!("test {apart}"))],
        Depth::Nightly => {
            let models = format!("test {apart} --all-features");
            let models = Step::cargo("tests of models, local ones too", &models);
            [rest, models].map(|it| it.env("GRAPH_NIGHTLY", "1"))
        }
    }
}

fn conformance() -> Step {
    Step::built(
        "conformance with LangGraph",
        "conformance",
        "fixtures/conformance/hand.jsonl fixtures/conformance/random.jsonl fixtures/conformance/found.jsonl",
    )
}

fn example(name: &String) -> Step {
    Step::built(format!("example {name}"), &format!("examples/{name}"), "")
}

/// The check reads the dependencies of all platforms, but a build fetches those of this one alone.
fn deny() -> [Step; 2] {
    [
        Step::cargo("dependencies of all platforms", "fetch --locked"),
        Step::cargo(
            "licences and sources of the dependencies",
            "deny --offline check bans licenses sources",
        ),
    ]
}

/// The crates with examples.
const PACKAGES: [&str; 6] =
    ["graph-core", "graph-store", "graph-trace", "llm", "sandbox-vm", "draft-gate"];

fn examples(root: &Path) -> Result<Vec<String>, Error> {
    let mut examples = vec![];
    for package in PACKAGES {
        let folder = root.join(package).join("examples");
        let names = example_names(&folder);
        examples.extend(names.map_err(|source| Error::File { path: folder, source })?);
    }
    Ok(examples)
}

fn example_names(folder: &Path) -> io::Result<Vec<String>> {
    if !folder.exists() {
        return Ok(vec![]);
    }
    let mut names = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "rs") {
            names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
        }
    }
    // Measurements are for a machine that does nothing else.
    names.retain(|it| it != "measure");
    names.sort();
    Ok(names)
}

fn has_cargo_deny() -> bool {
    let mut command = Command::new("cargo");
    command.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;
    use crate::needs::Rights;

    #[track_caller]
    fn check(plan: &Plan, expect: &str) {
        let lines: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
        assert_eq!(lines.join("\n"), expect);
    }

    #[test]
    fn usual() {
        let here = Here {
            examples: vec![],
            cargo_deny: false,
            node: false,
            needs: [Found::Missing; NEEDS.len()],
        };
        let plan = plan(&here, Depth::Usual);
        check(
            &plan,
            "\
cargo fmt --all -- --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
cargo test --workspace --all-features --exclude llm --exclude consulting-graph --exclude graph-server --exclude reflexion-graph
cargo test -p llm -p consulting-graph -p graph-server -p reflexion-graph
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features
target/debug/conformance fixtures/conformance/hand.jsonl fixtures/conformance/random.jsonl fixtures/conformance/found.jsonl",
        );
        let left_out: Vec<&str> = plan.left_out.iter().map(|it| it.install).collect();
        assert_eq!(
            left_out,
            [
                "sudo apt-get install postgresql",
                "sudo apt-get install chromium",
                "sudo apt-get install npm",
                "sudo apt-get install python3-pip",
                "sudo apt-get install runsc, on Debian 12 with -t bookworm-backports",
                "sudo apt-get install python3-pip",
                "sudo apt-get install python3-pip",
                "sudo apt-get install qemu-system-x86",
                "sudo usermod -aG kvm $USER",
                "sudo apt-get install docker.io",
                "Node from 20.19 on, with npm",
                "cargo install cargo-deny --locked"
            ]
        );
    }

    #[test]
    fn nightly_with_examples_and_cargo_deny() {
        let examples = ["a", "b"].map(str::to_owned).into();
        let here =
            Here { examples, cargo_deny: true, node: true, needs: [Found::Here; NEEDS.len()] };
        let plan = plan(&here, Depth::Nightly);
        let [agents, images] = [guest_image::agents(), guest_image::images()];
        let page = web::steps().map(|it| it.to_string()).join("\n");
        check(
            &plan,
            &format!(
                "\
{agents}
{images}
{page}
cargo xtask model
cargo fmt --all -- --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
GRAPH_NIGHTLY=1 GRAPH_REQUIRE_POSTGRES=1 GRAPH_REQUIRE_CHROMIUM=1 GRAPH_REQUIRE_AIMOCK=1 GRAPH_REQUIRE_LLAMA=1 GRAPH_REQUIRE_GVISOR=1 GRAPH_REQUIRE_MCP=1 GRAPH_REQUIRE_SCHEMATHESIS=1 GRAPH_REQUIRE_MICROVM=1 GRAPH_REQUIRE_KVM=1 GRAPH_REQUIRE_DOCKER=1 GRAPH_REQUIRE_PAGE=1 cargo test --workspace --all-features --exclude llm --exclude consulting-graph --exclude graph-server --exclude reflexion-graph
GRAPH_NIGHTLY=1 GRAPH_REQUIRE_POSTGRES=1 GRAPH_REQUIRE_CHROMIUM=1 GRAPH_REQUIRE_AIMOCK=1 GRAPH_REQUIRE_LLAMA=1 GRAPH_REQUIRE_GVISOR=1 GRAPH_REQUIRE_MCP=1 GRAPH_REQUIRE_SCHEMATHESIS=1 GRAPH_REQUIRE_MICROVM=1 GRAPH_REQUIRE_KVM=1 GRAPH_REQUIRE_DOCKER=1 GRAPH_REQUIRE_PAGE=1 cargo test -p llm -p consulting-graph -p graph-server -p reflexion-graph --all-features
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features
target/debug/conformance fixtures/conformance/hand.jsonl fixtures/conformance/random.jsonl fixtures/conformance/found.jsonl
target/debug/examples/a
target/debug/examples/b
cargo fetch --locked
cargo deny --offline check bans licenses sources"
            ),
        );
        assert!(plan.left_out.is_empty());
    }

    #[test]
    fn what_is_missing_is_installed_first_and_required_then() {
        for (rights, start) in [(Rights::Root, "sh -ec "), (Rights::Sudo, "sudo -n sh -ec ")] {
            let mut needs = [Found::Missing; NEEDS.len()];
            needs[0] = Found::Installable(rights);
            let plan = plan(
                &Here { examples: vec![], cargo_deny: true, node: false, needs },
                Depth::Usual,
            );
            let lines: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
            assert!(lines[0].starts_with(start), "{}", lines[0]);
            assert!(lines[0].ends_with("install -y --no-install-recommends postgresql'"));
            assert_eq!(
                lines[3],
                "GRAPH_REQUIRE_POSTGRES=1 cargo test --workspace --all-features --exclude llm --exclude consulting-graph --exclude graph-server --exclude reflexion-graph"
            );
            assert_eq!(plan.left_out[0].install, "sudo apt-get install chromium");
        }
    }

    #[test]
    fn what_goes_into_a_folder_needs_no_rights() {
        let user = Found::Installable(Rights::User);
        let mut needs = [Found::Missing; NEEDS.len()];
        let here = Found::Here;
        needs[..7].copy_from_slice(&[here, here, user, user, Found::Missing, user, user]);
        let plan =
            plan(&Here { examples: vec![], cargo_deny: true, node: false, needs }, Depth::Usual);
        let lines: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
        let folders = ["aimock-1.43.0", "llama-11549", "mcp-2.3.0", "schemathesis-4.32.5"];
        for (line, folder) in lines.iter().zip(folders) {
            assert!(line.starts_with("sh -ec ") && line.ends_with(folder), "{line}");
        }
        let required = "GRAPH_REQUIRE_AIMOCK=1 GRAPH_REQUIRE_LLAMA=1 GRAPH_REQUIRE_MCP=1 \
                        GRAPH_REQUIRE_SCHEMATHESIS=1 cargo test";
        assert!(lines[6].contains(required));
    }

    #[test]
    fn for_kvm_alone_no_image_is_built() {
        let mut needs = [Found::Missing; NEEDS.len()];
        needs[KVM] = Found::Here;
        let plan =
            plan(&Here { examples: vec![], cargo_deny: true, node: false, needs }, Depth::Usual);
        let lines: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
        assert_eq!(lines[0], guest_image::agents().to_string());
        assert!(lines[1].starts_with("cargo fmt"), "{}", lines[1]);
        assert!(lines[3].starts_with("GRAPH_REQUIRE_KVM=1 cargo test"), "{}", lines[3]);
    }

    #[test]
    fn what_may_not_be_installed_is_tried_and_not_required() {
        let mut needs = [Found::Missing; NEEDS.len()];
        needs[4] = Found::Installable(Rights::Root);
        let plan =
            plan(&Here { examples: vec![], cargo_deny: true, node: false, needs }, Depth::Usual);
        let lines: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
        assert!(lines[0].contains("runsc"), "{}", lines[0]);
        // If it has not come by then, the summary names it.
        assert!(plan.left_out.iter().any(|it| it.title == "tests in gVisor"));
        assert_eq!(
            lines[3],
            "cargo test --workspace --all-features --exclude llm --exclude consulting-graph --exclude graph-server --exclude reflexion-graph"
        );
    }

    #[test]
    fn examples_are_sorted_and_may_be_absent() {
        let folder = env::temp_dir().join(format!("xtask-examples-{}", std::process::id()));
        assert_eq!(example_names(&folder).unwrap(), Vec::<String>::new());
        fs::create_dir_all(&folder).unwrap();
        for name in ["two.rs", "one.rs", "notes.md"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(example_names(&folder).unwrap(), ["one", "two"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
