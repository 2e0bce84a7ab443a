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
    /// Text for people.
    Prose,
}

impl FileKind {
    pub(crate) fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_environment = name.split(['.', '-', '_']).any(|it| it == "env" || it == "envrc");
        let is_image = ["dockerfile", "containerfile", "procfile", "makefile"];
        if is_environment || is_image.iter().any(|it| name.starts_with(it)) {
            return Self::Shell;
        }
        match extension {
            "sh" | "bash" | "zsh" | "ksh" | "fish" | "ps1" | "bat" | "cmd" | "service" | "mk" => {
                Self::Shell
            }
            "yaml" | "yml" | "ini" | "cfg" | "conf" | "config" | "properties" | "cnf"
            | "desktop" | "kubeconfig" | "toml" | "tfvars" | "ovpn" | "netrc" => Self::Settings,
            "md" | "markdown" | "txt" | "rst" | "adoc" | "html" | "htm" | "tex" | "org" | "log"
            | "" => Self::Prose,
            _ => Self::Code,
        }
    }
}
