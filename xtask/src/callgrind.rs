//! `cargo xtask callgrind`: compares the instruction counts of the hot paths with those in `benches/callgrind.txt`.
//!
//! Instruction counts vary far less between runs than execution times do, so even small regressions are visible.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::Error,
    step::{Step, succeeds},
};

/// Maximum increase of an instruction count over the baseline, in percent.
const LIMIT_PERCENT: u64 = 5;

pub(crate) fn run(root: &Path, baseline: Baseline) -> Result<(), Error> {
    let path = root.join("benches/callgrind.txt");
    require_valgrind()?;
    match baseline {
        Baseline::Bless => write(&path, &format_counts(&measure(root)?)),
        Baseline::Compare => {
            // Read the baseline first, so that an invalid one is reported before the measurement, which takes minutes.
            let before = parse_counts(&read_baseline(&path)?)?;
            let rows = compare(&before, &measure(root)?);
            print!("\n{}", table(&rows));
            verdict(&rows)
        }
    }
}

/// Whether to compare with the instruction counts stored in the repository or to replace them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Baseline {
    Compare,
    Bless,
}

/// Instruction count of each scenario.
type Counts = BTreeMap<String, u64>;

#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    before: Option<u64>,
    now: Option<u64>,
}

impl Row {
    fn change_percent(&self) -> Option<f64> {
        let (before, now) = (self.before? as f64, self.now? as f64);
        Some((now - before) / before * 100.0)
    }

    fn is_slower(&self) -> bool {
        let (Some(before), Some(now)) = (self.before, self.now) else { return false };
        u128::from(now) * 100 > u128::from(before) * u128::from(100 + LIMIT_PERCENT)
    }
}

fn measure(root: &Path) -> Result<Counts, Error> {
    Step::cargo("build", "build --profile bench -p graph-benches --bin hotpath").run(root)?;
    let target = target_dir()?;
    // Cargo writes the artifacts of the bench profile to the directory of the release profile.
    let binary = target.join("release").join("hotpath").with_extension(env::consts::EXE_EXTENSION);
    let dir = target.join("callgrind");
    fs::create_dir_all(&dir).map_err(|source| Error::File { path: dir.clone(), source })?;
    let list = output(Command::new(&binary).arg("--list").current_dir(root))?;
    let mut counts = Counts::new();
    for name in list.split_whitespace() {
        println!("\n==> callgrind {name}");
        let count = count(root, &binary, name, dir.join(format!("{name}.out")))?;
        println!("    {count} instructions");
        counts.insert(name.to_owned(), count);
    }
    if counts.is_empty() { Err(Error::NoScenarios) } else { Ok(counts) }
}

/// Returns the target directory. This program is in a profile directory such as `target/debug`, so the target directory
/// is the parent of that directory.
fn target_dir() -> Result<PathBuf, Error> {
    let exe = env::current_exe().map_err(|_| Error::NotRunByCargo)?;
    exe.ancestors().nth(2).map(PathBuf::from).ok_or(Error::NotRunByCargo)
}

fn count(root: &Path, binary: &Path, name: &str, out: PathBuf) -> Result<u64, Error> {
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
    output(valgrind.arg(binary).arg(name).current_dir(root))?;
    let profile =
        fs::read_to_string(&out).map_err(|source| Error::File { path: out.clone(), source })?;
    parse_profile(&profile).ok_or(Error::NoCount { path: out })
}

/// Returns the standard output of a command. The command's standard error is printed only if the command fails.
fn output(command: &mut Command) -> Result<String, Error> {
    let line = format!("{command:?}");
    let output = match command.output() {
        Ok(output) => output,
        Err(source) => return Err(Error::Start { command: line, source }),
    };
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Error::Failed { command: line });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn require_valgrind() -> Result<(), Error> {
    if succeeds("valgrind", &["--version"]) { Ok(()) } else { Err(Error::NoValgrind) }
}

fn read_baseline(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::NoBaseline { path: path.to_owned() },
        _ => Error::File { path: path.to_owned(), source },
    })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::File { path: path.to_owned(), source })?;
    println!("\nWrote {}:\n{text}", path.display());
    Ok(())
}

/// Returns the total instruction count of a Callgrind profile. It is the first number after `summary:` or `totals:`;
/// the counts of other events, if any, follow it.
fn parse_profile(text: &str) -> Option<u64> {
    let after = |key| text.lines().find_map(|line| line.strip_prefix(key));
    after("summary:").or_else(|| after("totals:"))?.split_whitespace().next()?.parse().ok()
}

fn parse_counts(text: &str) -> Result<Counts, Error> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(line_idx, line)| {
            let bad = || Error::BaselineLine { number: line_idx + 1, line: line.to_owned() };
            parse_count(line).ok_or_else(bad)
        })
        .collect()
}

/// Parses a line with a name and a count. Rejects a count of zero, because a relative change from zero is
/// undefined.
fn parse_count(line: &str) -> Option<(String, u64)> {
    let (name, count) = line.trim().split_once(char::is_whitespace)?;
    let count = count.trim().parse().ok().filter(|it| *it > 0)?;
    Some((name.to_owned(), count))
}

fn format_counts(counts: &Counts) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}\n")).collect()
}

fn compare(before: &Counts, now: &Counts) -> Vec<Row> {
    let mut names: Vec<&String> = before.keys().chain(now.keys()).collect();
    names.sort();
    names.dedup();
    let row = |it: &String| Row {
        name: it.clone(),
        before: before.get(it).copied(),
        now: now.get(it).copied(),
    };
    names.into_iter().map(row).collect()
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|it| it.name.len()).max().unwrap_or(0).max("scenario".len());
    let number = |it: Option<u64>| it.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let mut text =
        format!("{:<width$} {:>14} {:>14} {:>9}\n", "scenario", "baseline", "now", "change");
    for row in rows {
        let change = match row.change_percent() {
            Some(percent) => format!("{percent:+.2} %"),
            None if row.before.is_none() => "new".to_owned(),
            None => "removed".to_owned(),
        };
        let (before, now) = (number(row.before), number(row.now));
        text += &format!("{:<width$} {before:>14} {now:>14} {change:>9}\n", row.name);
    }
    if rows.iter().any(|it| it.before.is_none() || it.now.is_none()) {
        text += "New and removed scenarios are not checked; `--bless` updates the baseline.\n";
    }
    text
}

fn verdict(rows: &[Row]) -> Result<(), Error> {
    let scenarios: Vec<String> =
        rows.iter().filter(|it| it.is_slower()).map(|it| it.name.clone()).collect();
    if scenarios.is_empty() {
        Ok(())
    } else {
        Err(Error::Slower { limit_percent: LIMIT_PERCENT, scenarios })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        parse_counts(text).unwrap()
    }

    #[track_caller]
    fn check_profile(text: &str, expect: Option<u64>) {
        assert_eq!(parse_profile(text), expect);
    }

    #[track_caller]
    fn check_verdict(before: &str, now: &str, expect: Option<&str>) {
        let verdict = verdict(&compare(&counts(before), &counts(now)));
        let slower = verdict.err().map(|it| match it {
            Error::Slower { scenarios, .. } => scenarios.join(" "),
            other => panic!("{other}"),
        });
        assert_eq!(slower.as_deref(), expect);
    }

    #[test]
    fn total_is_read_from_a_profile() {
        check_profile(
            "events: Ir\nsummary: 126559\n\nfn=(1)\n1 3\n\ntotals: 126559\n",
            Some(126_559),
        );
        check_profile("events: Ir\ntotals: 77\n", Some(77));
        check_profile("events: Ir Dr Dw\nsummary: 10 4 2\n", Some(10));
        check_profile("events: Ir\nfn=(1) totals: 5\n", None);
        check_profile("summary: \n", None);
    }

    #[test]
    fn baseline_round_trips() {
        let text = "fan 1200\nline 34\n";
        assert_eq!(format_counts(&counts(text)), text);
        assert_eq!(counts("\n  line \t 34 \nfan 1200"), counts(text));
    }

    #[test]
    fn malformed_lines_are_reported() {
        for bad in ["fan", "fan x", "fan 1 2", "fan -1", "fan 0"] {
            let error = parse_counts(&format!("line 34\n{bad}\n")).unwrap_err().to_string();
            let expect = format!("line 2 of the baseline is `{bad}`, expected");
            assert!(error.starts_with(&expect), "{error}");
        }
    }

    #[test]
    fn increases_above_five_percent_fail() {
        check_verdict("a 100\nb 100", "a 105\nb 20", None);
        check_verdict("a 100\nb 100\nc 100", "a 106\nb 100\nc 300", Some("a c"));
        check_verdict("a 1000000000000", "a 1050000000001", Some("a"));
    }

    #[test]
    fn new_and_removed_scenarios_do_not_fail() {
        check_verdict("removed 100", "new 100", None);
    }

    #[test]
    fn table_lists_all_scenarios() {
        let rows = compare(
            &counts("fan-out 1000\nremoved 5\nline 300"),
            &counts("fan-out 1100\nline 297\nnew 8"),
        );
        let expect = "\
scenario       baseline            now    change
fan-out            1000           1100  +10.00 %
line                300            297   -1.00 %
new                   -              8       new
removed               5              -   removed
New and removed scenarios are not checked; `--bless` updates the baseline.
";
        assert_eq!(table(&rows), expect);
    }
}
