//! Checks that the files of a crate do not import each other in a cycle.
//!
//! A file imports another file if a path in it names an item of that file. Re-exports are followed to the file that
//! defines the item. `mod` declarations are not imports.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use petgraph::{algo::tarjan_scc, graph::DiGraph};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

#[test]
fn no_crate_has_import_cycles() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    let members = manifest.split("\nmembers = [").nth(1).unwrap().split(']').next().unwrap();
    let mut cycles = String::new();
    for package in members.split('"').skip(1).step_by(2) {
        let roots = crate_roots(&workspace.join(package));
        cycles.extend(roots.iter().map(|it| Crate::read(it).cycles(workspace)));
    }
    assert!(cycles.is_empty(), "\n{cycles}");
}

#[test]
fn cycles_are_found_through_reexports_and_inline_modules() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; pub use b::B;");
    write("a.rs", "use crate::{B, c}; pub struct A(B); fn f() { c::g() }");
    write("b.rs", "pub struct B; mod tests { use super::B; fn f() -> crate::a::A { loop {} } }");
    write("c.rs", "//! See crate::a::A.\n pub fn g() {}");
    let expected = "import cycle of 2 files:\n  a.rs uses B of b.rs\n  b.rs uses A of a.rs\n";
    assert_eq!(Crate::read(&dir.path().join("lib.rs")).cycles(dir.path()), expected);
}

/// Returns the root files of all crates in a package: its library, programs, tests, examples and benchmarks.
fn crate_roots(package: &Path) -> Vec<PathBuf> {
    let mut roots = ["lib.rs", "src/lib.rs", "src/main.rs"].map(|it| package.join(it)).to_vec();
    for dir in ["src/bin", "tests", "examples", "benches"] {
        for entry in fs::read_dir(package.join(dir)).into_iter().flatten() {
            let path = entry.unwrap().path();
            roots.push(if path.is_dir() { path.join("main.rs") } else { path });
        }
    }
    roots.retain(|it| it.is_file() && it.extension().is_some_and(|it| it == "rs"));
    roots.sort();
    roots
}

/// The segments of a path.
type Segments = Vec<String>;

/// Keywords that precede the name of an item.
const ITEMS: [&str; 8] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];

/// The modules of a crate, by their paths from the crate's root.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Segments, Module>,
    /// The files that define macros.
    macros: BTreeMap<String, PathBuf>,
}

/// A module, which is a file or a part of a file.
#[derive(Default)]
struct Module {
    file: PathBuf,
    items: BTreeSet<String>,
    /// The imported paths, by the names that they have in this module.
    imports: BTreeMap<String, Segments>,
    /// All paths in this module.
    paths: Vec<Segments>,
}

impl Crate {
    fn read(root: &Path) -> Self {
        let mut this = Self::default();
        this.read_file(&[], root, root.parent().unwrap());
        this
    }

    /// Reads the module in a file. The files of its submodules are in `dir`.
    fn read_file(&mut self, module: &[String], file: &Path, dir: &Path) {
        let text = fs::read_to_string(file).unwrap();
        self.read_module(module, file, dir, text.parse().unwrap());
    }

    fn read_module(&mut self, module: &[String], file: &Path, dir: &Path, tokens: TokenStream) {
        self.modules.insert(module.into(), Module { file: file.into(), ..Module::default() });
        self.read_tokens(module, dir, tokens);
    }

    fn read_tokens(&mut self, module: &[String], dir: &Path, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let text = |at: usize| match tokens.get(at) {
            None | Some(TokenTree::Group(_)) => String::new(),
            Some(token) => token.to_string(),
        };
        let mut path_attribute = None;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Group(group) => {
                    if at > 0 && text(at - 1) == "#" {
                        let content = group.stream().to_string();
                        let path = content.strip_prefix("path = \"").map(|it| it.replace('"', ""));
                        path_attribute = path.or(path_attribute);
                    }
                    self.read_tokens(module, dir, group.stream());
                }
                TokenTree::Ident(word) if word == "mod" && text(at + 1) != "$" => {
                    let name = text(at + 1);
                    if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                        let (file, inner) = (self.module(module).file.clone(), join(module, &name));
                        self.read_module(&inner, &file, &dir.join(name), body.stream());
                    } else {
                        self.read_submodule(module, dir, &name, path_attribute.take());
                    }
                    at += 2;
                }
                TokenTree::Ident(word) if word == "use" && text(at + 1) != "<" => {
                    let tree = tokens[at + 1..].split(|it| it.to_string() == ";").next();
                    let tree = tree.unwrap_or_default();
                    self.module(module).add_imports(tree, &[]);
                    at += tree.len();
                }
                TokenTree::Ident(word) if word == "macro_rules" => {
                    let file = self.module(module).file.clone();
                    self.macros.insert(text(at + 2), file);
                }
                TokenTree::Ident(word) if ITEMS.contains(&word.to_string().as_str()) => {
                    self.module(module).items.insert(text(at + 1));
                }
                TokenTree::Ident(word) => {
                    let mut path = vec![word.to_string()];
                    while text(at + 1) == ":" && text(at + 2) == ":" {
                        path.push(text(at + 3));
                        at += 3;
                    }
                    if path.len() > 1 {
                        self.module(module).paths.push(path);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn read_submodule(&mut self, module: &[String], dir: &Path, name: &str, path: Option<String>) {
        let inner = join(module, name);
        let (file, dir) = (dir.join(name).with_extension("rs"), dir.join(name));
        match path {
            Some(path) => {
                let file = self.module(module).file.with_file_name(path);
                self.read_file(&inner, &file, file.parent().unwrap());
            }
            None if file.is_file() => self.read_file(&inner, &file, &dir),
            None => self.read_file(&inner, &dir.join("mod.rs"), &dir),
        }
    }

    fn module(&mut self, path: &[String]) -> &mut Module {
        self.modules.get_mut(path).unwrap()
    }

    /// Returns the file and the name of the item that a path in a module names. Returns `None` for modules and for
    /// items of other crates.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<(&Path, String)> {
        let has_module = |at: &[String], name| self.modules.contains_key(&join(at, name));
        let (first, rest) = path.split_first()?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (vec![], rest),
            "self" => (module.to_vec(), rest),
            "super" => {
                let parents = path.iter().take_while(|it| *it == "super").count();
                (module[..module.len().checked_sub(parents)?].to_vec(), &path[parents..])
            }
            _ if has_module(module, first) => (module.to_vec(), path),
            _ => {
                let import =
                    self.modules[module].imports.get(first).filter(|it| it[0] != *first)?;
                return self.resolve(module, &[import, rest].concat());
            }
        };
        while let Some((name, inner)) = rest.split_first() {
            let found = &self.modules[&at];
            match found.imports.get(name) {
                _ if has_module(&at, name) => at.push(name.clone()),
                Some(import) if !found.items.contains(name) => {
                    return self.resolve(&at, &[import, inner].concat());
                }
                _ => {
                    let exported = self.macros.get(name).filter(|_| at.is_empty());
                    return Some((exported.unwrap_or(&found.file), name.clone()));
                }
            }
            rest = inner;
        }
        None
    }

    /// Describes the import cycles. Files are named relative to `base`.
    fn cycles(&self, base: &Path) -> String {
        let mut imports: BTreeMap<(&Path, &Path), BTreeSet<String>> = BTreeMap::new();
        for (path, module) in &self.modules {
            for used in &module.paths {
                if let Some((file, name)) = self.resolve(path, used)
                    && file != module.file
                {
                    imports.entry((&module.file, file)).or_default().insert(name);
                }
            }
        }
        let mut files: Vec<_> = self.modules.values().map(|it| it.file.as_path()).collect();
        files.sort();
        files.dedup();
        let index = |file: &Path| files.binary_search(&file).unwrap() as u32;
        let edges = imports.keys().map(|(from, to)| (index(from), index(to)));
        let mut text = String::new();
        for cycle in tarjan_scc(&DiGraph::<(), ()>::from_edges(edges)) {
            let is_inside = |it: &Path| cycle.iter().any(|node| node.index() as u32 == index(it));
            if cycle.len() == 1 {
                continue;
            }
            writeln!(text, "import cycle of {} files:", cycle.len()).unwrap();
            for ((from, to), names) in &imports {
                if is_inside(from) && is_inside(to) {
                    let names = names.iter().cloned().collect::<Vec<_>>().join(", ");
                    let [from, to] = [from, to].map(|it| it.strip_prefix(base).unwrap().display());
                    writeln!(text, "  {from} uses {names} of {to}").unwrap();
                }
            }
        }
        text
    }
}

fn join(module: &[String], name: &str) -> Segments {
    [module, &[name.to_owned()]].concat()
}

impl Module {
    /// Adds the paths of a `use` tree.
    fn add_imports(&mut self, tokens: &[TokenTree], prefix: &[String]) {
        for tree in tokens.split(|it| it.to_string() == ",") {
            let (mut path, mut alias) = (prefix.to_vec(), None);
            let mut tokens = tree.iter();
            while let Some(token) = tokens.next() {
                match token {
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                        let inner: Vec<_> = group.stream().into_iter().collect();
                        self.add_imports(&inner, &path);
                        path.clear();
                    }
                    TokenTree::Ident(word) if word == "as" => {
                        alias = tokens.next().map(ToString::to_string);
                    }
                    TokenTree::Punct(it) if it.as_char() == ':' => {}
                    word => path.push(word.to_string()),
                }
            }
            if path.len() > 1 && path.last().is_some_and(|it| it == "self") {
                path.pop();
            }
            if let Some(name) = alias.or_else(|| path.last().cloned()) {
                self.imports.insert(name, path.clone());
                self.paths.push(path);
            }
        }
    }
}
