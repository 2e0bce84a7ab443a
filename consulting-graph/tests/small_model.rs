//! A whole run with a real model of half a billion parameters on llama.cpp's server. The model makes many mistakes, so
//! the run may be incomplete, but it must end with findings and with a report that names what is missing.
//!
//! The test takes about 20 minutes on two cores, so it runs only with `GRAPH_NIGHTLY=1`. It needs llama.cpp's server,
//! which `cargo xtask test` installs, and the model of `cargo xtask model`; `GRAPH_LOCAL_MODEL` is the path of another
//! GGUF file:
//!
//! ```sh
//! GRAPH_NIGHTLY=1 cargo test --release -p consulting-graph --test small_model
//! ```
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use consulting_graph::config::DEFAULT;
use llm::{Finish, RecordMode, Recording, Request, Response, Usage, read_json_as};
use serde_json::Value;
use test_support::{
    is_nightly,
    llama::{self, Llama},
    peers, report_measured, report_nightly_only,
    server::Server,
};

/// Context window of the server in tokens. The documents do not fit into it.
const CONTEXT: u32 = 4096;

/// Maximum number of tokens of an answer, by group.
const MAX_TOKENS: [(&str, u32); 4] =
    [("default", 256), ("inferences", 768), ("analysts", 1024), ("scoring", 256)];

/// Texts that identify a request after an unusable answer.
const SECOND_REQUESTS: [&str; 4] = [
    "could not be read", "No findings could be read", "This answer cannot be used yet:",
    "State one ",
];

#[test]
fn a_small_model_ends_with_findings_and_a_report() {
    if !is_nightly() {
        report_nightly_only("a run with a real model takes about 20 minutes");
        return;
    }
    let server = Server::start(&llama().command());
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), config()).unwrap();
    let options = "run NVDA --config small.toml --as-of 2026-11-15 --out run --sandbox in-process --isolation off \
                   --first-byte-timeout 7200 --idle-timeout 7200 --call-timeout 14400 \
                   --provider openai-compatible --model qwen2.5-coder-0.5b";
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_consulting"));
    command.args(options.split_whitespace()).current_dir(dir.path());
    command.env("OPENAI_COMPATIBLE_BASE_URL", format!("{}/v1", server.url));
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    report_measured(&format!(
        "the run took {} s and ended with {}",
        start.elapsed().as_secs(),
        output.status
    ));
    let run = dir.path().join("run");
    report_answers(&run);
    // The run is complete, or it has a report that says what is missing.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 4)), "{code:?}\n{errors}\n{}", server.log());
    check_report(&run, code == Some(0));
    for (file, id) in [("F1.md", "F1-01"), ("F2.md", "F2-01")] {
        let text = fs::read_to_string(run.join(file)).unwrap();
        assert!(text.contains(id), "{file}:\n{text}");
    }
}

/// Returns the server with the model.
fn llama() -> Llama {
    let folder = peers::dir().join(llama::FOLDER);
    assert!(folder.is_dir(), "{} is missing; `cargo xtask test` installs it", folder.display());
    let model = env::var_os("GRAPH_LOCAL_MODEL").map_or_else(
        || peers::dir().join("models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        PathBuf::from,
    );
    assert!(model.is_file(), "{} is missing; `cargo xtask model` downloads it", model.display());
    Llama { model, context: CONTEXT, threads: 2, ..Llama::new(&folder) }
}

/// Returns the configuration of a run with one analyst, one move and one round.
fn config() -> String {
    let mut config: toml::Table = DEFAULT.parse().unwrap();
    config["rounds"] = 1.into();
    config["moves_per_analyst"] = 1.into();
    config["analysts"].as_array_mut().unwrap().truncate(1);
    for (group, tokens) in MAX_TOKENS {
        config["models"][group]["max_tokens"] = tokens.into();
    }
    config.to_string()
}

/// Prints the number of tokens and, for each kind of request, how many answers each method can parse. Texts, such as
/// the turns of a debate, are not parsed.
fn report_answers(run: &Path) {
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
        report_measured(&format!("{n} answers, {percent} %: {kind}, {method}"));
    }
    let is_second = |(request, _): &&(Request, Response)| {
        let text = serde_json::to_string(request).unwrap();
        SECOND_REQUESTS.iter().any(|it| text.contains(it))
    };
    let n_second = calls.iter().filter(is_second).count();
    let n_cut = calls.iter().filter(|it| it.1.finish == Finish::Length).count();
    let usage: Vec<Usage> = calls.iter().filter_map(|it| it.1.usage).collect();
    let sum = |tokens: fn(&Usage) -> u64| usage.iter().map(tokens).sum::<u64>();
    let [input, cached, output] = [sum(|it| it.input), sum(|it| it.cached), sum(|it| it.output)];
    report_measured(&format!(
        "{} answers, of which {n_second} followed an unusable answer and {n_cut} were cut off; \
         {input} tokens in, of which {cached} cached, and {output} tokens out",
        calls.len()
    ));
}

/// Checks that the report names the model and, if the run is incomplete, starts with what is missing.
fn check_report(run: &Path, is_complete: bool) {
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("openai-compatible/qwen2.5-coder-0.5b"), "{report}");
    let start = report.split("## Answer").next().unwrap();
    let failures: Value =
        serde_json::from_str(&fs::read_to_string(run.join("report.json")).unwrap()).unwrap();
    let failures = failures["outcome"]["failures"].as_array().map_or(0, Vec::len);
    assert_eq!(start.contains("Incomplete: "), !is_complete, "{report}");
    assert!(is_complete || failures > 0, "{report}");
}
