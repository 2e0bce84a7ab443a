//! Tests of the HTML page in a browser.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "page/browser.rs"]
mod browser;

use std::time::Duration;

use browser::Browser;
use graph_core::{
    CompiledGraph, Context, NodeError, NodeExt, RetryPolicy, Route, RunOptions, START, State,
    StateGraph, subgraph,
};
use graph_trace::{GraphTrace, Header, RunStatus, StepTrace, TaskTrace, Timing, Trace, record};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    parts: Vec<String>,
    title: String,
    extra: Value,
}

#[derive(Route)]
enum FanOut {
    #[to(write)]
    Parts(Vec<u32>),
    #[to(never)]
    Never,
}

fn fan_out(essay: &Essay) -> FanOut {
    if essay.topic.is_empty() { FanOut::Never } else { FanOut::Parts(vec![1, 2]) }
}

async fn plan(_: &Essay, cx: &Context) -> Result<(), NodeError> {
    cx.emit(json!({ "plans": cx.attempt() })).await;
    match cx.attempt() {
        1 => Err("no idea yet".into()),
        _ => Ok(()),
    }
}

async fn write(part: u32, cx: &Context) -> Result<EssayUpdate, NodeError> {
    let fact = cx.task("look up", part, async { Ok(format!("fact {part}")) }).await?;
    Ok(Essay::update().parts([fact]))
}

async fn never(_: &Essay) {}

async fn name(_: &Essay) -> EssayUpdate {
    // JavaScript's numbers are floating-point numbers, which cannot represent this integer exactly.
    Essay::update().title("On tea").extra(json!({ "large": 9007199254740993_u64 }))
}

fn graph() -> CompiledGraph<Essay> {
    let naming = StateGraph::<Essay>::new().node(name).edge(START, name).compile().unwrap();
    let output = |it: Essay| Essay::update().title(it.title).extra(it.extra);
    let retry = RetryPolicy::max_attempts(2).backoff(Duration::from_millis(1), 1.0);
    StateGraph::<Essay>::new()
        .node(plan.retry(retry))
        .node(write)
        .node(never)
        .node(subgraph("naming", &naming, Essay::clone, output))
        .edge(START, plan)
        .branch(plan, fan_out)
        .edge(write, "naming")
        .compile()
        .unwrap()
}

async fn traced() -> Trace {
    let essay = Essay { topic: "tea".into(), ..Essay::default() };
    record(&graph(), essay, (), RunOptions::new()).await.trace
}

/// Selects the first task of a node in the list.
fn select_task(browser: &mut Browser, node: &str) {
    let script = "(name) => [...document.querySelectorAll('#rows .task')]\
                  .find((it) => it.querySelector('.name').textContent === name).click()";
    browser.eval(&format!("({script})({})", json!(node)));
}

fn text(browser: &mut Browser, selector: &str) -> String {
    let script = format!("document.querySelector({}).textContent", json!(selector));
    browser.eval(&script).as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn assert_no_problems(browser: &mut Browser) {
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn every_superstep_is_reachable_by_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let trace = traced().await;
    browser.open(&trace.html("a run", &graph().drawing(1)));
    assert_eq!(text(&mut browser, "title"), "a run");
    assert_eq!(text(&mut browser, ".end"), "done");
    let listed = browser
        .eval("[...document.querySelectorAll('#rows .row .name')].map((it) => it.textContent)");
    let expected = [
        "Input, step 0", "Superstep 1", "plan", "Superstep 2", "write", "write", "Superstep 3",
        "naming", "Input, step 0", "Superstep 1", "name",
    ];
    assert_eq!(listed, json!(expected));
    browser.press("Home");
    for superstep in ["Superstep 1", "Superstep 2", "Superstep 3", "Superstep 3"] {
        browser.press("ArrowRight");
        assert_eq!(text(&mut browser, "#detail h2"), superstep);
    }
    browser.press("ArrowLeft");
    browser.press("ArrowDown");
    assert_eq!(text(&mut browser, "#detail h2"), "write");
    assert_no_problems(&mut browser);
}

#[tokio::test]
async fn a_task_shows_its_actions() {
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&traced().await.html("a run", &graph().drawing(1)));
    select_task(&mut browser, "write");
    let change = text(&mut browser, "#change");
    assert!(
        change.contains("+") && change.contains("fact 1") && change.contains("fact 2"),
        "{change}"
    );
    let signs = "[...document.querySelectorAll('#change .sign')].map((it) => it.ariaLabel)";
    assert_eq!(browser.eval(signs), json!(["changed", "added", "added"]));
    let detail = text(&mut browser, "#detail");
    for part in ["Writes", "look up", "Input"] {
        assert!(detail.contains(part), "no {part}: {detail}");
    }
    select_task(&mut browser, "plan");
    let detail = text(&mut browser, "#detail");
    for part in
        ["no idea yet", "Failed attempts", "Custom events", "plans", "Routes and sends", "write"]
    {
        assert!(detail.contains(part), "no {part}: {detail}");
    }
    select_task(&mut browser, "naming");
    let change = text(&mut browser, "#change");
    assert!(change.contains("On tea") && change.contains("9007199254740993"), "{change}");
    assert_no_problems(&mut browser);
}

#[tokio::test]
async fn the_executed_path_is_highlighted() {
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&traced().await.html("a run", &graph().drawing(1)));
    let ran = "[...document.querySelectorAll('#graph .node')].map((it) => \
               [it.querySelector('text').textContent, it.classList.contains('ran'), \
               it.querySelector('text.count')?.textContent ?? ''])";
    let nodes = browser.eval(ran);
    let expected = json!([
        ["naming", true, ""],
        ["start", true, ""],
        ["name", true, ""],
        ["start", true, ""],
        ["never", false, ""],
        ["plan", true, ""],
        ["write", true, "×2"],
    ]);
    let sorted = |value: &Value| {
        let mut nodes: Vec<_> = value.as_array().unwrap().iter().map(Value::to_string).collect();
        nodes.sort();
        nodes
    };
    assert_eq!(sorted(&nodes), sorted(&expected));
    // The taken edges are start-plan, plan-write, write-naming and the edge in the subgraph, but not plan-never.
    assert_eq!(browser.eval("document.querySelectorAll('path.edge').length"), 5);
    assert_eq!(browser.eval("document.querySelectorAll('path.edge.taken').length"), 4);
    let highlighted = "document.querySelector('#graph .node.now text').textContent";
    select_task(&mut browser, "write");
    assert_eq!(browser.eval(highlighted), "write");
    // Nodes do not overlap, unless one contains the other.
    let overlaps = "(() => { const boxes = data => [...document.querySelectorAll('#graph .node:not(.open) > rect:first-of-type')].map((it) => it.getBBox()); \
        const all = boxes(); return all.some((a, i) => all.some((b, j) => i < j && a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)); })()";
    assert_eq!(browser.eval(overlaps), false);
    assert_no_problems(&mut browser);
}

const HOSTILE: &[&str] = &[
    "</script><script>window.hacked = 1</script>", "<img src=x onerror=\"window.hacked = 1\">",
    "<!--<script>", "--></style><b>", "\u{2028}window.hacked = 1\u{2029}",
    "\"'`${window.hacked = 1}", "&lt;b&gt; \\u003cb\\u003e", "__proto__", "constructor",
    "]]></svg>", "🫖 عربي",
];

async fn emit_hostile_values(_: &Essay, cx: &Context) -> Result<EssayUpdate, NodeError> {
    let all: serde_json::Map<_, _> =
        HOSTILE.iter().map(|it| ((*it).to_owned(), json!([it]))).collect();
    cx.emit(&all).await;
    cx.message(&all).await;
    for text in HOSTILE {
        cx.task(text, text, async { Ok((*text).to_owned()) }).await?;
    }
    let parts: Vec<_> = HOSTILE.iter().map(|it| (*it).to_owned()).collect();
    Ok(Essay::update().title(HOSTILE[0]).parts(parts).extra(all))
}

async fn fail(_: &Essay) -> Result<(), NodeError> {
    Err(HOSTILE.join("\n").into())
}

#[tokio::test]
async fn hostile_values_are_rendered_as_text() {
    let Some(mut browser) = Browser::start() else { return };
    let mut graph = StateGraph::<Essay>::new().node(fail);
    let mut before = "__start__".to_owned();
    for name in HOSTILE.iter().filter(|it| !it.contains("__")).map(|it| it.replace([':', '|'], ""))
    {
        graph = graph.node_as(name.clone(), emit_hostile_values).edge(before, name.clone());
        before = name;
    }
    let graph = graph.edge(before, fail).compile().unwrap();
    let trace = record(&graph, Essay::default(), (), RunOptions::new()).await.trace;
    assert!(matches!(trace.end, RunStatus::Failed(_)));

    browser.open(&trace.html(HOSTILE[0], &graph.drawing(1)));
    assert_eq!(text(&mut browser, "h1"), HOSTILE[0]);
    assert!(text(&mut browser, ".why").contains(HOSTILE[1]));
    browser.press("Home");
    let named = browser
        .eval("[...document.querySelectorAll('#rows .task .name')].map((it) => it.textContent)");
    assert!(named.as_array().unwrap().contains(&json!(HOSTILE[0])), "{named}");
    for _ in 0..2 * HOSTILE.len() {
        browser.press("ArrowDown");
        browser
            .eval("document.querySelectorAll('#detail details').forEach((it) => it.open = true)");
        // Gives the page time to fill the expanded elements. They are filled only when they are opened.
        browser.eval("new Promise((done) => setTimeout(done, 20))");
    }
    browser.press("ArrowUp");
    browser.press("ArrowUp");
    let detail = text(&mut browser, "#detail");
    for text in HOSTILE.iter().filter(|it| !it.contains('\u{2028}')) {
        assert!(detail.matches(text).count() > 4, "`{text}` is not shown: {detail}");
    }
    assert_eq!(browser.eval("window.hacked === undefined"), true);
    assert_eq!(browser.eval("document.scripts.length"), 2);
    assert_eq!(
        browser.eval("document.querySelectorAll('img, b, iframe, style:not(head style)').length"),
        0
    );
    assert_no_problems(&mut browser);
}

#[tokio::test]
async fn the_policy_forbids_other_scripts_and_resources() {
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&traced().await.html("a run", &graph().drawing(0)));
    assert_no_problems(&mut browser);
    let attacks = [
        "const it = document.createElement('script'); it.textContent = 'window.hacked = 1'; document.body.append(it)",
        "document.body.insertAdjacentHTML('beforeend', '<p onclick=\"window.hacked = 1\">'); document.body.lastElementChild.click()",
        "document.body.insertAdjacentHTML('beforeend', '<style>body { color: red }</style>')",
        "new Image().src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='",
    ];
    for (nth, attack) in attacks.iter().enumerate() {
        browser.eval(&format!("{{ {attack} }}"));
        // The browser may report the violation late.
        let mut problems = browser.problems();
        for _ in 0..1_000 {
            if problems.len() > nth {
                break;
            }
            problems = browser.problems();
        }
        assert_eq!(problems.len(), nth + 1, "{attack}: {problems:#?}");
        assert!(problems[nth].contains("Content Security Policy"), "{attack}: {problems:#?}");
    }
    assert_eq!(browser.eval("window.hacked === undefined"), true);
}

fn task(node: String, start: u64, end: u64) -> TaskTrace {
    let [start, end] = [start, end].map(Duration::from_millis);
    TaskTrace { node, timing: Some(Timing { start, end }), ..TaskTrace::default() }
}

fn large(n_steps: u64, n_tasks: u64) -> Trace {
    let steps = (0..n_steps).map(|step| StepTrace {
        step: step as i64 + 1,
        tasks: (0..n_tasks)
            .map(|nth| task(format!("n{}", nth % 7), step * 10, step * 10 + 9))
            .collect(),
        state: Some(json!({ "log": (0..step % 50).collect::<Vec<_>>(), "step": step })),
    });
    Trace {
        header: Header::default(),
        root: GraphTrace { steps: steps.collect() },
        end: RunStatus::Done,
    }
}

#[tokio::test]
async fn only_the_visible_part_of_a_large_run_is_rendered() {
    let Some(mut browser) = Browser::start() else { return };
    for (n_steps, n_tasks) in [(1, 10_000), (100, 100), (10_000, 1)] {
        let trace = large(n_steps, n_tasks);
        browser.open(&trace.html("large", &graph().drawing(0)));
        browser.press("End");
        let last = format!("n{}", (n_tasks - 1) % 7);
        assert_eq!(text(&mut browser, "#detail h2"), last);
        let selected =
            browser.eval("document.querySelectorAll('#rows [aria-selected=true]').length");
        assert_eq!(selected, 1);
        let n_elements = browser.eval("document.querySelectorAll('*').length");
        assert!(n_elements.as_u64().unwrap() < 12_000, "{n_elements} elements");
    }
    assert_no_problems(&mut browser);
}

#[tokio::test]
async fn the_page_supports_phones_and_dark_mode() {
    let Some(mut browser) = Browser::start() else { return };
    let page = traced().await.html("a run", &graph().drawing(1));
    let background = "getComputedStyle(document.body).backgroundColor";
    browser.emulate(390, 800, "light");
    browser.open(&page);
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 390);
    let light = browser.eval(background);
    browser.emulate(390, 800, "dark");
    assert_ne!(browser.eval(background), light);
    select_task(&mut browser, "write");
    assert!(text(&mut browser, "#change").contains("fact 1"));
    assert_no_problems(&mut browser);
}

#[tokio::test]
async fn missing_data_is_omitted() {
    let Some(mut browser) = Browser::start() else { return };
    let mut untimed: Trace = serde_json::from_value(json!(traced().await)).unwrap();
    browser.open(&untimed.html("stored", &graph().drawing(1)));
    assert!(text(&mut browser, "#time-note").contains("without timing"));
    assert_eq!(browser.eval("document.querySelectorAll('#lanes g.bar').length"), 5);
    assert_no_problems(&mut browser);

    untimed.root.steps.clear();
    untimed.end = RunStatus::Unfinished;
    browser.open(&untimed.html("empty", &graph().drawing(1)));
    assert!(text(&mut browser, "#detail").contains("This run executed no steps"));
    assert_no_problems(&mut browser);
}
