//! Tests that the verdict on a program depends only on its tests: a wrong program cannot pass them, even if it
//! manipulates its interpreter, the test framework or the process that runs its tests.

use reflexion_graph::{Job, Limits, execution::Execution, executor::Options, language::by_name};

use crate::{MAX_TIMEOUT, executor};

/// Timeout in seconds of wrong programs, some of which never end.
const SHORT_TIMEOUT: f64 = 20.0;

/// Runs each program with its tests in a separate sandbox.
async fn run_all(language: &str, cases: &[(&str, &str)], timeout: f64) -> Vec<Execution> {
    let language = by_name(language).unwrap();
    let (executor, _dir) =
        executor(Options { pool: 2, cpus: 1.0, language, ..Options::default() }).await;
    let mut executions = Vec::new();
    for (code, tests) in cases {
        let limits = Limits { timeout, ..Limits::default() };
        let job = Job { limits, ..Job::new("x").tests(*tests) };
        executions.push(executor.run(code, &[], &job).await.unwrap());
    }
    executor.close().await;
    executions
}

#[track_caller]
fn check(cases: &[(&str, &str)], executions: &[Execution], success: bool) {
    for ((code, tests), execution) in cases.iter().zip(executions) {
        assert_eq!(execution.success(), success, "{code}\n--\n{tests}\n--\n{execution:?}");
    }
}

/// Tests that replace `ASSERTION` in the case files. They fail for every wrong program.
const ASSERTION: &str = "assert double(1) == 2\n";

/// Tests that replace `UNITTEST` in the case files. They fail for every wrong program.
const UNITTEST: &str = "import unittest
class T(unittest.TestCase):
    def test_it(self): self.assertEqual(double(1), 2)
unittest.main()
";

/// Parses the cases of a file: programs, each followed by its tests.
fn cases(text: &str) -> Vec<(&str, &str)> {
    let cases = text.split("====\n").map(|case| {
        let (program, tests) = case.split_once("\n----\n").unwrap();
        match tests.trim_end() {
            "ASSERTION" => (program, ASSERTION),
            "UNITTEST" => (program, UNITTEST),
            _ => (program, tests),
        }
    });
    cases.collect()
}

#[tokio::test]
async fn wrong_programs_cannot_pass_their_tests() {
    let wrong = cases(include_str!("verdicts/wrong.txt"));
    check(&wrong, &run_all("python", &wrong, SHORT_TIMEOUT).await, false);
}

/// The tests use the functions, classes, errors, iterators, global variables, input and output of their programs.
#[tokio::test]
async fn tests_can_use_everything_that_a_program_defines() {
    let right = cases(include_str!("verdicts/right.txt"));
    check(&right, &run_all("python", &right, MAX_TIMEOUT).await, true);
}

const SHELL_TEST: &str = "[ \"$(twice 4)\" = 8 ]\n";

#[tokio::test]
async fn wrong_shell_programs_cannot_pass_their_tests() {
    let wrong = [
        ("set +e\ntwice() { echo 1; }", SHELL_TEST),
        ("set +e\ntrap 'exit 0' EXIT\ntwice() { exit 0; }", SHELL_TEST),
        ("test() { return 0; }\ntwice() { echo 1; }", "test \"$(twice 4)\" = 8"),
        ("kill -9 $PPID\ntwice() { echo 8; }", SHELL_TEST),
        ("exec true", SHELL_TEST),
        ("alias [=true\ntwice() { echo 1; }", SHELL_TEST),
        // Each command of the tests counts, even if the shell would ignore its failure.
        ("twice() { echo 1; }", "set +e\n[ \"$(twice 4)\" = 8 ]\ntrue\n"),
        ("twice() { echo 1; }", "[ \"$(twice 4)\" = 8 ] && echo good\ntrue\n"),
        // `<<` in arithmetic starts no here-document, and the commands after a here-document are checked too.
        ("twice() { echo 1; }", "echo $((1 << 2))\n[ \"$(twice 4)\" = 8 ] && echo good\ntrue\n"),
        ("twice() { echo 1; }", "cat <<END\na\nEND\n[ \"$(twice 4)\" = 8 ] && echo good\ntrue\n"),
        // The program cannot change the definitions that the tests see.
        (
            "test() { return 0; }\ntwice() { echo 1; }\necho 'twice() { echo 1; }' >main.sh",
            "test \"$(twice 4)\" = 8",
        ),
        // No process of the program runs during the tests.
        ("(sleep 2; touch late) & \ntwice() { echo 8; }", "rm -f late\nsleep 3\n[ -e late ]\n"),
        (
            "setsid sh -c 'touch begun; sleep 2; touch late' </dev/null >/dev/null 2>&1 &\n\
             until [ -e begun ]; do sleep 0.1; done\ntwice() { echo 8; }",
            "rm -f late\nsleep 3\n[ -e late ]\n",
        ),
        // The shell of the tests does not read the program.
        (
            "[ -z \"${__line:-}\" ] || exit 0\ntwice() { echo 1; }",
            ". ./main.sh\n[ \"$(twice 4)\" = 8 ]\n",
        ),
    ];
    check(&wrong, &run_all("sh", &wrong, SHORT_TIMEOUT).await, false);
}

#[tokio::test]
async fn shell_tests_can_use_functions_and_variables() {
    let right = [
        ("twice() { echo $(($1 * 2)); }", SHELL_TEST),
        (
            "text=\"it's\nfine\"; count=3\ntwice() { echo $(($1 * 2)); }",
            "[ $count = 3 ]\nfor n in 1 2; do\n  [ \"$(twice $n)\" = $((2 * n)) ]\ndone\n\
             printf %s \"$text\" | grep -q fine\ncat <<END | grep -q a\na\nEND\n",
        ),
        (
            "n=3\ntwice() { echo $(($1 * 2)); }",
            "cd /workspace && . ./main.sh\n[ \"$(twice $n)\" = 6 ]\n",
        ),
        // A variable can be longer than the maximum length of a process argument.
        ("big=$(printf %0200000d 1)", "[ ${#big} = 200000 ]\n"),
    ];
    check(&right, &run_all("sh", &right, MAX_TIMEOUT).await, true);
}
