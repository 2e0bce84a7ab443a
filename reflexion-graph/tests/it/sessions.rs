//! Sessions in the real sandbox: the worked examples, and how the loop ends.

use graph_core::RunOptions;
use llm::{Llm, Rule, Script, Scripted, scripted::FlawKind};
use reflexion_graph::{
    Job, Session,
    execution::Status,
    failure::Class,
    graph,
    language::{Language, Python},
    offline,
    workshop::Options,
};
use serde_json::json;

use crate::session;

pub(crate) fn program(code: &str) -> Rule {
    let code = code.replace('{', "{{").replace('}', "}}");
    Rule::json(json!({ "code": code, "dependencies": [], "reasoning": "-", "confidence": 0.5 }))
        .when_schema("GeneratedCode")
}

pub(crate) fn critic(should_retry: bool) -> Rule {
    let critique = json!({ "diagnosis": "it is wrong", "fix_suggestion": "mend it",
        "should_retry": should_retry, "confidence": 0.5 });
    Rule::json(critique).when_schema("Critique")
}

pub(crate) fn scripted(rules: impl IntoIterator<Item = Rule>) -> Llm {
    let script = rules.into_iter().fold(Script::new("test"), Script::rule);
    Llm::new(Scripted::new(script).unwrap())
}

#[tokio::test]
async fn a_first_try_succeeds() {
    let job = Job::new("Calculate fibonacci(10)").expect("55");
    let session = session(job, offline::model().unwrap()).await;
    let outcome = session.outcome.unwrap();
    assert!(outcome.success);
    assert_eq!((outcome.attempts, &*outcome.output), (1, "55\n"));
    assert_eq!(session.calls.len(), 1);
    let execution = &session.history[0].execution;
    assert!(execution.isolated && execution.memory_mb > 0);
    assert_eq!((execution.exit_code, &*execution.stderr), (Some(0), ""));
}

#[tokio::test]
async fn a_failure_is_criticised_and_corrected() {
    let job = Job::new("Read data from users.json and print usernames");
    let session = session(job, offline::model().unwrap()).await;
    let outcome = session.outcome.unwrap();
    assert!(outcome.success);
    assert_eq!((outcome.attempts, &*outcome.output), (2, "alice\nbob\ncharlie\n"));
    let [first, second] = &session.history[..] else { panic!("{:?}", session.history) };
    let failure = first.failure.as_ref().unwrap();
    assert_eq!(failure.class, Class::File);
    assert!(failure.error.starts_with("FileNotFoundError: [Errno 2]"), "{failure:?}");
    assert!(first.critique.as_ref().unwrap().diagnosis.contains("users.json"));
    assert_eq!((first.execution.exit_code, &*first.execution.stdout), (Some(1), ""));
    assert!(second.failure.is_none() && second.critique.is_none());
    // Each sandbox is used once.
    assert_ne!(first.execution.sandbox, second.execution.sandbox);
    let roles: Vec<_> = session.calls.iter().map(|it| &*it.role).collect();
    assert_eq!(roles, ["generator", "critic", "generator"]);
}

#[tokio::test]
async fn attempts_end_and_a_critic_may_end_them_earlier() {
    for (should_retry, attempts, message) in
        [(true, 4, "max retries exceeded"), (false, 1, "given up")]
    {
        let llm = scripted([program("raise ValueError('no')"), critic(should_retry)]);
        let session = session(Job::new("x").max_attempts(4), llm).await;
        let outcome = session.outcome.unwrap();
        assert!(!outcome.success && outcome.message.starts_with(message), "{outcome:?}");
        assert_eq!(outcome.attempts, attempts);
        assert_eq!(session.history.len(), attempts as usize);
        // From the third on the loop knows that it is stuck.
        let resampled: Vec<_> = session.history.iter().map(|it| it.resampled).collect();
        assert_eq!(resampled, [false, false, true, true][..attempts as usize]);
    }
}

#[tokio::test]
async fn exit_code_0_is_not_correctness() {
    let wrong = || scripted([program("def double(n): return n + 2\nprint(54)"), critic(true)]);
    let last = |session: reflexion_graph::Session| session.history.last().unwrap().clone();
    let ended = last(session(Job::new("x").max_attempts(1).expect("55"), wrong()).await);
    assert_eq!((ended.execution.status, ended.execution.exit_code), (Status::WrongOutput, Some(0)));
    assert_eq!(ended.failure.unwrap().class, Class::Output);

    let job = Job::new("x").max_attempts(1).tests("assert double(2) == 4\nassert double(4) == 8\n");
    let failure = last(session(job, wrong()).await).failure.unwrap();
    assert_eq!(failure.class, Class::Assertion);
    assert_eq!(failure.error, "AssertionError: assert double(4) == 8");

    // Who ends the process before its tests come to their end has not passed them.
    for end in [
        "import os; os._exit(0)",
        "import sys; sys.exit(3)",
        "import sys\ndef double(n): sys.exit(0)",
        "import os\ndef double(n): os._exit(0)",
        "def double(n): raise SystemExit",
    ] {
        let job = Job::new("x").max_attempts(1).tests("assert double(1) == 2\n");
        let ended = last(session(job, scripted([program(end), critic(true)])).await);
        assert!(ended.failure.is_some(), "{end}");
    }
}

#[tokio::test]
async fn a_program_may_end_itself_and_tests_may_be_of_unittest() {
    let tests = "import unittest, doctest\nclass Tests(unittest.TestCase):\n    def test_it(self):\n        \
                 self.assertEqual(double(4), 8)\nunittest.main()\n";
    for (code, success) in [
        ("import sys\ndef double(n): return 2 * n\nsys.exit()", true),
        ("def double(n): return n", false),
    ] {
        let llm = scripted([program(code), critic(true)]);
        let ended = session(Job::new("x").max_attempts(1).tests(tests), llm).await;
        assert_eq!(ended.outcome.unwrap().success, success, "{:?}", ended.history);
        // A framework sums up behind what went wrong.
        let failure = ended.history[0].failure.clone().map(|it| (it.class, it.error));
        let wrong = (Class::Assertion, "AssertionError: 4 != 8".to_owned());
        assert_eq!(failure, (!success).then_some(wrong));
    }
}

#[tokio::test]
async fn all_of_a_long_output_counts() {
    // More than is kept of it; only the middle, which is not kept, differs.
    let right = format!("{}a{}", "x".repeat(20_000), "x".repeat(20_000));
    for (middle, success) in [("a", true), ("b", false)] {
        let code = format!("print('x' * 20_000 + '{middle}' + 'x' * 20_000)");
        let llm = scripted([program(&code), critic(true)]);
        let ended = session(Job::new("x").max_attempts(1).expect(&right), llm).await;
        let outcome = ended.outcome.unwrap();
        assert_eq!(outcome.success, success);
        assert!(outcome.output.contains("bytes left out"));
        let failure = ended.history[0].failure.as_ref();
        assert!(
            failure
                .is_none_or(|it| it.error.len() < 1000 && it.error.contains("(40001 characters)"))
        );
    }
}

#[tokio::test]
async fn a_session_ends_where_its_budget_is_spent() {
    use llm::Budget;
    let failing = || scripted([program("raise ValueError('no')"), critic(true)]);
    // Without a bound: six calls. A call reserves what it can come to, and uses less.
    let (workshop, _folder) = crate::small().await;
    let run = async |tokens: u64| {
        let deps = graph::Deps::new(failing(), workshop.clone());
        let deps = graph::Deps { budget: Some(Budget::of_tokens(tokens)), ..deps };
        let session = Session { job: Job::new("x"), ..Session::default() };
        let graph = graph::unstored().unwrap();
        graph.invoke(session, deps, RunOptions::new()).await.unwrap().into_state()
    };
    let whole = run(1_000_000).await;
    assert_eq!((whole.calls.len(), whole.spent), (6, None));
    let used =
        |calls: usize| -> u64 { whole.calls[..calls].iter().map(|it| it.input + it.output).sum() };
    let most = u64::from(llm::Request::MAX_TOKENS);
    // Not even one call fits; the critic's does not; the second program's does not.
    for (tokens, calls, attempts) in [(10, 0, 0), (used(1) + most, 1, 1), (used(2) + most, 2, 1)] {
        let ended = run(tokens).await;
        let outcome = ended.outcome.unwrap();
        assert!(
            !outcome.success
                && outcome.message.starts_with("the budget is spent: the call can come to"),
            "{outcome:?}"
        );
        assert_eq!(
            (ended.calls.len(), outcome.attempts, ended.history.len()),
            (calls, attempts, attempts as usize)
        );
    }
    workshop.close().await;
}

#[tokio::test]
async fn answers_are_read_by_the_ladder_and_one_without_a_program_is_a_failed_attempt() {
    let prose = scripted([program("print(1)").flaw(FlawKind::Prose)]);
    assert!(session(Job::new("x"), prose).await.outcome.unwrap().success);

    let words = scripted([
        Rule::text("I would rather not.").when_prompt("attempt 1 of"),
        Rule::text("No.").when_prompt("Return only the JSON"),
        critic(true),
        program("print(2)"),
    ]);
    let session = session(Job::new("x"), words).await;
    let outcome = session.outcome.unwrap();
    assert_eq!((outcome.success, outcome.attempts), (true, 2));
    let first = &session.history[0];
    assert_eq!(first.failure.as_ref().unwrap().class, Class::Format);
    // Two readings of the first attempt, the critic, and the second attempt are paid for.
    assert_eq!(session.calls.len(), 4);
}

#[tokio::test]
async fn a_provider_that_stumbles_is_asked_again() {
    use llm::{Backoff, ErrorKind};
    let failing = Rule::failure(ErrorKind::RateLimited).first_times(2);
    let llm = scripted([failing, program("print(1)")])
        .retry(Backoff::new(3).first_wait(std::time::Duration::from_millis(5)));
    assert!(session(Job::new("x"), llm).await.outcome.unwrap().success);
}

/// Python, whose programs no sandbox can take at first.
#[derive(Debug)]
struct Stumbling(std::sync::atomic::AtomicBool);

impl Language for Stumbling {
    fn name(&self) -> &'static str {
        "Python"
    }

    fn examples(&self) -> &'static str {
        Python.examples()
    }

    fn file(&self) -> &'static str {
        if self.0.swap(false, std::sync::atomic::Ordering::Relaxed) {
            "/proc/version"
        } else {
            Python.file()
        }
    }

    fn run(&self) -> sandbox_vm::Program {
        Python.run()
    }

    fn test(&self, tests: &str, proof: &str) -> sandbox_vm::Program {
        Python.test(tests, proof)
    }

    fn has(&self, package: &str) -> bool {
        Python.has(package)
    }
}

#[tokio::test]
async fn a_sandbox_that_fails_is_told_to_the_critic() {
    let language = Box::new(Stumbling(true.into()));
    let options = Options { pool: 1, language, ..Options::default() };
    let (workshop, _folder) = crate::workshop(options).await;
    let critic = critic(true).when_prompt("internal error: the sandbox failed");
    let deps = graph::Deps::new(scripted([program("print(1)"), critic]), workshop.clone());
    let session = Session { job: Job::new("x"), ..Session::default() };
    let ended = graph::unstored().unwrap().invoke(session, deps, RunOptions::new()).await;
    let ended = ended.unwrap().into_state();
    workshop.close().await;
    let outcome = ended.outcome.unwrap();
    assert_eq!((outcome.success, outcome.attempts), (true, 2));
    let first = &ended.history[0];
    assert_eq!((first.execution.status, first.execution.isolated), (Status::Internal, true));
    assert_eq!(first.failure.as_ref().unwrap().class, Class::Internal);
    // The critic was asked, and its answer is what the second attempt was told.
    assert_eq!(ended.calls.len(), 3);
}

#[tokio::test]
async fn a_replay_asks_no_model_and_runs_no_program() {
    use graph_trace::{Recording, record_to};

    let (workshop, folder) = crate::small().await;
    let graph = graph::unstored().unwrap();
    let deps = |llm: Llm| graph::Deps::new(llm, workshop.clone());
    let job = Job::new("Read data from users.json and print usernames");
    let input = Session { job, ..Session::default() };
    let path = folder.path().join("recording.jsonl");
    let model = offline::model().unwrap();
    let recorded =
        record_to(&graph, input.clone(), deps(model), RunOptions::new(), &path).await.unwrap();
    assert_eq!(workshop.stats().executions, 2);

    // Who is asked now knows nothing; it is the model's name that the recording knows it by.
    let mute = Llm::new(Scripted::new(Script::new("coder").rule(Rule::text("?"))).unwrap());
    let recording = Recording::read(&path).unwrap();
    let replayed = recording.replay_on(&graph, input, deps(mute), RunOptions::new()).await;
    replayed.check().unwrap();
    assert_eq!(replayed.trace, recorded.trace);
    assert_eq!(workshop.stats().executions, 2);
    workshop.close().await;
}
