//! Tests sessions in real sandboxes: the example tasks, and all outcomes of the loop.

use std::sync::Mutex;

use graph_core::RunOptions;
use llm::{ErrorKind, Llm, Reply, Request, Scripted};
use reflexion_graph::{
    Job, Session,
    execution::Status,
    executor::Options,
    failure::Class,
    graph,
    language::{Language, Python},
    offline,
};
use sandbox_vm::report::IsolationLevel;
use serde_json::json;

use crate::session;

pub(crate) fn program(code: &str) -> Reply {
    json!({ "code": code, "dependencies": [], "reasoning": "-", "confidence": 0.5 }).into()
}

pub(crate) fn critic(should_retry: bool) -> Reply {
    let critique = json!({ "diagnosis": "it is wrong", "fix_suggestion": "fix it",
        "should_retry": should_retry, "confidence": 0.5 });
    critique.into()
}

pub(crate) fn wants_program(request: &Request) -> bool {
    request.schema.as_ref().is_some_and(|it| it.name == "GeneratedCode")
}

/// Creates a model with one reply per request for a program and one reply for all requests for a critique. The last
/// reply for a program is repeated.
pub(crate) fn scripted(programs: impl IntoIterator<Item = Reply>, critique: Reply) -> Llm {
    let mut programs: Vec<Reply> = programs.into_iter().collect();
    programs.reverse();
    let programs = Mutex::new(programs);
    Llm::new(Scripted::new("test", move |request: &Request| {
        let mut left = programs.lock().unwrap();
        match left.len() {
            _ if !wants_program(request) => critique.clone(),
            1 => left[0].clone(),
            _ => left.pop().unwrap(),
        }
    }))
}

#[tokio::test]
async fn first_attempt_succeeds() {
    let job = Job::new("Calculate fibonacci(10)").expect("55");
    let session = session(job, offline::model()).await;
    let outcome = session.outcome.unwrap();
    assert!(outcome.success);
    assert_eq!((outcome.attempts, &*outcome.output), (1, "55\n"));
    assert_eq!(session.calls.len(), 1);
    let execution = &session.history[0].execution;
    assert_eq!(execution.isolation, Some(IsolationLevel::Process));
    assert!(execution.memory_mb > 0);
    assert_eq!((execution.exit_code, &*execution.stderr), (Some(0), ""));
}

#[tokio::test]
async fn failure_is_criticised_and_corrected() {
    let job = Job::new("Read data from users.json and print usernames");
    let session = session(job, offline::model()).await;
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
async fn session_ends_after_the_last_attempt_or_when_the_critic_gives_up() {
    for (should_retry, attempts, message) in
        [(true, 4, "max retries exceeded"), (false, 1, "given up")]
    {
        let llm = scripted([program("raise ValueError('no')")], critic(should_retry));
        let session = session(Job::new("x").max_attempts(4), llm).await;
        let outcome = session.outcome.unwrap();
        assert!(!outcome.success && outcome.message.starts_with(message), "{outcome:?}");
        assert_eq!(outcome.attempts, attempts);
        assert_eq!(session.history.len(), attempts as usize);
        // The third and all later attempts start from scratch, because the two preceding attempts failed in the same
        // way.
        let resampled: Vec<_> = session.history.iter().map(|it| it.resampled).collect();
        assert_eq!(resampled, [false, false, true, true][..attempts as usize]);
    }
}

#[tokio::test]
async fn exit_code_0_is_not_sufficient_for_success() {
    let wrong = || scripted([program("def double(n): return n + 2\nprint(54)")], critic(true));
    let last = |session: reflexion_graph::Session| session.history.last().unwrap().clone();
    let ended = last(session(Job::new("x").max_attempts(1).expect("55"), wrong()).await);
    assert_eq!((ended.execution.status, ended.execution.exit_code), (Status::WrongOutput, Some(0)));
    assert_eq!(ended.failure.unwrap().class, Class::Output);

    let job = Job::new("x").max_attempts(1).tests("assert double(2) == 4\nassert double(4) == 8\n");
    let failure = last(session(job, wrong()).await).failure.unwrap();
    assert_eq!(failure.class, Class::Assertion);
    assert_eq!(failure.error, "AssertionError: assert double(4) == 8");

    // A program that exits before its tests complete does not pass them.
    for end in [
        "import os; os._exit(0)", "import sys; sys.exit(3)",
        "import sys\ndef double(n): sys.exit(0)", "import os\ndef double(n): os._exit(0)",
        "def double(n): raise SystemExit",
    ] {
        let job = Job::new("x").max_attempts(1).tests("assert double(1) == 2\n");
        let ended = last(session(job, scripted([program(end)], critic(true))).await);
        assert!(ended.failure.is_some(), "{end}");
    }
}

#[tokio::test]
async fn programs_may_exit_and_tests_may_use_unittest() {
    let tests = "import unittest, doctest\nclass Tests(unittest.TestCase):\n    def test_it(self):\n        \
                 self.assertEqual(double(4), 8)\nunittest.main()\n";
    for (code, success) in [
        ("import sys\ndef double(n): return 2 * n\nsys.exit()", true),
        ("def double(n): return n", false),
    ] {
        let llm = scripted([program(code)], critic(true));
        let ended = session(Job::new("x").max_attempts(1).tests(tests), llm).await;
        assert_eq!(ended.outcome.unwrap().success, success, "{:?}", ended.history);
        // The failure is the assertion, although the framework prints a summary after it.
        let failure = ended.history[0].failure.clone().map(|it| (it.class, it.error));
        let wrong = (Class::Assertion, "AssertionError: 4 != 8".to_owned());
        assert_eq!(failure, (!success).then_some(wrong));
    }
}

#[tokio::test]
async fn complete_output_is_compared() {
    // The complete output is compared: the wrong output differs only in the middle, which the result omits.
    let right = format!("{}a{}", "x".repeat(20_000), "x".repeat(20_000));
    for (middle, success) in [("a", true), ("b", false)] {
        let code = format!("print('x' * 20_000 + '{middle}' + 'x' * 20_000)");
        let llm = scripted([program(&code)], critic(true));
        let ended = session(Job::new("x").max_attempts(1).expect(&right), llm).await;
        let outcome = ended.outcome.unwrap();
        assert_eq!(outcome.success, success);
        assert!(outcome.output.contains("bytes omitted"));
        let failure = ended.history[0].failure.as_ref();
        assert!(
            failure
                .is_none_or(|it| it.error.len() < 1000 && it.error.contains("(40001 characters)"))
        );
    }
}

#[tokio::test]
async fn session_ends_when_its_budget_is_spent() {
    use llm::Budget;
    let failing = || scripted([program("raise ValueError('no')")], critic(true));
    // Without a limit, the session makes six calls. Each call reserves the maximum number of tokens and uses fewer.
    let (executor, _folder) = crate::small_executor().await;
    let run = async |tokens: u64| {
        let deps = graph::Deps::new(failing(), executor.clone());
        let deps = graph::Deps { budget: Some(Budget::of_tokens(tokens)), ..deps };
        let session = Session { job: crate::patient_job("x"), ..Session::default() };
        let graph = graph::without_checkpointer().unwrap();
        graph.run(session, deps).await.unwrap().into_state()
    };
    let whole = run(1_000_000).await;
    assert_eq!((whole.calls.len(), whole.spent), (6, None));
    let used =
        |calls: usize| -> u64 { whole.calls[..calls].iter().map(|it| it.input + it.output).sum() };
    let most = u64::from(llm::Request::MAX_TOKENS);
    // The first budget is too small for any call, the second for the critic's call, and the third for the call that
    // requests the second program.
    for (tokens, calls, attempts) in [(10, 0, 0), (used(1) + most, 1, 1), (used(2) + most, 2, 1)] {
        let ended = run(tokens).await;
        let outcome = ended.outcome.unwrap();
        assert!(
            !outcome.success
                && outcome.message.starts_with("the budget is spent: the call can cost up to"),
            "{outcome:?}"
        );
        assert_eq!(
            (ended.calls.len(), outcome.attempts, ended.history.len()),
            (calls, attempts, attempts as usize)
        );
    }
    executor.close().await;
}

#[tokio::test]
async fn imperfect_json_is_repaired_and_an_answer_without_a_program_fails_the_attempt() {
    let prose = r#"Here it is: {"code": "print(1)", "reasoning": "-"} Say so if you want another."#;
    let prose = scripted([prose.into()], critic(true));
    assert!(session(Job::new("x"), prose).await.outcome.unwrap().success);

    let words = Llm::new(Scripted::new("test", |request: &Request| {
        let prompt = request.prompt().to_lowercase();
        if prompt.contains("attempt 1 of") {
            "I would rather not.".into()
        } else if prompt.contains("return only the json") {
            "No.".into()
        } else if wants_program(request) {
            program("print(2)")
        } else {
            critic(true)
        }
    }));
    let session = session(Job::new("x"), words).await;
    let outcome = session.outcome.unwrap();
    assert_eq!((outcome.success, outcome.attempts), (true, 2));
    let first = &session.history[0];
    assert_eq!(first.failure.as_ref().unwrap().class, Class::Format);
    // The four calls are two for the first attempt, one to the critic, and one for the second attempt.
    assert_eq!(session.calls.len(), 4);
}

#[tokio::test]
async fn rate_limited_calls_are_retried() {
    let limited = || ErrorKind::RateLimited.into();
    let llm = scripted([limited(), limited(), program("print(1)")], critic(true))
        .retry(llm::Backoff::new(3).first_wait(std::time::Duration::from_millis(5)));
    assert!(session(Job::new("x"), llm).await.outcome.unwrap().success);
}

/// Python, except that the first program file has a path that cannot be written.
#[derive(Debug)]
struct FailsOnce(std::sync::atomic::AtomicBool);

impl Language for FailsOnce {
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

    fn test(&self, tests: &str) -> sandbox_vm::Program {
        Python.test(tests)
    }

    fn has(&self, package: &str) -> bool {
        Python.has(package)
    }
}

#[tokio::test]
async fn sandbox_failure_is_reported_to_the_critic() {
    let language = Box::new(FailsOnce(true.into()));
    let options = Options { pool: 1, language, ..Options::default() };
    let (executor, _folder) = crate::executor(options).await;
    let llm = Llm::new(Scripted::new("test", |request: &Request| {
        if wants_program(request) {
            program("print(1)")
        } else if request.prompt().contains("internal error: the sandbox failed") {
            critic(true)
        } else {
            ErrorKind::BadRequest.into()
        }
    }));
    let deps = graph::Deps::new(llm, executor.clone());
    let session = Session { job: crate::patient_job("x"), ..Session::default() };
    let ended = graph::without_checkpointer().unwrap().run(session, deps).await;
    let ended = ended.unwrap().into_state();
    executor.close().await;
    let outcome = ended.outcome.unwrap();
    assert_eq!((outcome.success, outcome.attempts), (true, 2));
    let first = &ended.history[0];
    assert_eq!(first.execution.status, Status::Internal);
    assert_eq!(first.execution.isolation, Some(IsolationLevel::Process));
    assert_eq!(first.failure.as_ref().unwrap().class, Class::Internal);
    // The session requests two programs and one critique.
    assert_eq!(ended.calls.len(), 3);
}

#[tokio::test]
async fn replay_calls_no_model_and_runs_no_program() {
    use graph_trace::{Recording, record_to};

    let (executor, dir) = crate::small_executor().await;
    let graph = graph::without_checkpointer().unwrap();
    let deps = |llm: Llm| graph::Deps::new(llm, executor.clone());
    let job = crate::patient_job("Read data from users.json and print usernames");
    let input = Session { job, ..Session::default() };
    let path = dir.path().join("recording.jsonl");
    let model = offline::model();
    let recorded =
        record_to(&graph, input.clone(), deps(model), RunOptions::new(), &path).await.unwrap();
    assert_eq!(executor.stats().executions, 2);

    // This model returns no program. It has the same name as the recorded model, because the recording identifies
    // models by name.
    let mute = Llm::new(Scripted::new("coder", |_| "?"));
    let recording = Recording::read(&path).unwrap();
    let replayed = recording.replay_on(&graph, input, deps(mute), RunOptions::new()).await;
    replayed.check().unwrap();
    assert_eq!(replayed.trace, recorded.trace);
    assert_eq!(executor.stats().executions, 2);
    executor.close().await;
}
