//! The file `.env` of the folder the program is started in: keys and addresses of providers.
//!
//! Only what this program asks for by name is taken from it. The rest is for others, and must not reach this one: whoever
//! wrote a folder that somebody starts the program in is not to decide what code it loads (`LD_PRELOAD`), through whom it
//! speaks (`HTTPS_PROXY`) or whom it trusts (`SSL_CERT_FILE`).
//!
//! A process's environment can only be changed safely by starting it with another one. So where the file holds a
//! variable that is not set, the program starts itself once more, in its own place. Then all are set, and it goes on.

use std::{
    env, ffi::OsString, fs, io, os::unix::process::CommandExt, path::Path, process::Command,
};

use crate::{
    args::API_KEY,
    problem::{Problem, with},
};

/// A provider's variables, as `llm` reads them: where its key is, and where its address is.
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

/// Comes back when everything that is wanted of the file is set; variables that were set before keep their values.
pub(crate) fn enter() -> Result<(), Problem> {
    let path = Path::new(".env");
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // Virtual environments have this name, too.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Ok(()),
        read => read.map_err(with(path))?,
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
    Err(Problem::Environment(command.args(args).envs(added).exec()))
}

/// What a file adds to the environment that is outside of it. A key from there is not sent to an address from the file:
/// whoever wrote that may not be the one whose key it is.
fn added(
    text: &str,
    outside: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<(&'static str, String)>, Problem> {
    let mut added = variables(text)?;
    added.retain(|it| outside(it.name).is_none() && !it.value.is_empty());
    let is_set = |key: &&str| outside(key).is_some_and(|it| !it.is_empty());
    for Variable { line, name, .. } in &added {
        let provider = PROVIDERS.iter().find(|it| it.addresses.contains(name));
        if let Some(key) = provider.and_then(|it| it.keys.iter().copied().find(is_set)) {
            return Err(Problem::Diverted { line: *line, address: name, key });
        }
    }
    Ok(added.into_iter().map(|it| (it.name, it.value)).collect())
}

/// A variable of the file that this program reads.
struct Variable {
    line: usize,
    name: &'static str,
    value: String,
}

/// The lines of `NAME=value` whose names are wanted. A value may stand in quotes, and `export` before a name.
fn variables(text: &str) -> Result<Vec<Variable>, Problem> {
    let mut found = Vec::new();
    for (idx, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let is_of_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let (name, rest) = line.split_at(line.find(|it| !is_of_name(it)).unwrap_or(line.len()));
        let Some(name) = known(name) else { continue };
        let value = rest.trim_start().strip_prefix('=').and_then(|it| unquoted(it.trim()));
        // The line itself may hold a secret, so it is not shown.
        let value = value.filter(|it| !it.contains('\0')).ok_or(Problem::DotEnv(idx + 1))?;
        found.push(Variable { line: idx + 1, name, value: value.to_owned() });
    }
    Ok(found)
}

fn known(name: &str) -> Option<&'static str> {
    let of_providers = PROVIDERS.iter().flat_map(|it| it.keys.iter().chain(it.addresses));
    of_providers.copied().chain([API_KEY]).find(|it| *it == name)
}

/// A value without its quotes; nothing where they are not closed.
fn unquoted(value: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote) {
            return inner.split_once(quote).map(|it| it.0);
        }
    }
    // A comment needs a blank before it: a key may hold the sign.
    Some(value.split(" #").next().unwrap_or(value).trim_end())
}

#[cfg(test)]
mod tests {
    use super::{added, known};

    /// What a file adds to an environment of these variables.
    fn of(text: &str, outside: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>, String> {
        let value = |name: &str| outside.iter().find(|it| it.0 == name).map(|it| it.1.into());
        added(text, &value).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_variables() {
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
    fn what_is_for_others_is_passed_over() {
        let text = "LD_PRELOAD=./x.so\nHTTPS_PROXY=http://evil\nSSL_CERT_FILE=x\nDOCKER_HOST=x\nPATH=.\n\
            no-name.of=ours\nwords\nPEM=\"-----BEGIN\nAAAA==\n-----END\"\nMY_GROQ_API_KEY=x\nGROQ_API_KEY=1\n";
        assert_eq!(of(text, &[]).unwrap(), [("GROQ_API_KEY", "1".to_owned())]);
    }

    #[test]
    fn a_key_from_outside_is_not_sent_to_an_address_from_the_file() {
        for (address, key) in [
            ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
            ("GOOGLE_BASE_URL", "GOOGLE_API_KEY"),
            ("GOOGLE_BASE_URL", "GEMINI_API_KEY"),
            ("OLLAMA_HOST", "OLLAMA_API_KEY"),
            ("OPENAI_COMPATIBLE_BASE_URL", "OPENAI_COMPATIBLE_API_KEY"),
        ] {
            let line = format!("\n{address}=http://evil");
            // A key of the file's own does not change whose the other one is.
            for text in [line.clone(), format!("{line}\n{key}=theirs")] {
                let error = of(&text, &[(key, "mine")]).unwrap_err();
                assert!(error.starts_with(&format!("line 2 of .env sets {address}")), "{error}");
                assert!(error.contains(key) && !error.contains("mine"), "{error}");
            }
            // Both from the file, no key at all, or both from outside.
            assert_eq!(of(&format!("{line}\n{key}=theirs"), &[]).unwrap().len(), 2);
            assert_eq!(of(&line, &[(key, ""), ("GROQ_API_KEY", "mine")]).unwrap().len(), 1);
            assert_eq!(of(&line, &[(key, "mine"), (address, "http://mine")]).unwrap(), []);
        }
    }

    #[test]
    fn the_variables_are_those_that_providers_ask_for() {
        for name in ["anthropic", "openai", "google", "groq", "openrouter"] {
            // Whoever has a key of one set tests the others.
            let Err(error) = llm::Provider::new(name).unwrap().build() else { continue };
            let llm::SetupError::NoKey { variables, .. } = error else { panic!("{error}") };
            assert!(variables.split(" or ").all(|it| known(it).is_some()), "{variables}");
        }
        assert!(known("AGENT_SANDBOX_API_KEY").is_some() && known("HTTPS_PROXY").is_none());
    }
}
