//! Runs with models that answer slowly, unreadably or with secrets.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use graph_trace::{Detail, TextOptions};
use llm::{
    Error, ErrorKind, Finish, Listener, Llm, Model, ModelId, Part, RecordMode, Recording, Request,
    Response, overflow::estimate_tokens,
};

use super::run::{
    finish, recorded_calls, recorded_prompts, recording_lines, resume_options, run_config,
};
use crate::{
    event::{EventLog, NumberedEvent},
    offline,
    report::Report,
    run::{ResumeOptions, Run, RunConfig},
};

/// Decides how the model reacts to a call, given the number of the call and its request.
type ReactionFn = Box<dyn Fn(u64, &Request) -> Reaction + Send + Sync>;

pub(crate) enum Reaction {
    Delay(Duration),
    Say(String),
    /// Answers with a text that ends at the token limit.
    Cut(String),
    Fail(String),
    /// Rejects the request because it exceeds the context window.
    TooLong,
}

/// The scripted model, except that `react` decides how it reacts to each call.
struct ReactingModel {
    scripted: Llm,
    calls: AtomicU64,
    react: ReactionFn,
}

impl std::fmt::Debug for ReactingModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReactingModel")
    }
}

pub(crate) fn reacting_model(
    react: impl Fn(u64, &Request) -> Reaction + Send + Sync + 'static,
) -> Option<Llm> {
    let (scripted, calls) = (offline::model(7), AtomicU64::new(0));
    Some(Llm::new(ReactingModel { scripted, calls, react: Box::new(react) }))
}

#[async_trait]
impl Model for ReactingModel {
    // Not one of the models in the run's configuration. The run still records the calls under the configured models.
    fn id(&self) -> ModelId {
        ModelId::new("test", "model")
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        match (self.react)(number, request) {
            Reaction::Delay(delay) => {
                tokio::time::sleep(delay).await;
                self.scripted.call(request, listener).await
            }
            Reaction::Say(text) => {
                let response = self.scripted.call(request, listener).await?;
                Ok(Response { content: vec![Part::text(text)], ..response })
            }
            Reaction::Cut(text) => {
                let response = self.scripted.call(request, listener).await?;
                Ok(Response { content: vec![Part::text(text)], finish: Finish::Length, ..response })
            }
            Reaction::Fail(why) => Err(Error::new(ErrorKind::Auth, self.id(), why)),
            Reaction::TooLong => {
                let why = "maximum context length".to_owned();
                Err(Error::new(ErrorKind::RequestTooLong, self.id(), why))
            }
        }
    }
}

/// Returns a model with delays of up to 6 ms that depend on the seed.
fn slow_model(seed: u64) -> Option<Llm> {
    reacting_model(move |number, _| {
        let mixed = (number + seed * 1009).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Reaction::Delay(Duration::from_micros(mixed % 6000))
    })
}

pub(crate) fn last_message(request: &Request) -> String {
    request.messages.last().map(llm::Message::text).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_and_latency_do_not_change_the_result() {
    let mut all = Vec::new();
    for (concurrency, seed) in [(1, 1), (2, 2), (5, 3), (5, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::create(folder.path(), run_config(5, 2)).unwrap();
        let options = ResumeOptions {
            concurrency,
            trace: true,
            model_override: slow_model(seed),
            ..resume_options()
        };
        let (report, trace) = finish(&run, options).await;
        let trace = trace.unwrap().text(TextOptions::new(Detail::Full));
        let order: Vec<String> = EventLog::read(&folder.path().join("events.jsonl"))
            .unwrap()
            .iter()
            .map(|it| format!("{:?}", it.event))
            .collect();
        all.push(([report.json(), report.markdown(), report.html()], trace, order));
    }
    for other in &all[1..] {
        assert_eq!((&all[0].0, &all[0].1), (&other.0, &other.1));
    }
    // The results are the same, although the events happened in different orders.
    assert_ne!(all[0].2, all[2].2);
    assert_ne!(all[2].2, all[3].2);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_runs_do_not_affect_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, ticker: &str| {
        let run_config =
            RunConfig { ticker: ticker.to_owned(), run_id: ticker.to_owned(), ..run_config(3, 2) };
        Run::create(folder.path().join(name), run_config).unwrap()
    };
    let events = |run: &Run| -> BTreeSet<String> {
        let events = EventLog::read(&run.dir().join("events.jsonl")).unwrap();
        assert!(events.iter().zip(1..).all(|(it, seq)| it.seq == seq));
        let distinct: BTreeSet<String> =
            events.iter().map(|it| format!("{:?}", it.event)).collect();
        assert_eq!(distinct.len(), events.len());
        distinct
    };
    let at_once = |seed| ResumeOptions {
        concurrency: 3,
        model_override: slow_model(seed),
        ..resume_options()
    };
    let (a, b) = (make("a", "NVDA"), make("b", "KO"));
    let (at_a, at_b) =
        futures_util::future::join(finish(&a, at_once(1)), finish(&b, at_once(2))).await;
    for (run, (report, _), ticker) in [(a, at_a, "NVDA"), (b, at_b, "KO")] {
        let alone = make(&format!("{ticker} alone"), ticker);
        let (expected, _) = finish(&alone, resume_options()).await;
        assert_eq!(report.json(), expected.json());
        assert_eq!(events(&run), events(&alone));
        assert_eq!(recorded_calls(run.dir()), recorded_calls(alone.dir()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_readers_see_every_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(3, 2)).unwrap();
    let path = folder.path().join("events.jsonl");
    let (mut events, mut snapshot): (Vec<NumberedEvent>, Option<Vec<NumberedEvent>>) =
        (Vec::new(), None);
    let listen = |event: &NumberedEvent| {
        events.push(event.clone());
        if event.seq == 25 {
            snapshot = Some(EventLog::read(&path).unwrap());
        }
    };
    run.resume(
        ResumeOptions { concurrency: 3, model_override: slow_model(5), ..resume_options() },
        listen,
    )
    .await
    .unwrap();
    assert!(events.len() > 40, "{}", events.len());
    // The snapshot and the later events together contain every event, without a gap.
    let mut seen = snapshot.unwrap();
    assert_eq!(seen, events[..25]);
    seen.extend(EventLog::read(&path).unwrap().into_iter().filter(|it| it.seq > 25));
    assert_eq!(seen, events);
}

/// Returns a model whose first `lists` answers to requests for the findings of a document are unreadable, and, with
/// `singles`, also all its answers to requests for one finding.
fn unreadable_findings(lists: usize, singles: bool) -> ResumeOptions {
    let model_override = reacting_model(move |_, request| {
        let asks = |text: &str| request.messages.iter().any(|it| it.text().contains(text));
        let answers = request.messages.iter().filter(|it| it.role == llm::Role::Assistant);
        let is_unreadable = if asks("Say what this document shows") {
            answers.count() < lists
        } else {
            singles && asks("State one ")
        };
        if is_unreadable {
            return Reaction::Say("Well, hm.".to_owned());
        }
        Reaction::Delay(Duration::ZERO)
    });
    ResumeOptions { model_override, ..resume_options() }
}

/// Returns the warnings that findings were requested one at a time.
fn one_at_a_time(report: &Report) -> Vec<&String> {
    report.outcome.warnings.iter().filter(|it| it.contains("requested one at a time")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_findings_are_requested_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("once"), run_config(1, 1)).unwrap();
    let (report, _) = finish(&run, unreadable_findings(1, false)).await;
    assert_eq!(report.outcome.findings.len(), 2);
    assert_eq!(one_at_a_time(&report), Vec::<&String>::new());
    let run = Run::create(folder.path().join("always"), run_config(1, 1)).unwrap();
    let ended = run.resume(unreadable_findings(2, true), |_| {}).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("no finding could be read") && error.contains("layer_1"), "{error}");
    // Resuming the run requests the findings again.
    finish(&run, unreadable_findings(0, false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_are_requested_one_at_a_time_if_no_list_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, config) in [("whole", run_config(1, 1)), ("chunks", in_chunks(run_config(1, 1)))] {
        let run = Run::create(folder.path().join(name), config).unwrap();
        let (report, _) = finish(&run, unreadable_findings(2, false)).await;
        assert_eq!(one_at_a_time(&report).len(), 2, "{name}: {:?}", report.outcome.warnings);
        assert!(report.markdown().contains("requested one at a time"), "{name}");
        for findings in &report.outcome.findings {
            let claims: BTreeSet<&String> =
                findings.findings.iter().map(|it| &it.draft.claim).collect();
            match name {
                "whole" => assert_eq!(claims.len(), 8, "{claims:?}"),
                _ => assert!((2..=14).contains(&claims.len()), "{claims:?}"),
            }
            assert!(findings.findings.iter().all(|it| !it.draft.evidence.is_empty()), "{name}");
        }
        let replay = folder.path().join(format!("replay of {name}"));
        let replayed = run.replay(replay, resume_options(), |_| {}).await.unwrap();
        assert_eq!(replayed.report.json(), report.json(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn single_findings_are_not_paid_for_twice() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 1)).unwrap();
    let inferences = &run.config().inferences;
    let [f1, f2] = [&inferences.f1, &inferences.f2].map(|it| it.system_prompt.trim().to_owned());
    let is_from = |request: &Request, prompt: &str| {
        request.system.as_ref().is_some_and(|it| it.contains(prompt))
    };
    // F2 fails, so both inferences are executed again when the run is resumed.
    let failing = reacting_model(move |_, request| {
        let asks = |it: &llm::Message| it.text().contains("Say what this document shows");
        if is_from(request, &f2) {
            Reaction::Fail("the model is unavailable".to_owned())
        } else if request.messages.iter().any(asks) {
            Reaction::Say("Well, hm.".to_owned())
        } else {
            Reaction::Delay(Duration::ZERO)
        }
    });
    let options = ResumeOptions { model_override: failing, ..resume_options() };
    run.resume(options, |_| {}).await.unwrap_err();
    let repeated = reacting_model(move |_, request| {
        assert!(!is_from(request, &f1), "the answers about F1 are in the recording");
        Reaction::Delay(Duration::ZERO)
    });
    let options = ResumeOptions { model_override: repeated, ..resume_options() };
    let (report, _) = finish(&run, options).await;
    let notices = one_at_a_time(&report);
    assert!(matches!(notices.as_slice(), [it] if it.starts_with("F1: ")), "{notices:?}");
}

/// Returns the configuration of a run that reads documents in chunks.
fn in_chunks(config: RunConfig) -> RunConfig {
    let mut table: toml::Table = config.config_toml.parse().unwrap();
    table["inferences"].as_table_mut().unwrap().insert("chunk_lines".to_owned(), 20.into());
    RunConfig { config_toml: table.to_string(), ..config }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_read_in_chunks_if_configured() {
    let folder = tempfile::tempdir().unwrap();
    let config = in_chunks(run_config(1, 1));
    let run = Run::create(folder.path().join("run"), config).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    let prompts = recorded_prompts(run.dir());
    let chunks = prompts.iter().filter(|it| it.contains("which is all you see of it")).count();
    let lines = |name: &str| {
        let text = fs::read_to_string(run.dir().join(name)).unwrap();
        text.lines().count().div_ceil(20)
    };
    assert_eq!(chunks, lines("financial.md") + lines("news.md"));
    for findings in &report.outcome.findings {
        let n_findings = findings.findings.len();
        assert!((8..=14).contains(&n_findings), "{} {n_findings}", findings.inference);
    }
    let replayed = run.replay(folder.path().join("again"), resume_options(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_exceed_the_context_window_are_read_in_chunks() {
    let folder = tempfile::tempdir().unwrap();
    // The context window of this model has 131,072 tokens. The first value is the number of tokens reserved for the
    // answer, and the second is whether the document is then read in chunks.
    for (answer_tokens, in_chunks) in [(4096, false), (121_500, true)] {
        let mut run_config = run_config(1, 1);
        let mut table: toml::Table = run_config.config_toml.parse().unwrap();
        table["models"]["inferences"]["max_tokens"] = answer_tokens.into();
        run_config.config_toml = table.to_string();
        run_config.choice.provider = "groq".to_owned();
        run_config.choice.model = Some("openai/gpt-oss-20b".to_owned());
        let run = Run::create(folder.path().join(answer_tokens.to_string()), run_config).unwrap();
        finish(&run, ResumeOptions { model_override: slow_model(1), ..resume_options() }).await;
        let recording = recording_lines(run.dir()).join("\n");
        assert_eq!(recording.contains("which is all you see of it"), in_chunks, "{answer_tokens}");
    }
}

/// Checks that the analyst of a run received findings without quotations, and that the report contains a warning.
async fn check_shortened_findings(run: &Run, options: ResumeOptions, replay: &Path) {
    let (report, _) = finish(run, options).await;
    let prompts = recorded_prompts(run.dir());
    let of_analyst: Vec<&String> =
        prompts.iter().filter(|it| it.contains("strategic moves for")).collect();
    assert!(!of_analyst.is_empty());
    for prompt in of_analyst {
        assert!(prompt.contains("## F1-") && !prompt.contains("- Evidence, "), "{prompt}");
    }
    let notice = |it: &String| it.contains("received shortened findings");
    assert!(report.outcome.warnings.iter().any(notice), "{:?}", report.outcome.warnings);
    let replayed = run.replay(replay, resume_options(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_that_exceed_the_context_window_of_an_analyst_are_shortened() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("whole"), run_config(1, 1)).unwrap();
    finish(&run, resume_options()).await;
    let recording = Recording::open(run.dir().join("calls.jsonl"), RecordMode::Replay).unwrap();
    let mut requests = recording.answered_calls().map(|it| it.0);
    let whole = requests.find(|it| last_message(it).contains("strategic moves for")).unwrap();
    assert!(whole.messages[0].text().contains("- Evidence, "));

    // A window for which a tenth of the prompt has to be omitted. A twentieth of the window stays free.
    let tokens = estimate_tokens("scripted", &whole) * 9 / 10 + u64::from(whole.max_tokens);
    let mut config = run_config(1, 1);
    let mut table: toml::Table = config.config_toml.parse().unwrap();
    let window = i64::try_from(tokens * 20 / 19).unwrap();
    let analysts = table["models"]["analysts"].as_table_mut().unwrap();
    analysts.insert("context_tokens".to_owned(), window.into());
    config.config_toml = table.to_string();
    let run = Run::create(folder.path().join("small"), config).unwrap();
    check_shortened_findings(&run, resume_options(), &folder.path().join("replay")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_are_shortened_if_the_provider_rejects_the_prompt_as_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 1)).unwrap();
    let model_override = reacting_model(|_, request| {
        let is_analyst = last_message(request).contains("strategic moves for");
        if is_analyst && request.messages[0].text().contains("- Evidence, ") {
            Reaction::TooLong
        } else {
            Reaction::Delay(Duration::ZERO)
        }
    });
    let options = ResumeOptions { model_override, ..resume_options() };
    check_shortened_findings(&run, options, &folder.path().join("replay")).await;
}

/// Searches all files below a directory and returns those that contain `text`.
fn files_containing(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_containing(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn echoed_api_keys_are_never_written_to_disk() {
    const KEY: &str = "sk-ant-api03-AbCdEf_0123456789";
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("said"), run_config(1, 2)).unwrap();
    let leaking = reacting_model(|_, request| {
        if last_message(request).contains("initial counterpoints") {
            return Reaction::Say(format!("Your key is {KEY}, the margin 4%."));
        }
        Reaction::Delay(Duration::ZERO)
    });
    let (report, _) =
        finish(&run, ResumeOptions { model_override: leaking, ..resume_options() }).await;
    assert!(report.json().contains("Your key is [secret], the margin"));
    // A replay reads the redacted answer from the recording, with the same result.
    run.replay(folder.path().join("again"), resume_options(), |_| {}).await.unwrap();

    let run = Run::create(folder.path().join("failed"), run_config(1, 2)).unwrap();
    let failing = reacting_model(|_, _| Reaction::Fail(format!("{KEY} is not known")));
    let error = run
        .resume(ResumeOptions { model_override: failing, ..resume_options() }, |_| {})
        .await
        .unwrap_err();
    assert!(error.to_string().contains("[secret] is not known"), "{error}");
    assert_eq!(files_containing(folder.path(), KEY), [] as [&str; 0]);
    // The recordings are compressed.
    for name in ["said", "failed"] {
        let lines = recording_lines(&folder.path().join(name));
        assert!(!lines.iter().any(|it| it.contains(KEY)), "{name}");
    }
}
