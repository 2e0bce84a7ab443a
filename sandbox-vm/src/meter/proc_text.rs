//! Reads files of `/proc` whose text a program can influence.

use std::{fmt::Display, fs, io, path::Path, str::FromStr};

/// Reads a file of `/proc`. A program chooses its own name, which need not be valid UTF-8. Such a name must not make
/// the file unreadable, because a process that cannot be read would not be measured.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// Returns a field of `/proc/PID/stat`. The index counts the fields after the name of the process, from zero.
pub(crate) fn stat_field<T: FromStr>(pid: impl Display, index: usize) -> Option<T> {
    let stat = read(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// Reads the file `status` in the directory of a process or thread, starting at the line `State`. The preceding line
/// contains the name, which in gVisor may contain line breaks and imitate other lines.
pub(super) fn read_status(dir: &Path) -> io::Result<String> {
    Ok(from_state(&read(dir.join("status"))?).to_owned())
}

fn from_state(status: &str) -> &str {
    status.find("\nState:").map_or("", |start| &status[start..])
}

#[cfg(test)]
mod tests {
    use super::{from_state, read};

    #[test]
    fn names_that_are_not_text_can_be_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, b"7 (\xff) S 1").unwrap();
        assert_eq!(read(file.path()).unwrap(), "7 (\u{fffd}) S 1");
        assert!(read("/proc/0/stat").is_err());
    }

    #[test]
    fn line_breaks_in_process_names_are_not_parsed_as_fields() {
        let status = "Name:\tx\nRssAnon: 1 kB\nState:\tR (running)\nFDSize:\t4\n";
        assert_eq!(from_state(status), "\nState:\tR (running)\nFDSize:\t4\n");
        assert_eq!(from_state("Name:\tx\n"), "");
    }
}
