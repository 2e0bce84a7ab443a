//! Reads the API keys and addresses of providers from the file `.env` in the working directory.
//!
//! Only variables that this program uses are read. The author of a directory must not be able to decide which code
//! the program loads (`LD_PRELOAD`), which proxy it uses (`HTTPS_PROXY`) or which certificates it trusts
//! (`SSL_CERT_FILE`).
//!
//! A process can only change its environment safely by executing itself again. If the file contains a variable that
//! is not set, the program replaces itself with a new instance in which all variables are set.

use std::{
    env, ffi::OsString, fs, io, os::unix::process::CommandExt, path::Path, process::Command,
};

use app_support::files::FileError;

use crate::{args::API_KEY, error::CliError};

/// Environment variables of a provider, as read by the crate `llm`: API keys and addresses.
struct Variables {
    keys: &'static [&'static str],
    addresses: &'static [&'static str],
}

const PROVIDERS: [Variables; 7] = [
    Variables { keys: &["ANTHROPIC_API_KEY"], addresses: &["ANTHROPIC_BASE_URL"] },
    Variables { keys: &["OPENAI_API_KEY"], addresses: &["OPENAI_BASE_URL"] },
    Variables { keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"], addresses: &["GOOGLE_BASE_URL"] },
    Variables { keys: &["GROQ_API_KEY"], addresses: &["GROQ_BASE_URL"] },
    Variables { keys: &["OPENROUTER_API_KEY"], addresses: &["OPENROUTER_BASE_URL"] },
    Variables { keys: &["OLLAMA_API_KEY"], addresses: &["OLLAMA_BASE_URL", "OLLAMA_HOST"] },
    Variables { keys: &["OPENAI_COMPATIBLE_API_KEY"], addresses: &["OPENAI_COMPATIBLE_BASE_URL"] },
];

/// Loads the variables in `.env`. If any of them is unset, replaces this process with a new execution of the program
/// that has them set; otherwise returns. Variables that are already set keep their values.
pub(crate) fn load() -> Result<(), CliError> {
    let path = Path::new(".env");
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // Ignore a directory, because Python virtual environments are often named `.env`.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Ok(()),
        read => read.map_err(FileError::at(path))?,
    };
    let added = added(&String::from_utf8_lossy(&bytes), &|name| env::var_os(name))?;
    if added.is_empty() {
        return Ok(());
    }
    let mut args = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    Err(CliError::Restart(command.args(args).envs(added).exec()))
}

/// Returns the variables that the file adds to the environment. Fails if an API key from the environment would be sent
/// to an address from the file, because someone else may have written the file.
fn added(
    text: &str,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<(&'static str, String)>, CliError> {
    let mut added = variables(text)?;
    added.retain(|it| environment(it.name).is_none() && !it.value.is_empty());
    let is_set = |key: &&str| environment(key).is_some_and(|it| !it.is_empty());
    for Variable { line, name, .. } in &added {
        let provider = PROVIDERS.iter().find(|it| it.addresses.contains(name));
        if let Some(key) = provider.and_then(|it| it.keys.iter().copied().find(is_set)) {
            return Err(CliError::KeyToFileAddress { line: *line, address: name, key });
        }
    }
    Ok(added.into_iter().map(|it| (it.name, it.value)).collect())
}

/// A variable in the file that this program uses.
struct Variable {
    line: usize,
    name: &'static str,
    value: String,
}

/// Parses the lines of the form `NAME=value` whose names are known. Allows quoted values and a leading `export`.
fn variables(text: &str) -> Result<Vec<Variable>, CliError> {
    let mut found = Vec::new();
    for (idx, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let is_of_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let (name, rest) = line.split_at(line.find(|it| !is_of_name(it)).unwrap_or(line.len()));
        let Some(name) = known(name) else { continue };
        let value = rest.trim_start().strip_prefix('=').and_then(|it| unquote(it.trim()));
        // The error does not quote the line, which may contain a secret.
        let value = value.filter(|it| !it.contains('\0')).ok_or(CliError::DotEnv(idx + 1))?;
        found.push(Variable { line: idx + 1, name, value: value.to_owned() });
    }
    Ok(found)
}

fn known(name: &str) -> Option<&'static str> {
    let of_providers = PROVIDERS.iter().flat_map(|it| it.keys.iter().chain(it.addresses));
    of_providers.copied().chain([API_KEY]).find(|it| *it == name)
}

/// Removes the quotes around a value. Returns `None` if the quotes are not closed.
fn unquote(value: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote) {
            return inner.split_once(quote).map(|it| it.0);
        }
    }
    // A comment must follow a space, because an API key may contain `#`.
    Some(value.split(" #").next().unwrap_or(value).trim_end())
}

#[cfg(test)]
mod tests {
    use super::{added, known};

    /// Returns the variables that a file with this text adds to the given environment.
    fn of(text: &str, environment: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>, String> {
        let value = |name: &str| environment.iter().find(|it| it.0 == name).map(|it| it.1.into());
        added(text, &value).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_parsed() {
        let text = "\u{feff}# keys\nGROQ_API_KEY=1\nexport OPENAI_API_KEY = 'x # y' # why\n\n\
            GEMINI_API_KEY=\"a=b\"\nANTHROPIC_API_KEY=k#ey # a comment\r\nOLLAMA_API_KEY=\n";
        let pairs = of(text, &[]).unwrap();
        let pairs: Vec<_> = pairs.iter().map(|it| (it.0, &*it.1)).collect();
        let wanted = [
            ("GROQ_API_KEY", "1"),
            ("OPENAI_API_KEY", "x # y"),
            ("GEMINI_API_KEY", "a=b"),
            ("ANTHROPIC_API_KEY", "k#ey"),
        ];
        assert_eq!(pairs, wanted);
        assert_eq!(of(text, &[("GROQ_API_KEY", "")]).unwrap().len(), 3);
        for wrong in ["GROQ_API_KEY secret", "GROQ_API_KEY='secret", "GROQ_API_KEY: secret"] {
            let error = of(&format!("A=1\n{wrong}"), &[]).unwrap_err();
            assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn unknown_variables_are_ignored() {
        let text = "LD_PRELOAD=./x.so\nHTTPS_PROXY=http://evil\nSSL_CERT_FILE=x\nDOCKER_HOST=x\nPATH=.\n\
            no-name.of=ours\nwords\nPEM=\"-----BEGIN\nAAAA==\n-----END\"\nMY_GROQ_API_KEY=x\nGROQ_API_KEY=1\n";
        assert_eq!(of(text, &[]).unwrap(), [("GROQ_API_KEY", "1".to_owned())]);
    }

    #[test]
    fn keys_from_the_environment_are_not_sent_to_addresses_from_the_file() {
        for (address, key) in [
            ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
            ("GOOGLE_BASE_URL", "GOOGLE_API_KEY"),
            ("GOOGLE_BASE_URL", "GEMINI_API_KEY"),
            ("OLLAMA_HOST", "OLLAMA_API_KEY"),
            ("OPENAI_COMPATIBLE_BASE_URL", "OPENAI_COMPATIBLE_API_KEY"),
        ] {
            let line = format!("\n{address}=http://evil");
            // Loading fails even if the file contains a key too, because the key from the environment would be used.
            for text in [line.clone(), format!("{line}\n{key}=theirs")] {
                let error = of(&text, &[(key, "mine")]).unwrap_err();
                assert!(error.starts_with(&format!("line 2 of .env sets {address}")), "{error}");
                assert!(error.contains(key) && !error.contains("mine"), "{error}");
            }
            // Loading succeeds if the file contains both the address and the key, if the environment has no key for
            // the provider, or if the environment contains both.
            assert_eq!(of(&format!("{line}\n{key}=theirs"), &[]).unwrap().len(), 2);
            assert_eq!(of(&line, &[(key, ""), ("GROQ_API_KEY", "mine")]).unwrap().len(), 1);
            assert_eq!(of(&line, &[(key, "mine"), (address, "http://mine")]).unwrap(), []);
        }
    }

    #[test]
    fn variables_match_those_of_the_providers() {
        for name in ["anthropic", "openai", "google", "groq", "openrouter"] {
            // Providers whose key is set in the environment are not tested.
            let Err(error) = llm::Provider::new(name).unwrap().build() else { continue };
            let llm::SetupError::NoKey { variables, .. } = error else { panic!("{error}") };
            assert!(variables.split(" or ").all(|it| known(it).is_some()), "{variables}");
        }
        assert!(known("AGENT_SANDBOX_API_KEY").is_some() && known("HTTPS_PROXY").is_none());
    }
}
