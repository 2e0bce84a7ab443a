//! Distinguishes literal values from references to other values, paths, placeholders and types.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    random_text::is_generated,
    secret_words::{is_ordinary, is_placeholder, is_published_example},
};

/// Values that consist entirely of a reference to another value. Passwords may start with the same characters, so the
/// complete form is compared.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let forms = [
        // Variables: `$NAME`, `$config['x']`, `$this->name`, `$env:NAME`, `$USER-$HOST`.
        r"\$[A-Za-z_][\w.]*(?:\[[^\]]*\]|->\w+|:\w+|[-/:@.]?\$[A-Za-z_]\w*)*",
        // Fields to be filled in: `<password>`, `{name}`, `{{ name }}`, `%(name)s`, `%{name}`, `@{name}`.
        r"<[^<>]*>",
        r"\{.*\}",
        r"\{\s.*",
        r"%\(\w+\)s.*",
        r"[%@]\{[^{}]*\}.*",
        // Parameters of statements: `:name`, `:'name'`.
        r"::?'?[a-z_]\w*'?",
        // YAML tags: `!vault name`.
        r"!{1,2}[A-Za-z][\w:/.-]*\s.*",
        // Password hashes. Another rule detects them.
        r"\$(?:\d|2[abxy]|y|apr1|argon2\w*)\$.*",
        // Types and rules for validation: `string | null`, `required|min:8`.
        r"\??[A-Za-z_.<>\[\]]+(?::[\w,.]*)?(?:\s*\|\s*[A-Za-z_.<>\[\]]+(?::[\w,.]*)?)+",
        // Values encrypted by SOPS, Vault or Kubernetes sealed secrets.
        r"ENC\[[A-Z0-9_]+,.*\]",
        r"vault:v\d+:[A-Za-z0-9+/=]+",
        r"Ag[A-D][A-Za-z0-9+/]{200,}={0,2}",
        // Text in HTML: `&lt;password&gt;`.
        r"&(?:#x?[0-9A-Fa-f]+|lt|gt|quot|amp);.*",
        // Names of permissions: `s3:GetObject`.
        r"[a-z][a-z0-9-]{1,30}:(?:[A-Z][a-z]+)+\*?",
    ];
    Regex::new(&format!("^(?:{})$", forms.join("|"))).expect("a test compiles the pattern")
});

/// Replacement fields within a text, such as `{}`, `{name}` and `{name.field:>8}`.
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\s*(?:\w[\w.()\[\], :+<>=-]*(?:![a-z])?)?\s*\}")
        .expect("a test compiles the pattern")
});

/// Minimum number of digits for which a text such as `$ummer2024` counts as a password and not as a variable.
const MIN_DIGITS_OF_PASSWORD: usize = 3;

/// Returns whether a value is a literal: neither empty nor a reference to another value, a path, a placeholder, a type
/// or a validation rule.
pub(crate) fn is_literal(value: &str) -> bool {
    const REFERENCES: [&str; 2] = ["env:", "arn:"];
    const INNER_REFERENCES: [&str; 6] = ["${", "{{", "$(", "<%", "#{", "%s"];
    const PATHS: [&str; 10] =
        ["/", "%2F", ".%2F", "./", "../", "~/", "http://", "https://", "file:", "C:\\"];
    let is_variable = value.contains('_')
        && value.bytes().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_')
        && value.split('_').all(|it| it.len() < 20);
    let is_call = value.ends_with(')')
        && value.split_once('(').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'.')
        });
    !value.is_empty()
        && !REFERENCES.iter().any(|it| value.starts_with(it))
        && !INNER_REFERENCES.iter().any(|it| value.contains(it))
        && !is_reference(value)
        && !FIELD.is_match(value)
        && !is_path(value, &PATHS)
        && !is_variable
        && !is_call
        && !is_placeholder(value)
        && !is_published_example(value)
        && !is_ordinary(value)
}

/// Returns whether a value consists entirely of a reference to another value.
fn is_reference(value: &str) -> bool {
    let is_password = value.strip_prefix('$').is_some_and(|name| {
        let n_digits = name.bytes().filter(u8::is_ascii_digit).count();
        n_digits >= MIN_DIGITS_OF_PASSWORD && name.bytes().all(|it| it.is_ascii_alphanumeric())
    });
    !is_password && REFERENCE.is_match(value)
}

/// Returns whether a value is a path. Random text in base64 may start with a slash too.
fn is_path(value: &str, starts: &[&str]) -> bool {
    starts.iter().any(|it| value.starts_with(it)) && !(value.len() >= 30 && is_generated(value))
}
