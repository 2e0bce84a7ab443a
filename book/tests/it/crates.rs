//! Checks that the README, the picture of the crates and the API documentation cover every crate.

use std::collections::BTreeSet;

use crate::documents::{all_blocks, files_in, links, members, read, root};

/// Members with a library that only the workspace uses.
const INTERNAL: [&str; 4] = ["app-support", "benches", "test-support", "tests"];

/// Chapters that the front page of each library must link. `graph-core` links all chapters.
const CHAPTERS: [(&str, &[&str]); 15] = [
    ("checkpoint-testkit", &["threads"]),
    ("consulting-graph", &["consulting", "ablation"]),
    ("draft-gate", &["threat-model"]),
    ("fuzz-testkit", &["threat-model"]),
    ("graph-agents", &["agents", "tools", "middleware", "several-agents", "mcp"]),
    ("graph-cluster", &["cluster"]),
    ("graph-core", &["getting-started", "from-langgraph"]),
    ("graph-macros", &["state", "nodes", "tools"]),
    ("graph-server", &["serving", "clients", "studio"]),
    ("graph-store", &["threads", "store", "operations"]),
    ("graph-trace", &["traces"]),
    ("llm", &["models"]),
    ("reflexion-graph", &["sandboxes"]),
    ("sandbox-testkit", &["sandboxes", "threat-model"]),
    ("sandbox-vm", &["sandboxes", "threat-model"]),
];

/// Returns the libraries and applications of the workspace, sorted by name.
fn libraries() -> BTreeSet<String> {
    let is_library = |it: &String| root().join(it).join("src/lib.rs").is_file();
    members().into_iter().filter(|it| is_library(it) && !INTERNAL.contains(&&**it)).collect()
}

/// Returns the documentation at the top of a library.
fn front_page(library: &str) -> String {
    let text = read(&root().join(library).join("src/lib.rs"));
    let lines = text.lines().filter_map(|it| it.strip_prefix("//!"));
    lines.map(|it| format!("{it}\n")).collect()
}

#[test]
fn every_crate_has_a_readme() {
    for member in members() {
        assert!(root().join(&member).join("README.md").is_file(), "{member} has no README.md");
    }
}

#[test]
fn every_library_is_in_the_crate_table() {
    let readme = read(&root().join("README.md"));
    let section = readme.split("\n## Crates\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|it| it.starts_with("| ")).collect();
    let listed: BTreeSet<String> = links(&rows.join("\n"))
        .iter()
        .filter_map(|it| it.strip_suffix("/README.md"))
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, libraries(), "the table of crates in README.md is not complete");
}

#[test]
fn every_library_is_in_the_picture_of_the_crates() {
    let picture = read(&root().join("book/chapters/pictures/crates.svg"));
    for library in libraries() {
        let label = format!(">{library}</text>");
        assert!(picture.contains(&label), "crates.svg does not show {library}");
    }
}

#[test]
fn the_front_page_of_the_api_documentation_links_every_chapter() {
    let front_page = front_page("graph-core");
    for chapter in files_in(&root().join("book/chapters"), "md") {
        let page = format!("(../book/{})", chapter.replace(".md", ".html"));
        let is_text = !matches!(&*chapter, "SUMMARY.md" | "introduction.md");
        assert!(!is_text || front_page.contains(&page), "graph-core/src/lib.rs must link {page}");
    }
}

#[test]
fn the_front_page_of_every_library_links_its_chapters() {
    let listed: BTreeSet<String> = CHAPTERS.iter().map(|it| it.0.to_owned()).collect();
    assert_eq!(listed, libraries(), "add the chapters of the library to CHAPTERS");
    for (library, chapters) in CHAPTERS {
        let front_page = front_page(library);
        for chapter in chapters {
            let link = format!("](../book/{chapter}.html");
            assert!(front_page.contains(&link), "{library}/src/lib.rs must link {chapter}.html");
        }
    }
}

#[test]
fn links_of_front_pages_to_the_book_resolve() {
    let chapters = files_in(&root().join("book/chapters"), "md");
    for library in libraries() {
        let page = front_page(&library);
        for link in page.split("](../book/").skip(1) {
            let file = link.split([')', '#']).next().unwrap().replace(".html", ".md");
            assert!(chapters.contains(&file), "{library}/src/lib.rs: no chapter {file}");
        }
    }
}

#[test]
fn the_program_of_the_readme_is_the_first_example() {
    let blocks = all_blocks();
    let is_program = |document: &str, language: &str| document == "README.md" && language == "rust";
    let program = blocks.iter().find(|it| is_program(&it.document, it.language())).unwrap();
    let example = read(&root().join("graph-core/examples/essay.rs"));
    let code = |text: &str| -> String {
        let is_code = |it: &&str| !it.starts_with("//") && !it.starts_with("#![");
        text.lines().filter(is_code).flat_map(str::split_whitespace).collect()
    };
    assert_eq!(code(&program.code), code(&example), "README.md and essay.rs differ");
}
