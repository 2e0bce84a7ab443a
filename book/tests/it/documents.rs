//! The Markdown files of the repository and their parts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

/// Names of directories whose files are not written by hand.
const GENERATED: [&str; 3] = ["dist", "node_modules", "target"];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the path of a file relative to the root.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()
}

/// Returns all Markdown files of the repository.
pub(crate) fn documents() -> Vec<PathBuf> {
    markdown_files(&root())
}

pub(crate) fn markdown_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let is_generated = name.starts_with('.') || GENERATED.contains(&name.as_str());
        if entry.file_type().unwrap().is_dir() && !is_generated {
            files.extend(markdown_files(&path));
        } else if name.ends_with(".md") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the members of the workspace.
pub(crate) fn members() -> Vec<String> {
    let manifest = read(&root().join("Cargo.toml"));
    let members = manifest.split("\nmembers = [").nth(1).unwrap().split(']').next().unwrap();
    members.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the lines of a Markdown file outside fenced code blocks.
pub(crate) fn prose(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let outside = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    };
    text.lines().filter(outside).collect()
}

/// Returns the targets of all links and pictures of a Markdown file.
pub(crate) fn links(text: &str) -> Vec<String> {
    let mut targets = vec![];
    for line in prose(text) {
        // Remove inline code: after splitting at backquotes, it is every second part.
        let line: String = line.split('`').step_by(2).collect();
        let ends = line.split("](").skip(1);
        targets.extend(ends.filter_map(|it| it.split_once(')')).map(|it| it.0.to_owned()));
    }
    targets
}

/// A fenced code block.
#[derive(Debug)]
pub(crate) struct Block {
    /// Path of the document relative to the root.
    pub(crate) document: String,
    /// The heading above the block, without the number signs.
    pub(crate) heading: String,
    /// The language and the attributes, such as `rust,no_run`.
    pub(crate) info: String,
    pub(crate) code: String,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.split(',').next().unwrap()
    }

    /// Returns the document and the heading, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}, below `{}`", self.document, self.heading)
    }
}

/// Returns the fenced code blocks of all documents.
pub(crate) fn all_blocks() -> Vec<Block> {
    documents().iter().flat_map(|it| blocks(&relative(it), &read(it))).collect()
}

fn blocks(document: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = vec![];
    let (mut heading, mut is_open) = ("", false);
    for line in text.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(info) => {
                is_open = true;
                blocks.push(Block {
                    document: document.to_owned(),
                    heading: heading.to_owned(),
                    info: info.trim().to_owned(),
                    code: String::new(),
                });
            }
            None if is_open => {
                blocks.last_mut().unwrap().code += &format!("{line}\n");
            }
            None if line.starts_with('#') => heading = line.trim_start_matches('#').trim(),
            None => {}
        }
    }
    blocks
}

/// Resolves `..` in a path without following symbolic links.
pub(crate) fn normalized(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(result.pop()),
            part => result.push(part),
        }
    }
    result
}

/// Returns the names of the files in a directory that have this extension.
pub(crate) fn files_in(dir: &Path, extension: &str) -> BTreeSet<String> {
    let paths = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    let files = paths.filter(|it| it.extension().is_some_and(|it| it == extension));
    files.map(|it| it.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn links_in_code_are_not_links() {
    let text = "See [a](a.md#x) and `[b](b.md)`.\n```text\n[c](c.md)\n```\n![d](d.svg)\n";
    assert_eq!(links(text), ["a.md#x", "d.svg"]);
}

#[test]
fn blocks_have_headings_and_attributes() {
    let text = "# One\n```sh\n# a comment\n```\n## Two\n```rust,no_run\nfn main() {}\n```\n";
    let found = blocks("a.md", text);
    let found: Vec<_> = found.iter().map(|it| (&*it.heading, it.language(), &*it.code)).collect();
    assert_eq!(found, [("One", "sh", "# a comment\n"), ("Two", "rust", "fn main() {}\n")]);
}
