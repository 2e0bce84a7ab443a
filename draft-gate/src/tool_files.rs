//! Files that tools execute, and files that configure tools. A person reviews changes to them.
//!
//! There are too many tools to list all their files. Therefore this module covers all files whose path has a component
//! that starts with a dot, and all new files that can be executed. `data/tool_files.toml` lists the names of other
//! files.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{path::WorkspacePath, pattern::matches_name};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFiles {
    /// Patterns of names. Every change to such a file is reviewed.
    always_reviewed: Vec<String>,
    /// Patterns of names. Only new files are reviewed.
    when_new: Vec<String>,
    /// Extensions of new files that are reviewed.
    executable_extensions: Vec<String>,
}

static TOOL_FILES: LazyLock<ToolFiles> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/tool_files.toml")).expect("a test parses the list")
});

/// Returns why a person must review a change to the file, or `None` if no tool executes it or is configured by it.
/// `new_text` is the content of a new file, and `None` if the file exists.
pub(crate) fn reason_for_review(
    path: &WorkspacePath,
    new_text: Option<&str>,
) -> Option<&'static str> {
    let path = path.as_str().to_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let is_listed =
        |patterns: &[String], name: &str| patterns.iter().any(|it| matches_name(it, name));
    if path.split('/').any(|it| it.starts_with('.')) {
        return Some("tools read files whose names start with a dot");
    }
    if path.split('/').any(|it| is_listed(&TOOL_FILES.always_reviewed, it)) {
        return Some("tools execute or follow files with this name");
    }
    let new_text = new_text?;
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let is_executable = new_text.trim_start_matches('\u{feff}').starts_with("#!")
        || extension
            .is_some_and(|it| TOOL_FILES.executable_extensions.iter().any(|known| it == known));
    if is_executable {
        return Some("the new file can be executed");
    }
    is_listed(&TOOL_FILES.when_new, name).then_some("build tools execute files with this name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(path: &str, new_text: Option<&str>) -> Option<&'static str> {
        reason_for_review(&WorkspacePath::parse(path).unwrap(), new_text)
    }

    #[test]
    fn changes_to_existing_dot_files_and_instructions_are_reviewed() {
        for path in [
            ".github/workflows/ci.yml", ".vscode/settings.json", ".cursorrules", ".unknown-tool",
            "a/.zed/settings.json", ".pre-commit-config.yaml", "x/.dir/y.txt", ".editorconfig",
            "AGENTS.md", "docs/CLAUDE.md", "sub/GEMINI.md", "CLAUDE.local.md", "SKILL.md",
            "x.instructions.md", "rules/style.mdc", "app.code-workspace", "Jenkinsfile",
            "conftest.py", "sitecustomize.py", "githooks/run", "mcp.json", "llms.txt",
            "lefthook.yml", "AGENTS.override.md", "agents.yaml", "copilot-setup.yml",
            "units/app.socket", "etc/cron.d/backup", "etc/sudoers.local", "fly.toml",
            ".windsurfrules", ".aider.conf.yml", ".mcp.json", ".devcontainer/devcontainer.json",
            ".gitattributes", ".npmrc", ".envrc", "AIDER.md", "docs/CODEOWNERS",
            "native/binding.gyp", "mise.toml", "hooks/reference-transaction", "lib/libx-gdb.py",
            "etc/udev/90-usb.rules", "etc/profile.d/path.txt", "lib/evil.pth",
            "web/node_modules/left/index.js", "venv/lib/site-packages/x.py", "dotfiles/zshrc",
            "dotfiles/gitconfig", "ci/build.gitlab-ci.yml", "AMAZONQ.md", "review.skill.md",
            "rust-project.json", "nvim/init.lua", "deb/postinst", "config.nims", "pylintrc",
        ] {
            assert!(reason(path, None).is_some(), "{path}");
            assert!(reason(path, Some("x")).is_some(), "{path}");
        }
    }

    #[test]
    fn executable_and_build_files_are_reviewed_if_they_are_new() {
        for path in [
            "Makefile", "run.sh", "a/b.ps1", "package.json", "vite.config.ts", "Dockerfile.dev",
            "setup.py", "build.rs", "x.BAT", "flake.nix", "compose.yaml", "justfile",
            "app/lib.gradle.kts", "a.gemspec", "x.fsproj", "karma.conf.js", "gunicorn.conf.py",
            "babel.config.json", "gradle-wrapper.properties", "Snakefile", "net.tf.json",
            "kustomization.yml", "requirements-dev.txt", "Pipfile", "tsconfig.build.json",
            "buf.gen.yaml", "docs/conf.py", "book.toml", "mypy.ini", "build.js", "x.webloc",
            "a.nimble", "pip.conf", "PKGBUILD",
        ] {
            assert_eq!(reason(path, None), None, "{path}");
            assert!(reason(path, Some("x")).is_some(), "{path}");
        }
        assert!(reason("tool", Some("#!/bin/sh\n")).is_some());
        assert!(reason("tool.py", Some("\u{feff}#!/usr/bin/env python3\n")).is_some());
    }

    #[test]
    fn ordinary_files_are_not_reviewed() {
        for path in [
            "src/main.py", "README.md", "docs/guide.md", "src/lib.rs", "a.b/c.txt", "data/x.json",
            "src/agent.py", "llm/gemini.rs", "src/rules.rs", "docs/requirements.md",
            "src/tools.py",
        ] {
            assert_eq!(reason(path, Some("x = 1  #!\n")), None, "{path}");
        }
    }
}
