//! The file `.env` of the folder the program is started in.
//!
//! A process's environment can only be changed safely by starting it with another one. So where the file holds a
//! variable that is not set, the program starts itself once more, in its own place. Then all are set, and it goes on.

use std::{env, fs, io, os::unix::process::CommandExt, path::Path, process::Command};

use crate::problem::{Problem, with};

/// What names of variables begin with that the system's loader obeys. Since the program starts itself with what the file
/// holds, one of these would run whatever a folder's author likes, in the place of the program and outside any sandbox.
const LOADER: [&str; 3] = ["LD_", "GLIBC_", "GCONV_"];

/// Comes back when everything in the file is set; variables that were set before keep their values.
pub(crate) fn enter() -> Result<(), Problem> {
    let path = Path::new(".env");
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(with(path))?,
    };
    let missing: Vec<_> =
        parse(&text)?.into_iter().filter(|it| env::var_os(&it.0).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut args = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    Err(Problem::Environment(command.args(args).envs(missing).exec()))
}

/// Lines of `NAME=value`. A value may stand in quotes; `export` before a name and comments are passed over.
fn parse(text: &str) -> Result<Vec<(String, String)>, Problem> {
    let mut found = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let pair = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let is_name = |it: &str| {
            !it.is_empty() && it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
        };
        let Some((name, value)) = pair.filter(|it| is_name(it.0) && !it.1.contains('\0')) else {
            // The line itself may hold a secret, so it is not shown.
            return Err(Problem::DotEnv(idx + 1));
        };
        if LOADER.iter().any(|it| name.starts_with(it)) {
            return Err(Problem::Loader(idx + 1, name.to_owned()));
        }
        found.push((name.to_owned(), unquoted(value).to_owned()));
    }
    Ok(found)
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote);
        if let Some((inner, _)) = inner.and_then(|it| it.split_once(quote)) {
            return inner;
        }
    }
    // A comment needs a blank before it: a key may hold the sign.
    value.split(" #").next().unwrap_or(value).trim_end()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_variables() {
        let text = "# keys\nA=1\nexport B_2 = 'x # y' # why\n\nC=\"a=b\"\nD=k#ey # a comment\nE=\n";
        let pairs = parse(text).unwrap();
        let pairs: Vec<_> = pairs.iter().map(|it| (&*it.0, &*it.1)).collect();
        assert_eq!(pairs, [("A", "1"), ("B_2", "x # y"), ("C", "a=b"), ("D", "k#ey"), ("E", "")]);
        let error = parse("A=1\nsecret words").unwrap_err().to_string();
        assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
        for loader in ["LD_PRELOAD=./x.so", "export LD_AUDIT=x", "GLIBC_TUNABLES=x"] {
            assert!(parse(loader).is_err(), "{loader}");
        }
    }
}
