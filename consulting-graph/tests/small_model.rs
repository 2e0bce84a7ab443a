//! A whole run with a real model of half a billion parameters. The model makes many mistakes, so the run may be
//! incomplete, but it must end with findings and with a report.
//!
//! The run takes a long time, so it needs `GRAPH_NIGHTLY=1` and the model of `cargo xtask model`, or
//! `GRAPH_LOCAL_MODEL` with the path of a GGUF file:
//!
//! ```sh
//! GRAPH_LOCAL_MODEL=$(cargo xtask model | tail -1) \
//!     cargo test --release -p consulting-graph --features local --test small_model -- --nocapture
//! ```
#![cfg(feature = "local")]
#![expect(clippy::print_stdout, reason = "prints how many answers were usable")]
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use consulting_graph::config::DEFAULT;
use llm::{RecordMode, Recording, Request, Response, read_json_as};
use test_support::{is_nightly, peers};

/// Maximum number of tokens of an answer, by group.
const MAX_TOKENS: [(&str, u32); 5] = [
    ("default", 256),
    ("synthesizers", 384),
    ("inferences", 768),
    ("analysts", 1024),
    ("scoring", 256),
];

/// Texts that identify a request after an unusable answer.
const SECOND_REQUESTS: [&str; 4] = [
    "could not be read", "No findings could be read", "This answer cannot be used yet:",
    "State one ",
];

/// Returns the path of the model, or `None` if no model is requested.
fn model() -> Option<PathBuf> {
    if let Some(path) = env::var_os("GRAPH_LOCAL_MODEL") {
        return Some(path.into());
    }
    is_nightly().then(|| peers::dir().join("models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"))
}

/// Returns the configuration of a run with one analyst, one move and one round, for a small context window.
fn config() -> String {
    let mut config: toml::Table = DEFAULT.parse().unwrap();
    config["rounds"] = 1.into();
    config["moves_per_analyst"] = 1.into();
    config["analysts"].as_array_mut().unwrap().truncate(1);
    for (group, tokens) in MAX_TOKENS {
        config["models"][group]["max_tokens"] = tokens.into();
    }
    let default = config["models"]["default"].as_table_mut().unwrap();
    default.insert("context_tokens".to_owned(), 4096.into());
    config.to_string()
}

/// Prints by which method the answers to each kind of request can be parsed, and how many requests followed an unusable
/// answer. Texts, such as the turns of a debate, need not be parsed.
fn print_shares(run: &Path) {
    let recording = Recording::open(run.join("calls.jsonl"), RecordMode::Replay).unwrap();
    let calls: Vec<(Request, Response)> = recording.answered_calls().collect();
    let mut shares: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (request, response) in &calls {
        let share = match &request.schema {
            None => ("text", "not parsed".to_owned()),
            Some(schema) => {
                let parsed = read_json_as(schema, &response.text());
                let method = parsed.map_or("no JSON".to_owned(), |it| it.method.to_string());
                (schema.name.as_str(), method)
            }
        };
        *shares.entry(share).or_default() += 1;
    }
    for ((kind, method), n) in &shares {
        let percent = 100 * n / calls.len();
        println!("{n:>4} answers, {percent:>3} %: {kind}, {method}");
    }
    let is_second = |(request, _): &&(Request, Response)| {
        let text = serde_json::to_string(request).unwrap();
        SECOND_REQUESTS.iter().any(|it| text.contains(it))
    };
    let n_second = calls.iter().filter(is_second).count();
    println!("{n_second} of {} requests followed an unusable answer", calls.len());
}

#[test]
fn a_small_model_ends_with_findings_and_a_report() {
    let Some(model) = model() else {
        println!("skipped; set GRAPH_NIGHTLY=1 or GRAPH_LOCAL_MODEL, see the top of this file");
        return;
    };
    assert!(model.is_file(), "{} is missing; `cargo xtask model` downloads it", model.display());
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), config()).unwrap();
    let options = "run NVDA --config small.toml --as-of 2026-11-15 --out run --sandbox in-process --isolation off \
                   --first-byte-timeout 7200 --idle-timeout 7200 --call-timeout 14400 --provider local --model";
    let mut command = Command::new(env!("CARGO_BIN_EXE_consulting"));
    command.args(options.split_whitespace()).arg(&model).current_dir(dir.path());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{}\n{errors}", String::from_utf8_lossy(&output.stdout));
    let run = dir.path().join("run");
    print_shares(&run);
    // The run is complete, or it has a report that says what is missing.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{:?}\n{errors}", output.status);
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("qwen") || env::var_os("GRAPH_LOCAL_MODEL").is_some(), "{report}");
    for (file, id) in [("F1.md", "F1-01"), ("F2.md", "F2-01")] {
        let text = fs::read_to_string(run.join(file)).unwrap();
        assert!(text.contains(id), "{file}:\n{text}");
    }
}
