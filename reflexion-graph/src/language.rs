//! Programming languages, and how programs in these languages are run.

use std::fmt;

use sandbox_vm::Program;

/// A language that programs can be written in.
pub trait Language: Send + Sync + fmt::Debug {
    /// Returns the name of the language, as used in prompts.
    fn name(&self) -> &'static str;

    /// Returns two example tasks with good answers, for prompts. One is a computation; the other reads a file that does
    /// not exist.
    fn examples(&self) -> &'static str;

    /// Returns the name of the program file in the working directory.
    fn file(&self) -> &'static str;

    /// Returns the command that runs the program file.
    fn run(&self) -> Program;

    /// Returns the command that runs the program file and then its tests, with access to the program's names.
    ///
    /// The exit code is the verdict: 0 if all tests passed, and [`TESTS_CUT_SHORT`] if the program ended before its
    /// tests. The tests must therefore run in a process that the program cannot change.
    fn test(&self, tests: &str) -> Program;

    /// Returns whether a package is part of the language's standard library.
    fn has(&self, package: &str) -> bool;

    /// Adds package directories in the sandbox to the program's search path. The default implementation is for Python,
    /// because packages are Python wheels.
    fn find(&self, program: Program, dirs: &[String]) -> Program {
        if dirs.is_empty() { program } else { program.env("PYTHONPATH", dirs.join(":")) }
    }
}

/// Exit code of a test run whose program ended before its tests completed.
pub const TESTS_CUT_SHORT: i32 = 125;

/// Returns the language with the given name, one of [`LANGUAGES`].
pub fn by_name(name: &str) -> Option<Box<dyn Language>> {
    match name {
        "python" => Some(Box::new(Python)),
        "sh" => Some(Box::new(Shell)),
        _ => None,
    }
}

pub const LANGUAGES: [&str; 2] = ["python", "sh"];

/// Python 3, as installed in the sandbox image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Python;

/// The Python program that runs the tests of a Python program. It is assembled from several files.
const PYTHON_TESTS: &str = concat!(
    include_str!("../data/harness/rpc.py"),
    include_str!("../data/harness/process.py"),
    include_str!("../data/harness/guard.py"),
    include_str!("../data/harness/tests.py")
);

/// Runs a Python program and serves calls of its tests.
const PYTHON_PROGRAM: &str =
    concat!(include_str!("../data/harness/rpc.py"), include_str!("../data/harness/program.py"));

/// Runs the tests of a shell program. Written in Python, which every image contains.
const SHELL_TESTS: &str =
    concat!(include_str!("../data/harness/process.py"), include_str!("../data/harness/shell.py"));

impl Python {
    /// Returns a command that runs Python with a fixed hash seed and without writing bytecode files.
    fn python() -> Program {
        let python = Program::new("/usr/bin/python3").args(["-B", "-s", "-X", "utf8"]);
        python.env("PYTHONHASHSEED", "0")
    }
}

impl Language for Python {
    fn name(&self) -> &'static str {
        "Python"
    }

    fn examples(&self) -> &'static str {
        r#"Task: Print the sum of the squares of 1 to 5.
{"code": "print(sum(n * n for n in range(1, 6)))", "dependencies": [], "reasoning": "A generator expression; 1+4+9+16+25 is 55.", "confidence": 0.99}

Task: Count the lines of log.txt.
{"code": "import os\nopen('log.txt', 'w').write('first\\nsecond\\n') if not os.path.exists('log.txt') else None\nwith open('log.txt') as file:\n    print(sum(1 for _ in file))", "dependencies": [], "reasoning": "The sandbox starts empty, so the program makes the file it needs.", "confidence": 0.8}"#
    }

    // The name is not `code.py`, because that would shadow a module of the standard library.
    fn file(&self) -> &'static str {
        "main.py"
    }

    fn run(&self) -> Program {
        Self::python().arg("main.py")
    }

    fn test(&self, tests: &str) -> Program {
        Self::python().args(["-c", PYTHON_TESTS, PYTHON_PROGRAM]).input(tests)
    }

    fn has(&self, package: &str) -> bool {
        let name = package.split(['.', '=', '<', '>', '[', ' ']).next().unwrap_or_default();
        include_str!("../data/python-modules.txt").lines().any(|it| it == name)
    }
}

/// The POSIX shell, as installed in the sandbox image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shell;

impl Language for Shell {
    fn name(&self) -> &'static str {
        "POSIX shell"
    }

    fn examples(&self) -> &'static str {
        r#"Task: Print the sum of the squares of 1 to 5.
{"code": "sum=0\nfor n in 1 2 3 4 5; do sum=$((sum + n * n)); done\necho $sum", "dependencies": [], "reasoning": "Arithmetic of the shell is enough; 1+4+9+16+25 is 55.", "confidence": 0.99}

Task: Count the lines of log.txt.
{"code": "[ -e log.txt ] || printf 'first\\nsecond\\n' > log.txt\nwc -l < log.txt", "dependencies": [], "reasoning": "The sandbox starts empty, so the program makes the file it needs.", "confidence": 0.8}"#
    }

    fn file(&self) -> &'static str {
        "main.sh"
    }

    fn run(&self) -> Program {
        Program::new("/bin/sh").args(["-eu", "main.sh"])
    }

    fn test(&self, tests: &str) -> Program {
        Python::python().args(["-c", SHELL_TESTS]).input(tests)
    }

    fn has(&self, _: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{LANGUAGES, Language, Python, by_name};
    use crate::answer::GeneratedCode;

    #[test]
    fn examples_are_valid_answers() {
        for language in LANGUAGES.into_iter().filter_map(by_name) {
            let answers = language.examples().lines().filter(|it| it.starts_with('{'));
            let answers: Vec<GeneratedCode> =
                answers.map(|it| serde_json::from_str(it).unwrap()).collect();
            assert!(answers.len() == 2 && answers.iter().all(|it| !it.code.is_empty()));
        }
    }

    #[test]
    fn standard_library_modules_are_known() {
        for (package, is_standard) in
            [("json", true), ("os.path", true), ("numpy", false), ("requests>=2", false)]
        {
            assert_eq!(Python.has(package), is_standard, "{package}");
        }
        assert!(LANGUAGES.into_iter().all(|it| by_name(it).is_some()));
    }
}
