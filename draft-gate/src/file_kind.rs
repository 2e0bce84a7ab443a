//! The kind of a file, which decides how unquoted values are read.

/// Kind of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// Unquoted values are text, and a value ends with the line: YAML, INI and properties files.
    Settings,
    /// Unquoted values are text, and a value ends with a space: shell scripts, `.env` files and build files of images.
    Shell,
    /// Unquoted values are expressions.
    Code,
    /// Prose, and the text between the tags of markup.
    Prose,
}

/// Suffixes of templates and copies. The name without the suffix decides the kind.
const SUFFIXES: [&str; 10] =
    [".example", ".sample", ".dist", ".template", ".tmpl", ".tpl", ".j2", ".erb", ".bak", ".in"];

/// Extensions of files whose unquoted values are expressions.
const PROGRAMS: [&str; 96] = [
    "asm", "bas", "bicep", "c", "cc", "cjs", "clj", "cljs", "cob", "coffee", "cpp", "cr", "cs",
    "css", "csx", "cxx", "d", "dart", "el", "elm", "erl", "ex", "exp", "exs", "f90", "fs", "fsx",
    "go", "gradle", "graphql", "groovy", "h", "hcl", "hpp", "hrl", "hs", "ino", "ipynb", "java",
    "jl", "js", "json", "json5", "jsonc", "jsonl", "jsx", "kt", "kts", "less", "lisp", "lua", "m",
    "mjs", "ml", "mli", "mm", "mts", "nim", "nix", "pas", "php", "pl", "pm", "prisma", "proto",
    "pxd", "py", "pyi", "pyx", "r", "rb", "rkt", "rs", "s", "sbt", "sc", "scala", "scm", "scss",
    "sol", "sql", "sv", "svelte", "swift", "tcl", "tf", "ts", "tsx", "v", "vb", "vba", "vcl",
    "vue", "vy", "wat", "zig",
];

impl FileKind {
    pub(crate) fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let mut name = name.as_str();
        while let Some(inner) = SUFFIXES.iter().find_map(|it| name.strip_suffix(it)) {
            name = inner;
        }
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_environment = name.split(['.', '-', '_']).any(|it| it == "env" || it == "envrc");
        let is_image = ["dockerfile", "containerfile", "procfile", "makefile"];
        if is_environment || is_image.iter().any(|it| name.starts_with(it)) {
            return Self::Shell;
        }
        match extension {
            "sh" | "bash" | "zsh" | "ksh" | "csh" | "tcsh" | "fish" | "ps1" | "bat" | "cmd"
            | "service" | "mk" | "bashrc" | "zshrc" | "kshrc" | "cshrc" | "profile"
            | "bash_profile" | "bash_login" | "zprofile" | "zshenv" | "zlogin" => Self::Shell,
            "yaml" | "yml" | "ini" | "cfg" | "conf" | "config" | "properties" | "cnf"
            | "desktop" | "kubeconfig" | "toml" | "tfvars" | "ovpn" | "netrc" | "npmrc"
            | "yarnrc" | "pypirc" | "s3cfg" | "boto" | "gitconfig" | "pgpass" | "curlrc"
            | "wgetrc" | "condarc" | "gemrc" | "ldif" | "sls" | "reg" | "nmconnection"
            | "netdev" | "http" | "rest" => Self::Settings,
            "" if name.ends_with("rc")
                || ["credentials", "config", "kubeconfig", "_netrc"].contains(&name) =>
            {
                Self::Settings
            }
            _ if PROGRAMS.contains(&extension) => Self::Code,
            _ => Self::Prose,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_templates_do_not_change_the_kind() {
        for (path, expect) in [
            ("settings.ini.example", FileKind::Settings),
            ("config.yml.dist", FileKind::Settings),
            ("app.conf.template", FileKind::Settings),
            ("values.yaml.j2", FileKind::Settings),
            ("a/app.toml.sample.bak", FileKind::Settings),
            (".bashrc", FileKind::Shell),
            (".zshrc", FileKind::Shell),
            (".profile", FileKind::Shell),
            ("x.csh", FileKind::Shell),
            ("run.sh.in", FileKind::Shell),
            ("main.py.tpl", FileKind::Code),
            ("home/.npmrc", FileKind::Settings),
            (".aws/credentials", FileKind::Settings),
            (".kube/config", FileKind::Settings),
            ("login.http", FileKind::Settings),
            ("a.xml", FileKind::Prose),
            ("example", FileKind::Prose),
            ("mail.eml", FileKind::Prose),
            ("home/muttrc", FileKind::Settings),
            ("users.ldif", FileKind::Settings),
            ("main.tf", FileKind::Code),
        ] {
            assert_eq!(FileKind::of(path), expect, "{path}");
        }
    }
}
