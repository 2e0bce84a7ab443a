//! Checks of the table of contents, links, anchors and pictures.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::documents::{
    documents, files_in, links, markdown_files, members, normalized, prose, read, root,
};

/// Maximum number of lines of the README at the root.
const README_LINES: usize = 150;

/// Returns the anchors of the headings of a Markdown file, as GitHub and mdBook name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|it| it.starts_with('#'));
    headings.map(|it| anchor(it.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the chapters, as paths relative to the directory of the chapters.
fn chapters() -> BTreeSet<String> {
    let dir = root().join("book/chapters");
    let relative = |it: &PathBuf| it.strip_prefix(&dir).unwrap().to_str().unwrap().to_owned();
    let files: BTreeSet<String> = markdown_files(&dir).iter().map(relative).collect();
    files.into_iter().filter(|it| it != "SUMMARY.md").collect()
}

#[test]
fn relative_links_and_anchors_resolve() {
    let mut broken = String::new();
    for document in documents() {
        let text = read(&document);
        for link in links(&text) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => document.clone(),
                file => normalized(&document.parent().unwrap().join(file)),
            };
            let found = target.exists()
                && (fragment.is_empty() || anchors(&read(&target)).contains(fragment));
            if !found {
                broken += &format!("{}: {link}\n", document.display());
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{broken}");
}

#[test]
fn every_chapter_is_listed_and_tested() {
    let (book, chapters) = (root().join("book"), chapters());
    let listed: BTreeSet<String> =
        links(&read(&book.join("chapters/SUMMARY.md"))).into_iter().collect();
    assert_eq!(listed, chapters, "the table of contents, SUMMARY.md, must list every chapter");
    let tests = read(&book.join("lib.rs"));
    let tested: BTreeSet<String> = tests
        .lines()
        .filter_map(|it| it.trim().strip_prefix("chapter!("))
        .filter_map(|it| it.split('"').nth(1))
        .map(str::to_owned)
        .collect();
    assert_eq!(tested, chapters, "lib.rs must include every chapter");
}

#[test]
fn every_rust_block_is_compiled() {
    let tested = tested_documents();
    for document in documents() {
        let (text, name) = (read(&document), document.display());
        let fences: Vec<&str> = text.lines().filter(|it| it.trim().starts_with("```")).collect();
        let is_ignored = fences.iter().any(|it| it.contains("ignore"));
        assert!(!is_ignored, "{name} contains a block that no test compiles");
        let has_program = fences.iter().any(|it| it.contains("rust"));
        assert!(!has_program || tested.contains(&document), "include {name} in book/lib.rs");
    }
}

/// Returns the documents whose blocks are documentation tests: the chapters, and the files that crates include.
fn tested_documents() -> BTreeSet<PathBuf> {
    let chapters = chapters().into_iter().map(|it| root().join("book/chapters").join(it));
    let mut documents: BTreeSet<_> = chapters.collect();
    let libraries = members().into_iter().map(|it| root().join(it).join("src/lib.rs"));
    for library in libraries.chain([root().join("book/lib.rs")]).filter(|it| it.is_file()) {
        let (text, dir) = (read(&library), library.parent().unwrap());
        let files = text.split("include_str!(\"").skip(1).filter_map(|it| it.split('"').next());
        documents.extend(files.map(|it| normalized(&dir.join(it))));
    }
    documents
}

#[test]
fn chapters_link_only_to_files_of_the_book() {
    let dir = root().join("book/chapters");
    for chapter in chapters() {
        let path = dir.join(&chapter);
        for link in links(&read(&path)).iter().filter(|it| !it.starts_with("http")) {
            let file = link.split('#').next().unwrap();
            let target = normalized(&path.parent().unwrap().join(file));
            assert!(
                target.starts_with(&dir),
                "{chapter}: the rendered book does not contain {link}"
            );
        }
    }
}

#[test]
fn every_picture_is_used() {
    let chapters = root().join("book/chapters");
    let used: BTreeSet<String> = documents()
        .iter()
        .flat_map(|document| links(&read(document)))
        .filter_map(|it| it.split_once("pictures/").map(|it| it.1.to_owned()))
        .collect();
    for name in files_below(&chapters.join("pictures"), "") {
        assert!(used.contains(&name), "no document shows {name}");
    }
}

#[test]
fn drawings_have_a_title() {
    let pictures = root().join("book/chapters/pictures");
    let drawings = files_in(&pictures, "svg");
    for name in ["crates", "superstep", "checkpoints", "trust-zones", "trace-page"] {
        assert!(drawings.contains(&format!("{name}.svg")), "{name} is not an SVG");
    }
    for name in drawings {
        assert!(read(&pictures.join(&name)).contains("<title"), "{name} has no title");
    }
}

/// Returns the paths of all files in a directory and its subdirectories, each after `prefix`.
fn files_below(dir: &Path, prefix: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("the directory exists") {
        let entry = entry.expect("the directory can be read");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path(), &format!("{name}/")));
        } else {
            files.push(name);
        }
    }
    files
}

#[test]
fn the_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines, more than {README_LINES}");
}

#[test]
fn every_example_of_the_engine_is_in_the_feature_table() {
    let readme = read(&root().join("README.md"));
    for example in files_in(&root().join("graph-core/examples"), "rs") {
        let link = format!("(graph-core/examples/{example})");
        assert!(readme.contains(&link), "README.md does not mention the example {example}");
    }
}

#[test]
fn every_row_of_the_feature_table_has_a_chapter_and_an_example() {
    let readme = read(&root().join("README.md"));
    let features = readme.split("\n## Features\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = features.lines().filter(|it| it.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 20, "the feature table is incomplete: {rows:#?}");
    for row in rows {
        let links = links(row);
        let leads_to = |part: &str| links.iter().any(|it| it.contains(part));
        assert!(leads_to("book/chapters/"), "no chapter: {row}");
        assert!(leads_to("/examples/"), "no example: {row}");
    }
}

#[test]
fn anchors_follow_the_rules_of_mdbook() {
    let text = "# Nodes, edges, routes\n```sh\n# a comment\n```\n## What `compile` checks\n";
    assert_eq!(
        anchors(text),
        BTreeSet::from(["nodes-edges-routes", "what-compile-checks"].map(str::to_owned))
    );
}
