//! Tests of the scripted model.

mod reading;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use llm::{
    Error, ErrorKind, Finish, Llm, Message, Model, ModelId, Money, Phase, Piece, Request, Rule,
    Rung, Schema, Script, Scripted, Tool, read_json,
    scripted::{Failure, ViolationKind},
};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::time::Instant;

fn model(script: Script) -> Llm {
    Llm::new(Scripted::new(script).expect("the script is valid"))
}

async fn say(llm: &Llm, request: impl Into<Request>) -> String {
    llm.generate(request).await.expect("a rule matches").text()
}

/// A script with an analyst, a critic and a judge.
const DEBATE: &str = r#"
name = "debate"
seed = 7

[lists]
opening = ["Look at the numbers first.", "Start with the customer.", "Begin with what can go wrong.", "Ask who pays."]
doubt = ["{ticker} has tried this before.", "The {price|timing} is off by {2..5} quarters.", "[{any fact}] says otherwise."]

[[rules]]
when = { system = "analyst", schema = "Move" }
captures = { ticker = "Ticker: {}" }
answer = { json = { title = "{Widen|Narrow} the {ticker} range", impact = "{4..9}", cost = "{0.50..0.95}", tags = ["{ticker}", "pricing"] } }

[[rules]]
when = { system = "critic" }
captures = { ticker = "Ticker: {}", fact = { find = "[{}]", or = "F0-00" }, round = "Round {} of" }
turn = "round"
answer = { text = "{opening} {doubt} {{sic}}" }

[[rules]]
when = { prompt = "judge*now", times = [1, 2] }
failure = { kind = "rate_limited", retry_after_ms = 1500 }

[[rules]]
when = { prompt = "judge*now" }
answer = { text = "Fair enough." }
"#;

#[derive(Debug, Deserialize, JsonSchema)]
struct Move {
    title: String,
    #[schemars(range(min = 1, max = 10))]
    impact: u8,
    cost: f64,
    tags: Vec<String>,
}

fn debate() -> Llm {
    model(toml::from_str(DEBATE).expect("the script is valid"))
}

#[tokio::test]
async fn scripts_are_loaded_from_toml() {
    let llm = debate();
    let analyst = Request::new("Ticker: ACME\nPropose a move.").system("You are an Analyst.");
    let moved = llm.generate_json::<Move>(analyst).await.unwrap();
    let Move { title, impact, cost, tags } = moved.value;
    assert_eq!((moved.rung, tags), (Rung::Schema, vec!["ACME".to_owned(), "pricing".to_owned()]));
    assert!(
        title.ends_with(" the ACME range")
            && (4..=9).contains(&impact)
            && (0.5..=0.95).contains(&cost)
    );

    let critic = |round| {
        let prompt = format!("Ticker: ACME\nFacts: [F1-07] [F2-03]\nRound {round} of 10");
        Request::new(prompt).system("You are the critic.")
    };
    let mut openings = BTreeSet::new();
    let mut doubts = BTreeSet::new();
    for round in 1..=4 {
        let said = say(&llm, critic(round)).await;
        assert!(said.ends_with(" {sic}"), "{said}");
        let (opening, doubt) = said.split_once(". ").unwrap();
        openings.insert(opening.to_owned());
        doubts.insert(doubt.to_owned());
    }
    assert_eq!(openings.len(), 4, "an opening was repeated before all were used: {openings:?}");
    assert!(doubts.iter().any(|it| it.starts_with("ACME has tried")), "{doubts:?}");
    assert!(
        doubts.iter().any(|it| it.starts_with("[F1-07]") || it.starts_with("[F2-03]")),
        "{doubts:?}"
    );
}

#[tokio::test]
async fn first_occurrences_can_fail() {
    let llm = debate();
    for _ in 0..2 {
        let error = llm.generate("Judge it now").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::RateLimited);
        assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));
        assert_eq!(error.model, ModelId::new("scripted", "debate"));
    }
    assert_eq!(say(&llm, "Judge it now").await, "Fair enough.");
    // Occurrences are counted per request, so another request fails again.
    assert!(llm.generate("Judge that now").await.is_err());
}

#[tokio::test]
async fn answers_depend_on_seed_and_request_only() {
    let script = |seed| Script::new("dice").seed(seed).rule(Rule::text("{1..1000000} {a|b|c|d}"));
    let prompts: Vec<String> = (0..40).map(|n| format!("throw {n}")).collect();
    let mut answers = Vec::new();
    let llm = model(script(1));
    for prompt in &prompts {
        answers.push(say(&llm, prompt.as_str()).await);
    }
    let llm = model(script(1));
    for (prompt, answer) in prompts.iter().zip(&answers).rev() {
        assert_eq!(&say(&llm, prompt.as_str()).await, answer);
    }
    let different: BTreeSet<&String> = answers.iter().collect();
    assert!(different.len() > 35);
    assert_ne!(say(&llm, "throw 0").await, answers[0], "the second occurrence has the same answer");
    assert_ne!(
        say(&model(script(2)), "throw 0").await,
        answers[0],
        "another seed has the same answer"
    );
}

#[tokio::test]
async fn failures_are_random_and_may_follow_some_words() {
    let failure = Failure {
        kind: ErrorKind::Timeout(Phase::Idle),
        chance: 0.5,
        after_words: 2,
        retry_after_ms: None,
    };
    let llm = model(
        Script::new("shaky").seed(3).rule(Rule::text("one two three four").with_failure(failure)),
    );
    let mut failed = 0;
    for n in 0..100 {
        let mut stream = llm.stream(format!("call {n}"));
        let mut received = 0;
        while stream.next().await.is_some() {
            received += 1;
        }
        match stream.response().await {
            Ok(_) => assert_eq!(received, 4),
            Err(error) => {
                assert_eq!((error.kind, received), (ErrorKind::Timeout(Phase::Idle), 2));
                failed += 1;
            }
        }
    }
    assert!((30..=70).contains(&failed), "{failed} of 100 failed");
}

#[tokio::test(start_paused = true)]
async fn words_are_delayed() {
    let llm = model(Script::new("slow").rule(Rule::text("one two three").timing(500, 100)));
    let start = Instant::now();
    let mut stream = llm.stream("go");
    let mut received = Vec::new();
    while let Some(piece) = stream.next().await {
        let Piece::Text(word) = piece else { panic!("{piece:?}") };
        received.push((word, start.elapsed().as_millis()));
    }
    let expected = [("one ", 600), ("two ", 700), ("three", 800)];
    assert_eq!(received, expected.map(|(word, at)| (word.to_owned(), at)));
    let response = stream.response().await.unwrap();
    assert_eq!(response.latency, Duration::from_millis(800));
    assert_eq!(response.cost, Some(Money::ZERO));
    let start = Instant::now();
    llm.generate("go").await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 800, "a call without a listener has another duration");
}

#[tokio::test]
async fn stop_sequences_and_token_limits_apply() {
    let llm = model(
        Script::new("long")
            .rule(Rule::text("one two three END four".to_owned() + &" word".repeat(99))),
    );
    let stopped = llm.generate(Request::new("go").stop("END")).await.unwrap();
    assert_eq!((stopped.text().as_str(), stopped.finish), ("one two three ", Finish::Stop));
    let cut = llm.generate(Request::new("go").max_tokens(7)).await.unwrap();
    assert_eq!((cut.text().as_str(), cut.finish), ("one two three ", Finish::Length));
    let usage = cut.usage.unwrap();
    assert!(usage.output <= 7 && usage.input > 0);
}

#[tokio::test]
async fn tool_calls_are_generated() {
    let rule = Rule::tool("search", json!({"query": "{ticker} filings", "limit": "{3..3}"}))
        .capture("ticker", "Ticker: {}");
    let llm = model(Script::new("caller").rule(rule));
    let tool =
        Tool { name: "search".to_owned(), description: String::new(), parameters: json!({}) };
    let response = llm.generate(Request::new("Ticker: ACME").tool(tool)).await.unwrap();
    let call = response.tool_calls().next().unwrap();
    assert_eq!(call.arguments, json!({"query": "ACME filings", "limit": 3}));
    assert_eq!(response.finish, Finish::ToolCalls);
}

#[tokio::test]
async fn violations_reach_the_expected_rung() {
    let cases = [
        (ViolationKind::Fenced, Rung::JsonExtracted),
        (ViolationKind::Prose, Rung::JsonExtracted),
        (ViolationKind::WrongTypes, Rung::Json),
        (ViolationKind::Broken, Rung::Repaired),
        (ViolationKind::Empty, Rung::Repaired),
    ];
    for (violation, rung) in cases {
        let script = Script::new("flawed")
            .rule(Rule::schema().when_prompt("return only"))
            .rule(Rule::schema().violation(violation));
        let read = model(script).generate_json::<Flat>("go").await.unwrap();
        assert_eq!(read.rung, rung, "{violation:?}");
    }
}

#[tokio::test]
async fn request_without_matching_rule_is_an_error() {
    let error: Error = model(Script::new("empty")).generate("Hello").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(error.message.contains("\"Hello\"") && error.message.contains("add a rule"), "{error}");
    // A rule does not apply if one of its captures finds nothing and has no fallback.
    let script = Script::new("asks").rule(Rule::text("{x}").capture("x", "X={}"));
    assert!(model(script).generate("Hello").await.is_err());
}

#[tokio::test]
async fn long_lines_are_searched_in_linear_time() {
    let script = Script::new("asks").rule(Rule::text("{x}").capture("x", "{} should"));
    let start = std::time::Instant::now();
    assert!(model(script).generate("word ".repeat(100_000)).await.is_err());
    // A linear search takes less than a second; a quadratic one would take minutes.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}

#[test]
fn invalid_scripts_are_explained() {
    let problem = |script: Script| Scripted::new(script).unwrap_err().to_string();
    let script = || Script::new("s").list("word", ["a", "b"]);
    let cases = [
        (
            script().rule(Rule::text("{tickr}").capture("ticker", "T: {}")),
            "script `s`, rule 1: `{tickr}` is neither a capture (ticker) nor a list (word)",
        ),
        (script().rule(Rule::text("{word")), "rule 1: a `{` is not closed"),
        (script().rule(Rule::text("word}")), "rule 1: a `}` has no matching `{`"),
        (script().rule(Rule::text("{9..1}")), "`{9..1}` is not a valid range"),
        (script().rule(Rule::text("x").capture("y", "no place")), "needs exactly one `{}`"),
        (script().rule(Rule::text("x").turn("round")), "`turn` refers to `round`"),
        (script().list("loop", ["{loop}"]), "list `loop`: `{loop}` refers to itself"),
        (script().list("none", [""; 0]).rule(Rule::text("{none}")), "the list `none` is empty"),
    ];
    for (script, expected) in cases {
        let problem = problem(script);
        assert!(problem.contains(expected), "{problem}");
    }
    assert!(toml::from_str::<Script>("name = 's'\nruels = []").is_err());
}

#[test]
fn scripts_round_trip_through_json_and_toml() {
    let script: Script = toml::from_str(DEBATE).unwrap();
    let json = serde_json::to_string(&script).unwrap();
    assert_eq!(serde_json::from_str::<Script>(&json).unwrap(), script);
    assert_eq!(toml::from_str::<Script>(&toml::to_string(&script).unwrap()).unwrap(), script);
}

#[tokio::test]
async fn phrases_do_not_repeat_soon() {
    let phrases: Vec<String> = (0..10).map(|n| format!("phrase {n}.")).collect();
    let llm = model(Script::new("talk").list("phrase", phrases).rule(Rule::text("{phrase}")));
    let mut request = Request::new("Begin").system("You are D1.");
    let mut said = BTreeSet::new();
    for _ in 0..10 {
        let answer = say(&llm, request.clone()).await;
        request =
            request.message(Message::assistant(answer.as_str())).message(Message::user("Go on"));
        said.insert(answer);
    }
    assert_eq!(said.len(), 10);
}

#[test]
fn id_names_the_scripted_provider() {
    let llm = model(Script::new("debate"));
    assert_eq!(llm.id().to_string(), "scripted/debate");
    assert!(format!("{llm:?}").contains("Scripted"));
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
struct Flat {
    #[schemars(range(min = 1, max = 10))]
    impact: u8,
    done: bool,
    #[schemars(range(min = 0.0, max = 1.0))]
    confidence: f64,
    reasoning: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only deserialized")]
struct Nested {
    id: u64,
    offset: i32,
    flat: Flat,
    maybe: Option<Box<Self>>,
    #[schemars(length(min = 2, max = 4))]
    many: Vec<Flat>,
    #[schemars(length(min = 20, max = 60))]
    title: String,
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Level {
    /// Has a doc comment, so that the schema has a subschema for each variant.
    Low,
    /// The other variant.
    VeryHigh,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "only deserialized")]
enum Tagged {
    Buy { shares: u32 },
    Hold,
    Sell { shares: u32, reason: Option<String> },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
enum External {
    Unit,
    Newtype(f32),
    Tuple(u8, String),
    Struct { level: Level },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only deserialized")]
enum Untagged {
    Number(i64),
    Words(String),
    List(Vec<bool>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
enum Expression {
    Number(f64),
    Sum(Vec<Self>),
    Product(Box<Self>, Box<Self>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
struct Flattened {
    name: String,
    #[serde(flatten)]
    flat: Flat,
    #[serde(flatten)]
    tagged: Tagged,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
struct Collections {
    by_name: BTreeMap<String, u8>,
    by_number: BTreeMap<u32, Level>,
    levels: BTreeSet<Level>,
    pair: (u8, String),
    three: [i16; 3],
    letter: char,
    anything: serde_json::Value,
    unit: (),
    duration: Duration,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
struct Ranges {
    #[schemars(range(min = -5, max = -2))]
    below: i64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 0.01))]
    narrow: f64,
    #[schemars(extend("multipleOf" = 5), range(min = 11, max = 29))]
    fives: u32,
    #[schemars(email)]
    email: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
struct Wrapper(Option<Vec<Option<Level>>>);

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only deserialized")]
struct Tree {
    name: String,
    children: Vec<Self>,
}

/// Checks that the generated answer parses as the type without changes.
async fn check<T: JsonSchema + DeserializeOwned>(llm: &Llm, n: u64) {
    let request = Request::new(format!("Fill form {n}.")).max_tokens(100_000);
    let schema = Schema::of::<T>();
    let reply = say(llm, request.schema(schema.clone())).await;
    match read_json::<T>(&reply) {
        Ok(read) => {
            assert_eq!(read.rung, Rung::Schema, "{}: {:?}: {reply}", schema.name, read.notes)
        }
        Err(error) => panic!("{}: {error}: {reply}\n{:#}", schema.name, schema.schema),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn generated_values_conform_to_schemas(seed: u64, n: u64) {
        let llm = model(Script::new("forms").seed(seed));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            check::<Flat>(&llm, n).await;
            check::<Nested>(&llm, n).await;
            check::<Level>(&llm, n).await;
            check::<Tagged>(&llm, n).await;
            check::<External>(&llm, n).await;
            check::<Untagged>(&llm, n).await;
            check::<Expression>(&llm, n).await;
            check::<Flattened>(&llm, n).await;
            check::<Collections>(&llm, n).await;
            check::<Ranges>(&llm, n).await;
            check::<Wrapper>(&llm, n).await;
            check::<Tree>(&llm, n).await;
            check::<Vec<Nested>>(&llm, n).await;
        });
    }
}
