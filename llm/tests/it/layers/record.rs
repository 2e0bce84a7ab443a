//! Tests of record and replay.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use llm::{
    Backoff, Budget, Error, ErrorKind, Llm, Message, Piece, RecordMode, Recording,
    RecordingDecoder, RecordingError, Request, Response, Usage,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{answer, error, fake, id, rate_limited};

/// Returns a temporary directory, and a path in it at which no file exists yet.
fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    (folder, path)
}

fn replay(path: &PathBuf) -> Llm {
    Recording::open(path, RecordMode::Replay).unwrap().model(id())
}

/// Makes a thousand concurrent calls: 200 requests, each of them five times. Returns the outcomes as JSON, in the order
/// of the calls.
async fn thousand(llm: Llm) -> Vec<String> {
    let mut calls = JoinSet::new();
    for number in 0..1_000 {
        let llm = llm.clone();
        calls.spawn(async move {
            let request = Request::new(format!("question {}", number % 200))
                .temperature(0.1 * f64::from(number % 200 % 7));
            let outcome = llm.generate(request).await;
            let json = match outcome {
                Ok(response) => serde_json::to_string(&response),
                Err(error) => serde_json::to_string(&error),
            };
            (number, json.unwrap())
        });
    }
    let mut outcomes = calls.join_all().await;
    outcomes.sort();
    outcomes.into_iter().map(|it| it.1).collect()
}

/// Returns a model that gives unique responses, completes calls in random order, and sometimes fails.
fn moody() -> (Llm, Arc<std::sync::atomic::AtomicUsize>) {
    fake(|number, prompt| async move {
        let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        sleep(Duration::from_micros(mixed % 5_000)).await;
        if number % 31 == 0 {
            return Err(rate_limited(Duration::from_nanos(mixed)));
        }
        let latency = Duration::from_nanos(mixed * 1_000_003);
        let text = format!("{prompt}: „{mixed}“ \u{2028} \u{1f30a} {}", 1.0 / (mixed as f64 + 0.1));
        Ok(Response { latency, ..answer(text) })
    })
}

#[tokio::test(start_paused = true)]
async fn thousand_concurrent_calls_replay_exactly() {
    let (_folder, path) = file();
    let (model, calls) = moody();
    let recording = Recording::open(&path, RecordMode::Record).unwrap();
    let recorded = thousand(model.record(&recording)).await;
    assert_eq!(calls.load(Ordering::Relaxed), 1_000);
    assert!(recorded.iter().filter(|it| it.contains("rate_limited")).count() > 10);

    let (model, calls) = moody();
    let recording = Recording::open(&path, RecordMode::Replay).unwrap();
    assert!(!recording.is_truncated());
    let replayed = thousand(model.record(&recording)).await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(replayed, recorded);
    // A replay also works without a model.
    let recording = Recording::open(&path, RecordMode::Replay).unwrap();
    assert_eq!(thousand(recording.model(id())).await, recorded);
    // With several OS threads, identical calls start in any order, so only the set of responses is the same.
    let threads = tokio::task::spawn_blocking(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
        runtime.block_on(thousand(replay(&path)))
    });
    let (mut threads, mut recorded) = (threads.await.unwrap(), recorded);
    threads.sort();
    recorded.sort();
    assert_eq!(threads, recorded);
}

#[tokio::test]
async fn file_has_the_documented_format() {
    let (_folder, path) = file();
    let (model, _) = fake(|number, _| async move {
        if number == 0 { Ok(answer("here")) } else { Err(error(ErrorKind::Refused)) }
    });
    let llm = model.record(&Recording::open(&path, RecordMode::Record).unwrap());
    let request = Request::conversation(vec![Message::user("?").cached()]).cache_system();
    llm.generate(request.clone()).await.unwrap();
    llm.generate(request).await.unwrap_err();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(lines[0]["llm_recording"], 3);
    assert!(lines[0]["date"].as_str().unwrap().ends_with('Z'));
    let mut line = lines[1].clone();
    assert_eq!(line["key"].take().as_str().unwrap().len(), 64);
    let request =
        r#"{"messages":[{"role":"user","parts":[{"type":"text","text":"?"}]}],"max_tokens":4096}"#;
    let expect = serde_json::json!({
        "number": 1,
        "key": null,
        "occurrence": 0,
        "call": { "model": id(), "request": serde_json::from_str::<Value>(request).unwrap() },
        "outcome": { "response": answer("here") },
    });
    assert_eq!(line, expect);
    assert_eq!((&lines[2]["number"], &lines[2]["occurrence"]), (&2.into(), &1.into()));
    assert_eq!(lines[2]["key"], lines[1]["key"]);
    assert_eq!(lines[2]["outcome"]["error"]["kind"], "refused");
}

#[tokio::test]
async fn secrets_are_not_recorded() {
    let (_folder, path) = file();
    let key = "sk-ant-0123456789abcdef";
    let (model, _) = fake(move |number, prompt| async move {
        match number {
            0 => Ok(answer(format!("you said {prompt}"))),
            _ => Err(Error { message: format!("bad key {key}"), ..error(ErrorKind::Auth) }),
        }
    });
    let open = |mode| Recording::open(&path, mode).unwrap().hide("open sesame");
    let llm = model.record(&open(RecordMode::Record));
    let prompt = format!("open sesame with {key}");
    let first = llm.generate(prompt.as_str()).await.unwrap();
    assert_eq!(first.text(), format!("you said {prompt}"), "the response itself was redacted");
    let second = format!("then: {}", first.text());
    llm.generate(second.as_str()).await.unwrap_err();

    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("sesame") && !text.contains(key), "{text}");
    assert!(!format!("{llm:?}").contains("sesame"));
    // The same calls are found in a replay, including one whose prompt quotes a redacted response.
    let llm = open(RecordMode::Replay).model(id());
    let first = llm.generate(prompt.as_str()).await.unwrap();
    assert_eq!(first.text(), "you said [secret] with [secret]");
    let error = llm.generate(format!("then: {}", first.text())).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Auth, "bad key [secret]"));
}

#[tokio::test]
async fn missing_calls_are_recorded() {
    let (_folder, path) = file();
    for (round, made) in [(0, 3), (1, 0), (2, 0)] {
        let (model, calls) =
            fake(|number, prompt| async move { Ok(answer(format!("{prompt} {number}"))) });
        let llm = model.record(&Recording::open(&path, RecordMode::ReplayOrRecord).unwrap());
        for (prompt, expect) in [("a", "a 0"), ("b", "b 1"), ("a", "a 2")] {
            assert_eq!(llm.generate(prompt).await.unwrap().text(), expect, "round {round}");
        }
        assert_eq!(calls.load(Ordering::Relaxed), made, "round {round}");
    }
    let (model, _) = fake(|_, _| async { Ok(answer("new")) });
    let llm = model.record(&Recording::open(&path, RecordMode::ReplayOrRecord).unwrap());
    let mut texts = Vec::new();
    for _ in 0..3 {
        texts.push(llm.generate("a").await.unwrap().text());
    }
    assert_eq!(texts, ["a 0", "a 2", "new"]);
    let llm = replay(&path);
    for expect in texts {
        assert_eq!(llm.generate("a").await.unwrap().text(), expect);
    }
}

#[tokio::test]
async fn failed_calls_are_recorded_again() {
    let (_folder, path) = file();
    let open = |mode| Recording::open(&path, mode).unwrap();
    let (model, _) = fake(|number, _| async move {
        if number == 1 { Ok(answer("second")) } else { Err(error(ErrorKind::Auth)) }
    });
    let llm = model.record(&open(RecordMode::Record));
    for fails in [true, false, true] {
        assert_eq!(llm.generate("?").await.is_err(), fails);
    }
    // A replay returns the recorded failure.
    assert_eq!(replay(&path).generate("?").await, Err(error(ErrorKind::Auth)));

    for (mode, made) in
        [(RecordMode::ReplayOrRecord, 2), (RecordMode::ReplayOrRecord, 0), (RecordMode::Replay, 0)]
    {
        let (model, calls) =
            fake(|number, _| async move { Ok(answer(["first", "third"][number])) });
        let llm = model.record(&open(mode));
        for expect in ["first", "second", "third"] {
            assert_eq!(llm.generate("?").await, Ok(answer(expect)), "{mode:?}");
        }
        assert_eq!(calls.load(Ordering::Relaxed), made, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retried_calls_are_not_repeated() {
    let (_folder, path) = file();
    for (mode, made) in
        [(RecordMode::Record, 3), (RecordMode::ReplayOrRecord, 0), (RecordMode::Replay, 0)]
    {
        let (model, calls) = fake(|number, _| async move {
            if number < 2 { Err(error(ErrorKind::Overloaded)) } else { Ok(answer("here")) }
        });
        let recording = Recording::open(&path, mode).unwrap();
        let llm = model.record(&recording).retry(Backoff::default());
        assert_eq!(llm.generate("?").await, Ok(answer("here")));
        assert_eq!(calls.load(Ordering::Relaxed), made, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_leave_no_gaps() {
    let (_folder, path) = file();
    let (model, _) = fake(|number, _| async move {
        sleep(Duration::from_secs(if number < 2 { 100 } else { 1 })).await;
        Ok(answer(format!("after {number}")))
    });
    let llm = model.record(&Recording::open(&path, RecordMode::Record).unwrap());
    let dropped = || timeout(Duration::from_secs(9), llm.generate("?"));
    let (first, second, third) = tokio::join!(dropped(), dropped(), llm.generate("?"));
    assert!(first.is_err() && second.is_err());
    assert_eq!(replay(&path).generate("?").await, third);
    // Appended responses are returned after the recorded ones, both now and in a replay.
    let (model, _) = fake(|_, _| async { Ok(answer("added")) });
    let added = model.record(&Recording::open(&path, RecordMode::ReplayOrRecord).unwrap());
    assert_eq!(added.generate("?").await, third);
    assert_eq!(added.generate("?").await, Ok(answer("added")));
    let all = replay(&path);
    assert_eq!(all.generate("?").await, third);
    assert_eq!(all.generate("?").await, Ok(answer("added")));
}

#[tokio::test]
async fn live_mode_does_not_touch_the_file() {
    let (_folder, path) = file();
    let (model, calls) = fake(|_, _| async { Ok(answer("here")) });
    let llm = model.record(&Recording::open(&path, RecordMode::Live).unwrap());
    llm.generate("?").await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(!path.exists());
}

#[tokio::test]
async fn replayed_responses_are_streamed() {
    let (_folder, path) = file();
    let (model, _) = fake(|_, _| async { Ok(answer("here")) });
    let llm = model.record(&Recording::open(&path, RecordMode::Record).unwrap());
    llm.generate("?").await.unwrap();
    let mut stream = replay(&path).stream("?");
    assert_eq!(stream.next().await, Some(Piece::Text("here".to_owned())));
    assert_eq!(stream.next().await, None);
    assert_eq!(stream.response().await, Ok(answer("here")));
}

/// Records one call for each of these prompts. Returns the temporary directory and the path of the recording.
async fn recorded(prompts: &[&str]) -> (TempDir, PathBuf) {
    let (folder, path) = file();
    let (model, _) = fake(|_, prompt| async move { Ok(answer(prompt)) });
    let llm = model.record(&Recording::open(&path, RecordMode::Record).unwrap());
    for prompt in prompts {
        llm.generate(*prompt).await.unwrap();
    }
    (folder, path)
}

async fn miss(prompts: &[&str], request: Request) -> String {
    let (_folder, path) = recorded(prompts).await;
    let error = replay(&path).generate(request).await.unwrap_err();
    assert_eq!((error.kind, error.is_retryable()), (ErrorKind::NotRecorded, false));
    error.message.replace(path.to_str().unwrap(), "FILE")
}

#[tokio::test]
async fn miss_describes_the_closest_call() {
    let long = "Rate this move of the company from one to ten: paint the office";
    let prompts = ["How old is the Rhine?", &format!("{long} blue, and say why."), "Sum up."];
    let message = miss(&prompts, Request::new(format!("{long} green, and say why."))).await;
    assert_eq!(
        message,
        "`FILE` does not contain the call \"Rate this move of the company from one t…\"; \
         the closest one, call 2, differs in 1 place, first at `request.messages[0].parts[0].text`: \
         recorded \"…n: paint the office blue, and say why.\", requested \"…n: paint the office green, and say why.\"; \
         record the run again, or record the missing calls"
    );
    let message = miss(&prompts, Request::new("Sum up.").system("A judge.").max_tokens(9)).await;
    assert!(
        message.contains(
            "call 3, differs in 2 places, first at `request.max_tokens`: recorded \"4096\", requested \"9\""
        ),
        "{message}"
    );
    let message = miss(&prompts, Request::new("Sum up.").system("Ein Müller.")).await;
    assert!(
        message
            .contains("first at `request.system`: recorded \"nothing\", requested \"Ein Müller.\""),
        "{message}"
    );
    let message = miss(&[], Request::new("Sum up.")).await;
    assert_eq!(
        message,
        "`FILE` contains no calls, so it cannot answer \"Sum up.\"; record the run first"
    );
}

#[tokio::test]
async fn error_for_an_additional_call_states_the_recorded_number() {
    let (_folder, path) = recorded(&["?", "?"]).await;
    let llm = replay(&path);
    llm.generate("?").await.unwrap();
    llm.generate("?").await.unwrap();
    let error = llm.generate("?").await.unwrap_err();
    assert!(error.message.contains("too few calls like this one (2 recorded, one more"), "{error}");
}

#[tokio::test]
async fn partial_last_line_is_ignored() {
    let (_folder, path) = recorded(&["a", "ü"]).await;
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|it| *it == b'\n').unwrap() + 1;
    for cut in last + 1..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let recording = Recording::open(&path, RecordMode::Replay).unwrap();
        assert!(recording.is_truncated(), "cut at {cut}");
        let llm = recording.model(id());
        assert_eq!(llm.generate("a").await, Ok(answer("a")));
        assert_eq!(llm.generate("ü").await.unwrap_err().kind, ErrorKind::NotRecorded);
    }
    // Appending continues after the last complete line.
    let (model, calls) = fake(|_, prompt| async move { Ok(answer(prompt)) });
    let recording = Recording::open(&path, RecordMode::ReplayOrRecord).unwrap();
    assert!(recording.is_truncated());
    let llm = model.record(&recording);
    assert_eq!(llm.generate("a").await, Ok(answer("a")));
    assert_eq!(llm.generate("ü").await, Ok(answer("ü")));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[tokio::test]
async fn compressed_file_that_is_cut_at_any_byte_keeps_all_complete_calls() {
    let (_folder, path) = file();
    let question = |n: usize| format!("How did the margin change in the quarter number {n}?");
    let recorded = async || {
        let (model, calls) = fake(|_, prompt| async move { Ok(answer(prompt)) });
        let recording = Recording::open(&path, RecordMode::ReplayOrRecord).unwrap().compress();
        let llm = model.record(&recording);
        for n in 0..5 {
            assert_eq!(llm.generate(question(n)).await, Ok(answer(question(n))));
        }
        calls.load(Ordering::Relaxed)
    };
    assert_eq!(recorded().await, 5);
    let whole = fs::read(&path).unwrap();
    let lines = |bytes: &[u8]| bytes.iter().filter(|it| **it == b'\n').count();
    assert_eq!(lines(&whole), 6);
    let header = whole.iter().position(|it| *it == b'\n').unwrap() + 1;
    assert!(!whole[header..].windows(6).any(|it| it == b"margin"), "a call is not compressed");
    for cut in header..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let kept = lines(&whole[..cut]) - 1;
        assert_eq!(recorded().await, 5 - kept, "cut at {cut}");
        // The file is the same as that of a recording that was never interrupted.
        assert_eq!(fs::read(&path).unwrap(), whole, "cut at {cut}");
    }
}

#[tokio::test]
async fn compressed_calls_can_follow_uncompressed_ones() {
    let (_folder, path) = recorded(&["a", "b"]).await;
    // Files of version 2 have no compressed calls.
    let old = fs::read_to_string(&path).unwrap().replacen(":3,", ":2,", 1);
    assert!(old.starts_with(r#"{"llm_recording":2,"#), "{old}");
    fs::write(&path, &old).unwrap();
    let (model, calls) = fake(|_, prompt| async move { Ok(answer(prompt)) });
    let recording = Recording::open(&path, RecordMode::ReplayOrRecord).unwrap().compress();
    let llm = model.record(&recording);
    for prompt in ["a", "b", "c", "d"] {
        assert_eq!(llm.generate(prompt).await, Ok(answer(prompt)));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.len() < old.len() * 3 / 2, "{} after {}", bytes.len(), old.len());

    let mut decoder = RecordingDecoder::default();
    let decode = |it: &[u8]| serde_json::from_slice::<Value>(&decoder.decode(it).unwrap()).unwrap();
    let lines: Vec<Value> = bytes.trim_ascii_end().split(|it| *it == b'\n').map(decode).collect();
    assert_eq!(lines[4]["number"], 4);
    assert_eq!(lines[4]["outcome"]["response"]["content"][0]["text"], "d");
    for prompt in ["a", "b", "c", "d"] {
        assert_eq!(replay(&path).generate(prompt).await, Ok(answer(prompt)));
    }
}

#[tokio::test]
async fn file_truncated_in_its_header_is_recreated() {
    let (_folder, path) = recorded(&["a"]).await;
    let whole = fs::read(&path).unwrap();
    for cut in [0, 5] {
        fs::write(&path, &whole[..cut]).unwrap();
        let (model, _) = fake(|_, prompt| async move { Ok(answer(prompt)) });
        let recording = Recording::open(&path, RecordMode::ReplayOrRecord).unwrap();
        assert_eq!(recording.is_truncated(), cut > 0);
        model.record(&recording).generate("a").await.unwrap();
        assert_eq!(replay(&path).generate("a").await, Ok(answer("a")));
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(Recording::open(&path, RecordMode::Replay).is_err());
    }
}

#[tokio::test]
async fn damage_other_than_a_partial_last_line_is_an_error() {
    let (_folder, path) = recorded(&["a", "b"]).await;
    let whole = fs::read_to_string(&path).unwrap();
    let open = |text: &str| {
        fs::write(&path, text).unwrap();
        let message = [RecordMode::Replay, RecordMode::ReplayOrRecord]
            .map(|it| Recording::open(&path, it).unwrap_err().to_string());
        assert_eq!(message[0], message[1]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "the file was changed");
        message[0].replace(path.to_str().unwrap(), "FILE")
    };
    let message = open(&whole.replacen("\"outcome\"", "\"income\"", 1));
    assert!(
        message.starts_with(
            "`FILE`, line 2, is not a valid line of a recording: missing field `outcome`"
        ),
        "{message}"
    );
    let message = open(&whole.replacen("\"key\":\"", "\"key\":\"x", 2));
    assert!(message.contains("line 2") && message.contains("64 hexadecimal digits"), "{message}");
    let message = open(&whole.replacen("\"llm_recording\":3", "\"llm_recording\":4", 1));
    assert_eq!(
        message,
        "`FILE`, line 1, is not a valid line of a recording: its version is 4, but this program reads up to 3"
    );
    let message = open("{}\n");
    assert!(message.contains("line 1"), "{message}");

    let error = Recording::open(&path, RecordMode::Record).unwrap_err();
    assert!(matches!(error, RecordingError::Exists(_)), "{error}");
    let error = Recording::open(path.with_file_name("none"), RecordMode::Replay).unwrap_err();
    assert!(matches!(error, RecordingError::File { .. }), "{error}");
}

#[tokio::test]
async fn unusable_responses_are_requested_again_and_replaced() {
    let (_folder, path) = file();
    let open = || Recording::open(&path, RecordMode::ReplayOrRecord).unwrap();
    let (model, _) = fake(|_, prompt| async move { Ok(answer(format!("{prompt}: hm"))) });
    let llm = model.record(&open());
    for prompt in ["a", "b"] {
        llm.generate(prompt).await.unwrap();
    }
    let (model, calls) = fake(|_, prompt| async move { Ok(answer(format!("{prompt}: yes"))) });
    let recording = open().repeat(|request, response| {
        assert!(response.text().ends_with("hm"));
        request.prompt() == "a"
    });
    let llm = model.record(&recording);
    assert_eq!(llm.generate("a").await.unwrap().text(), "a: yes");
    assert_eq!(llm.generate("b").await.unwrap().text(), "b: hm");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(replay(&path).generate("a").await.unwrap().text(), "a: yes");
    assert_eq!(open().answered_calls().count(), 3);
}

#[tokio::test]
async fn ignored_calls_are_made_again_but_still_counted() {
    let (_folder, path) = file();
    let open = |mode| Recording::open(&path, mode).unwrap();
    let (model, _) = fake(|number, _| async move { Ok(answer(format!("answer {number}"))) });
    let llm = model.clone().record(&open(RecordMode::ReplayOrRecord));
    let first = llm.generate("a").await.unwrap();
    let recording = open(RecordMode::ReplayOrRecord).ignore_first(1);
    assert_eq!(recording.call_count(), 1);
    let second = model.record(&recording).generate("a").await.unwrap();
    assert_ne!(first, second);
    let replayed = open(RecordMode::Replay).ignore_first(1).model(id()).generate("a").await;
    assert_eq!(replayed.unwrap(), second);
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_recorded_with_the_call_and_charged() {
    let (_folder, path) = file();
    let usage = Usage { input: 7, output: 5, ..Usage::default() };
    let failures = [
        error(ErrorKind::Truncated),
        rate_limited(Duration::ZERO),
        Error { usage: Some(Box::new(usage)), ..error(ErrorKind::Malformed) },
    ];
    let (model, _) = fake(move |number, prompt| {
        // Every attempt of the second call fails.
        let outcome = failures.get(number % 4).cloned().map_or_else(|| Ok(answer("here")), Err);
        async move { if prompt == "b" { Err(error(ErrorKind::Truncated)) } else { outcome } }
    });
    let live = Budget::of_tokens(1_000_000);
    let recording = Recording::open(&path, RecordMode::Record).unwrap();
    let llm = model.budget(&live).retry(Backoff::new(3)).record(&recording);
    llm.generate("a").await.unwrap();
    llm.generate("b").await.unwrap_err();

    let recording = Recording::open(&path, RecordMode::Replay).unwrap();
    assert_eq!(recording.call_count(), 2);
    let paid: Vec<_> = recording.paid_calls(0).map(|it| it.1).collect();
    let first = [None, Some(usage), answer("").usage];
    assert_eq!(paid, [&first[..], &[None; 4]].concat());
    assert_eq!(recording.paid_calls(1).count(), 4);
    let charged = Budget::of_tokens(1_000_000).charge_recording(&recording, 0);
    assert_eq!(charged.spent(), live.spent());
    // A recording layer inside the retries records every attempt as a separate call.
    let (_folder, path) = file();
    let (model, _) = fake(|number, _| async move {
        if number == 0 { Err(error(ErrorKind::Truncated)) } else { Ok(answer("here")) }
    });
    let recording = Recording::open(&path, RecordMode::Record).unwrap();
    model.record(&recording).retry(Backoff::new(3)).generate("a").await.unwrap();
    let recording = Recording::open(&path, RecordMode::Replay).unwrap();
    assert_eq!((recording.call_count(), recording.paid_calls(0).count()), (2, 2));
}
