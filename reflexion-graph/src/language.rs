//! Languages: how a program of one is run.

use std::fmt;

use sandbox_vm::Program;

/// A language that programs can be written in.
pub trait Language: Send + Sync + fmt::Debug {
    /// Its name, as it stands in prompts.
    fn name(&self) -> &'static str;

    /// Two tasks with good answers, for prompts: one that computes, one that would like to read what is not there.
    fn examples(&self) -> &'static str;

    /// The program's file, in the workspace.
    fn file(&self) -> &'static str;

    /// Runs the program that lies in its file.
    fn run(&self) -> Program;

    /// Runs the program and then its tests, which see its names. When both are through it writes `proof` to the file
    /// [`PROOF`]: a program that ends early must not pass for one whose tests hold.
    fn test(&self, tests: &str, proof: &str) -> Program;

    /// Whether a package comes with the language, and need not be installed.
    fn has(&self, package: &str) -> bool;

    /// Lets a program find the packages that lie in these folders of its sandbox. They are wheels, so this is what
    /// Python looks at unless a language says otherwise.
    fn find(&self, program: Program, folders: &[String]) -> Program {
        if folders.is_empty() { program } else { program.env("PYTHONPATH", folders.join(":")) }
    }
}

/// The file that says that tests came to their end, in the workspace.
pub const PROOF: &str = ".proof";

/// The language of a name, if it is known.
pub fn by_name(name: &str) -> Option<Box<dyn Language>> {
    match name {
        "python" => Some(Box::new(Python)),
        "sh" => Some(Box::new(Shell)),
        _ => None,
    }
}

/// The names of all languages.
pub const LANGUAGES: [&str; 2] = ["python", "sh"];

/// Python 3, as the image has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Python;

/// Runs the program and then its tests, which come by its input: no file of the workspace holds them, or the proof.
///
/// A program that ends the process in the middle of its tests, by whatever way, leaves no proof. A test framework may
/// end it, as `unittest.main` does.
const HARNESS: &str = r#"
import linecache, sys, traceback, types
proof, tests = sys.stdin.read().split("\n", 1)
# Test frameworks look for tests in the module of this name.
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
            sys.exit("the program ended the process while it was tested")
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
    /// The same program gives the same output; nothing is written beside it.
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

    // Not `code.py`: that is the name of a module that the standard library itself uses.
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

/// The shell, as the image has it.
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
    fn examples_are_answers_that_can_be_read() {
        for language in LANGUAGES.into_iter().filter_map(by_name) {
            let answers = language.examples().lines().filter(|it| it.starts_with('{'));
            let answers: Vec<GeneratedCode> =
                answers.map(|it| serde_json::from_str(it).unwrap()).collect();
            assert!(answers.len() == 2 && answers.iter().all(|it| !it.code.is_empty()));
        }
    }

    #[test]
    fn the_standard_library_is_there() {
        for (package, is_there) in
            [("json", true), ("os.path", true), ("numpy", false), ("requests>=2", false)]
        {
            assert_eq!(Python.has(package), is_there, "{package}");
        }
        assert!(LANGUAGES.into_iter().all(|it| by_name(it).is_some()));
    }
}
