//! Files that workers may neither read nor change: those of tools and of the gate, and those with credentials.

/// Directories that workers may not access, at any depth.
const PROTECTED_DIRS: [&str; 17] = [
    ".git", ".hg", ".svn", ".jj", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".oci", ".kube",
    ".docker", ".terraform.d", ".password-store", ".vault", ".codex", "_handoff",
];

/// Names of files that contain credentials.
const CREDENTIAL_FILES: [&str; 26] = [
    ".my.cnf", ".mylogin.cnf", ".claude.json", "kubeconfig", "authinfo", ".authinfo", "wallet.dat",
    "id_ecdsa_sk", "id_ed25519_sk", "service-account.json", ".vault-token", ".s3cfg", ".boto",
    "terraform.tfstate", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd",
    ".git-credentials", ".dockercfg", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
];

/// Extensions of files that contain cryptographic keys or credentials.
const KEY_EXTENSIONS: [&str; 17] = [
    ".pem", ".key", ".p12", ".p8", ".pfx", ".jks", ".keystore", ".keytab", ".kdbx", ".kdb", ".ppk",
    ".asc", ".agekey", ".ovpn", ".kubeconfig", ".tfvars", ".tfstate",
];

/// Suffixes that mark backup copies.
const BACKUP_SUFFIXES: [&str; 7] = ["~", ".bak", ".old", ".orig", ".save", ".swp", ".copy"];

/// Words that indicate credentials if they occur in the name of a data file. Source files may have such names.
const CREDENTIAL_WORDS: [&str; 6] =
    ["secret", "secrets", "credential", "credentials", "password", "passwords"];

/// Extensions of data files.
const DATA_EXTENSIONS: [&str; 13] = [
    "", "json", "yaml", "yml", "toml", "ini", "cfg", "conf", "txt", "xml", "properties", "csv",
    "enc",
];

/// Returns why workers may not access files with this path component, or `None` if they may.
pub(crate) fn reason_for_protection(component: &str) -> Option<&'static str> {
    let name = component.to_lowercase();
    if PROTECTED_DIRS.contains(&name.as_str()) {
        return Some("it is in a directory that belongs to a tool or to the gate");
    }
    let name = strip_backup_suffixes(&name);
    let is_env = name.starts_with(".env") || name.ends_with(".env") || name == ".flaskenv";
    if is_env
        || CREDENTIAL_FILES.contains(&name)
        || KEY_EXTENSIONS.iter().any(|it| name.ends_with(it))
    {
        return Some("files of this kind contain credentials");
    }
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let mut words = name.split(|it: char| !it.is_alphanumeric());
    let is_data = DATA_EXTENSIONS.contains(&ending) || CREDENTIAL_WORDS.contains(&ending);
    (is_data && words.any(|it| CREDENTIAL_WORDS.contains(&it)))
        .then_some("files with this name contain credentials")
}

/// Strips backup suffixes, because a copy is as sensitive as its original.
fn strip_backup_suffixes(mut name: &str) -> &str {
    while let Some(inner) = BACKUP_SUFFIXES.iter().find_map(|it| name.strip_suffix(it)) {
        name = inner;
    }
    name
}
