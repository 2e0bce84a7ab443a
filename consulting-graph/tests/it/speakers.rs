//! Runs with speakers of other manners than the scripted model's: late, hard to understand, indiscreet.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use consulting_graph::{
    event::{EventLog, Numbered},
    offline,
    run::{Given, Going, Run},
};
use graph_trace::{Detail, Shape};
use llm::{Error, ErrorKind, Listener, Llm, Model, ModelId, Part, Request, Response};

use crate::run::{finish, given, going, paid};

/// What a speaker does to a call that the scripted model answers.
type Manner = Box<dyn Fn(u64, &Request) -> Manners + Send + Sync>;

pub(crate) enum Manners {
    Late(Duration),
    Says(String),
    Fails(String),
}

/// The scripted model, with manners.
struct Speaker {
    scripted: Llm,
    calls: AtomicU64,
    manner: Manner,
}

impl std::fmt::Debug for Speaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Speaker")
    }
}

pub(crate) fn speaker(
    manner: impl Fn(u64, &Request) -> Manners + Send + Sync + 'static,
) -> Option<Llm> {
    let (scripted, calls) = (offline::model(7).unwrap(), AtomicU64::new(0));
    Some(Llm::new(Speaker { scripted, calls, manner: Box::new(manner) }))
}

#[async_trait]
impl Model for Speaker {
    // Not the name under which the run knows its models.
    fn id(&self) -> ModelId {
        ModelId::new("test", "speaker")
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        match (self.manner)(number, request) {
            Manners::Late(delay) => {
                tokio::time::sleep(delay).await;
                self.scripted.call(request, listener).await
            }
            Manners::Says(text) => {
                let response = self.scripted.call(request, listener).await?;
                Ok(Response { content: vec![Part::text(text)], ..response })
            }
            Manners::Fails(why) => Err(Error::new(ErrorKind::Auth, self.id(), why)),
        }
    }
}

/// Answers after up to some milliseconds, in an order that follows from the seed.
fn late(seed: u64) -> Option<Llm> {
    speaker(move |number, _| {
        let mixed = (number + seed * 1009).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Manners::Late(Duration::from_micros(mixed % 6000))
    })
}

pub(crate) fn last_message(request: &Request) -> String {
    request.messages.last().map(llm::Message::text).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_concurrency_nor_latencies_change_anything() {
    let mut all = Vec::new();
    for (concurrency, seed) in [(1, 1), (4, 2), (15, 3), (15, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::create(folder.path(), given(5, 3)).unwrap();
        let going = Going { concurrency, traced: true, speaker: late(seed), ..going() };
        let (report, traces) = finish(&run, going).await;
        let shown = |it: &graph_trace::Trace| it.text(Shape::new(Detail::Full));
        let traces: Vec<_> = traces.iter().map(|(name, it)| (name.clone(), shown(it))).collect();
        let order: Vec<String> = EventLog::read(&folder.path().join("events.jsonl"))
            .unwrap()
            .iter()
            .map(|it| format!("{:?}", it.event))
            .collect();
        all.push((report.json(), traces, order));
    }
    for other in &all[1..] {
        assert_eq!((&all[0].0, &all[0].1), (&other.0, &other.1));
    }
    // Things did happen in another order.
    assert_ne!(all[0].2, all[2].2);
    assert_ne!(all[2].2, all[3].2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_at_once_never_mix() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, ticker: &str| {
        let given = Given { ticker: ticker.to_owned(), run_id: ticker.to_owned(), ..given(3, 2) };
        Run::create(folder.path().join(name), given).unwrap()
    };
    let told = |run: &Run| -> BTreeSet<String> {
        let events = EventLog::read(&run.folder().join("events.jsonl")).unwrap();
        assert!(events.iter().zip(1..).all(|(it, seq)| it.seq == seq));
        let told: BTreeSet<String> = events.iter().map(|it| format!("{:?}", it.event)).collect();
        assert_eq!(told.len(), events.len());
        told
    };
    let at_once = |seed| Going { concurrency: 3, speaker: late(seed), ..going() };
    let (a, b) = (make("a", "NVDA"), make("b", "KO"));
    let (at_a, at_b) =
        futures_util::future::join(finish(&a, at_once(1)), finish(&b, at_once(2))).await;
    for (run, (report, _), ticker) in [(a, at_a, "NVDA"), (b, at_b, "KO")] {
        let alone = make(&format!("{ticker} alone"), ticker);
        let (expected, _) = finish(&alone, going()).await;
        assert_eq!(report.json(), expected.json());
        assert_eq!(told(&run), told(&alone));
        assert_eq!(paid(run.folder()), paid(alone.folder()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_late_hears_everything_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), given(3, 2)).unwrap();
    let path = folder.path().join("events.jsonl");
    let (mut told, mut begun): (Vec<Numbered>, Option<Vec<Numbered>>) = (Vec::new(), None);
    let listen = |event: &Numbered| {
        told.push(event.clone());
        if event.seq == 25 {
            begun = Some(EventLog::read(&path).unwrap());
        }
    };
    run.go(Going { concurrency: 3, speaker: late(5), ..going() }, listen).await.unwrap();
    assert!(told.len() > 40, "{}", told.len());
    // All that was told before, and then the rest, without a gap.
    let mut heard = begun.unwrap();
    assert_eq!(heard, told[..25]);
    heard.extend(EventLog::read(&path).unwrap().into_iter().filter(|it| it.seq > 25));
    assert_eq!(heard, told);
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_that_cannot_be_read_are_asked_for_once_more() {
    let mumbling = |times: usize| {
        speaker(move |_, request| {
            let asks = |it: &llm::Message| it.text().contains("Say what this document shows");
            let answers = request.messages.iter().filter(|it| it.role == llm::Role::Assistant);
            if request.messages.iter().any(asks) && answers.count() < times {
                return Manners::Says("Well, hm.".to_owned());
            }
            Manners::Late(Duration::ZERO)
        })
    };
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("once"), given(1, 1)).unwrap();
    let (report, _) = finish(&run, Going { speaker: mumbling(1), ..going() }).await;
    assert_eq!(report.outcome.findings.len(), 2);
    let run = Run::create(folder.path().join("twice"), given(1, 1)).unwrap();
    let ended = run.go(Going { speaker: mumbling(2), ..going() }, |_| {}).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("no finding can be read") && error.contains("layer_1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_model_reads_a_document_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let whole = given(1, 1);
    let mut config: toml::Table = whole.config.parse().unwrap();
    config["inferences"].as_table_mut().unwrap().insert("chunk_lines".to_owned(), 20.into());
    let whole = Given { config: config.to_string(), ..whole };
    let run = Run::create(folder.path().join("run"), whole).unwrap();
    let (report, _) = finish(&run, going()).await;
    let recording = fs::read_to_string(run.folder().join("calls.jsonl")).unwrap();
    let pieces = recording.matches("which is all you see of it").count();
    let lines = |name: &str| {
        let text = fs::read_to_string(run.folder().join(name)).unwrap();
        text.lines().count().div_ceil(20)
    };
    assert_eq!(pieces, lines("financial.md") + lines("news.md"));
    for findings in &report.outcome.findings {
        let n_findings = findings.findings.len();
        assert!((8..=14).contains(&n_findings), "{} {n_findings}", findings.inference);
    }
    let replayed = run.replay(folder.path().join("again"), going(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_does_not_fit_is_read_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    // Of the 131,072 tokens that this model has, so many are kept for the answer.
    for (kept, is_cut) in [(4096, false), (121_500, true)] {
        let mut given = given(1, 1);
        let mut config: toml::Table = given.config.parse().unwrap();
        config["models"]["inferences"]["max_tokens"] = kept.into();
        given.config = config.to_string();
        given.choice.provider = "groq".to_owned();
        given.choice.model = Some("openai/gpt-oss-20b".to_owned());
        let run = Run::create(folder.path().join(kept.to_string()), given).unwrap();
        finish(&run, Going { speaker: late(1), ..going() }).await;
        let recording = fs::read_to_string(run.folder().join("calls.jsonl")).unwrap();
        assert_eq!(recording.contains("which is all you see of it"), is_cut, "{kept}");
    }
}

/// The files of a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_somebody_repeats_is_written_nowhere() {
    const KEY: &str = "sk-ant-api03-AbCdEf_0123456789";
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("said"), given(1, 2)).unwrap();
    let leaks = speaker(|_, request| {
        if last_message(request).contains("initial counterpoints") {
            return Manners::Says(format!("Your key is {KEY}, the margin 4%."));
        }
        Manners::Late(Duration::ZERO)
    });
    let (report, _) = finish(&run, Going { speaker: leaks, ..going() }).await;
    assert!(report.json().contains("Your key is [secret], the margin"));
    // A replay has it from the recording, and comes to the same.
    run.replay(folder.path().join("again"), going(), |_| {}).await.unwrap();

    let run = Run::create(folder.path().join("failed"), given(1, 2)).unwrap();
    let fails = speaker(|_, _| Manners::Fails(format!("{KEY} is not known")));
    let error = run.go(Going { speaker: fails, ..going() }, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("[secret] is not known"), "{error}");
    assert_eq!(holding(folder.path(), KEY), [] as [&str; 0]);
}
