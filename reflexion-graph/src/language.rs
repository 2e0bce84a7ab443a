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

    /// Returns the command that runs the program file and then its tests in the same namespace. After both have
    /// completed, the command writes `proof` to the file `PROOF`, so that a program that exits early does not pass.
    fn test(&self, tests: &str, proof: &str) -> Program;

    /// Returns whether a package is part of the language's standard library.
    fn has(&self, package: &str) -> bool;

    /// Adds package directories in the sandbox to the program's search path. The default implementation is for Python,
    /// because packages are Python wheels.
    fn find(&self, program: Program, dirs: &[String]) -> Program {
        if dirs.is_empty() { program } else { program.env("PYTHONPATH", dirs.join(":")) }
    }
}

/// Name of the file in the working directory that proves that the tests ran to completion.
pub(crate) const PROOF: &str = ".proof";

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

/// Python code that runs the program and then its tests. It reads the tests and the proof from standard input, so that
/// the program cannot find them in a file.
///
/// If the program exits the process while its tests run, no proof is written. The test framework itself may exit with
/// code 0, as `unittest.main` does; the proof is written in that case.
const HARNESS: &str = r#"
import linecache, sys, traceback, types
proof, tests = sys.stdin.read().split("\n", 1)
# Test frameworks look for tests in the module `__main__`.
harness = sys.modules["__main__"]
sys.modules["__main__"] = types.ModuleType("__main__")
names = sys.modules["__main__"].__dict__
names["__file__"] = "main.py"

def run(text, file):
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    try:
        exec(compile(text, file, "exec"), names)
    except SystemExit as end:
        frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(end.__traceback__)]
        if end.code not in (None, 0):
            raise
        if file == "tests.py" and "main.py" in frames:
            sys.exit("the program exited the process during its tests")
    except BaseException as error:
        traceback.print_exception(error.with_traceback(error.__traceback__.tb_next))
        sys.exit(1)
    sys.stdout.flush()

with open("main.py") as file:
    run(file.read(), "main.py")
run(tests, "tests.py")
with open(".proof", "w") as file:
    file.write(proof)
"#;

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

    fn test(&self, tests: &str, proof: &str) -> Program {
        Self::python().args(["-c", HARNESS]).input(format!("{proof}\n{tests}"))
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

    fn test(&self, tests: &str, proof: &str) -> Program {
        let both = format!(". ./main.sh\n{tests}\nprintf %s {proof} > {PROOF}\n");
        Program::new("/bin/sh").args(["-eu", "-s"]).input(both)
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
