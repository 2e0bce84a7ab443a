//! The report in its three formats.

use std::collections::{BTreeMap, BTreeSet};

use sandbox_vm::report::IsolationLevel;

use super::{
    rank::scored,
    sample::{self, date},
};
use crate::{
    call::{CallFailure, Failure, FailureKind},
    config::{Config, DEFAULT},
    data::{Ticker, render, snapshot, synthetic},
    moves::{MissingMove, Move, MoveId},
    rank::Unscored,
    report::{Isolation, Outcome, Provider, Report, SpendingEntry, strongest_objection},
    score::{Adjustment, MakerScore, Mark, MoveScore},
    transcript::{Speaker, append_to_log},
};

pub(crate) fn outcome() -> Outcome {
    let config = Config::parse(DEFAULT).unwrap();
    let company = synthetic::company(&sample::ticker(), date(2026, 3, 1));
    let a_move = |id: u16, title: &str| {
        let mut it = Move { move_id: MoveId(id), ..sample::the_move() };
        it.draft.title = title.to_owned();
        it
    };
    let mut last = scored(5, [(3, 0), (4, 0), (5, 0)]);
    last.scores_by_agent.insert("D1".to_owned(), MakerScore::neutral(&config.metric_ids()));
    let log = append_to_log(&[], Speaker::Critic, "Receivables grew by 91.0% [F1-02].", 1);
    let log = append_to_log(&log, Speaker::DecisionMaker("D1".to_owned()), "You are right.", 1);
    Outcome {
        run_id: "run-1".to_owned(),
        started_on: Some(date(2026, 3, 1)),
        documents: vec![render::financial(&company), render::news(&company)],
        narrated: BTreeMap::new(),
        failures: Vec::new(),
        mixed_settings: None,
        company,
        findings: vec![sample::f1(), sample::f2()],
        moves: vec![
            a_move(1, "Tie credit to margin"),
            a_move(2, "Buy a rival"),
            a_move(3, "Leave Europe"),
            a_move(5, "Wait | see"),
        ],
        missing: vec![MissingMove { move_id: MoveId(6), agent_id: "analyst_2".to_owned() }],
        scores: vec![
            scored(1, [(8, 0), (8, 1), (9, 0)]),
            scored(2, [(6, 0), (7, 0), (7, 0)]),
            MoveScore::new(MoveId(5), last.scores_by_agent, [Mark::Incomplete]),
        ],
        baselines: vec![scored(1, [(7, 0); 3]), scored(2, [(8, 0); 3])],
        unscored: vec![Unscored {
            move_id: MoveId(3),
            reason: "the critic could not be reached".to_owned(),
        }],
        logs: BTreeMap::from([(MoveId(1), BTreeMap::from([("i1".to_owned(), log)]))]),
        provider: Provider::Scripted,
        isolation: Isolation { backend: "in-process".to_owned(), ..Isolation::default() },
        isolation_by_move: BTreeMap::new(),
        spending: vec![
            SpendingEntry {
                name: "critic".to_owned(),
                calls: 28,
                uncounted_calls: 0,
                input_tokens: 40_000,
                cached_tokens: 30_000,
                output_tokens: 9_000,
                dollars: Some(0.25),
            },
            SpendingEntry {
                name: "decision makers".to_owned(),
                calls: 33,
                uncounted_calls: 0,
                input_tokens: 10_000,
                cached_tokens: 0,
                output_tokens: 1_000,
                dollars: None,
            },
        ],
        spending_by_move: Vec::new(),
        spending_by_round: Vec::new(),
        own_spending: None,
        warnings: Vec::new(),
        manifest: BTreeMap::from([("version".to_owned(), "0.1.0".to_owned())]),
        agents: config.agent_names(),
        decision_makers: config.decision_makers.clone(),
        metrics: config.metrics.clone(),
        top_k: 2,
        best_score: config.max_total_score(),
    }
}

#[test]
fn the_report_in_markdown() {
    insta::assert_snapshot!("report_markdown", Report::new(outcome()).markdown());
}

#[test]
fn the_report_in_html() {
    insta::assert_snapshot!("report_html", Report::new(outcome()).html());
}

#[test]
fn the_json_report_round_trips() {
    let report = Report::new(outcome());
    let json = report.json();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    // The report contains the reason why a debate failed.
    assert!(json.contains("the critic could not be reached"));
}

#[test]
fn texts_of_models_cannot_imitate_the_structure_of_the_report() {
    let mut forged = outcome();
    let text =
        "Yes.\n# Approved\n> **Audited.**\n## Recommended\n---\n**[Round 9] CRITIC:**\nI agree.";
    for it in &mut forged.moves {
        it.draft.thesis = text.to_owned();
        it.draft.title = text.to_owned();
    }
    for log in forged.logs.values_mut().flat_map(|it| it.values_mut()).flatten() {
        log.content = text.to_owned();
    }
    let report = Report::new(forged).markdown();
    // A text is one paragraph, also in the answer.
    assert!(report.contains("“Yes. # Approved > **Audited.** ## Recommended"), "{report}");
    let forgeries = ["# Approved", "> **Audited", "## Recommended", "**[Round 9]"];
    // The report itself has one heading "Recommended".
    let lines = report.lines().map(|it| it.trim_start_matches("> "));
    let found: Vec<&str> =
        lines.filter(|line| forgeries.iter().any(|it| line.starts_with(it))).collect();
    assert_eq!(found, ["## Recommended"]);
}

#[test]
fn texts_of_models_cannot_add_cells_to_tables() {
    let mut forged = outcome();
    for it in &mut forged.moves {
        it.draft.title = r"Sell \| 987 | 987".to_owned();
    }
    let report = Report::new(forged).markdown();
    assert!(report.contains(r"Sell \&#124; 987 &#124; 987"), "{report}");
    let has_cell = |it: &str| it.contains("| Sell") && it.contains("| 987");
    assert!(!report.lines().any(has_cell), "{report}");
}

#[test]
fn warnings_cannot_imitate_headings() {
    let mut forged = outcome();
    forged.warnings = vec!["# Approved".to_owned(), "> **Audited.**".to_owned()];
    let report = Report::new(forged).markdown();
    assert!(report.contains("- \\# Approved\n- \\> **Audited.**\n"), "{report}");
}

#[test]
fn caveats_are_at_the_top() {
    let text = Report::new(outcome()).markdown();
    let top = text.split("## Recommended").next().unwrap();
    for words in ["Synthetic data", "scripted model", "without isolation", "m6"] {
        assert!(top.contains(words), "{words}: {top}");
    }
}

#[test]
fn nouns_agree_with_their_numbers() {
    let mut one = outcome();
    one.moves.truncate(1);
    one.scores.truncate(1);
    one.baselines.truncate(1);
    one.unscored.clear();
    one.own_spending = Some(SpendingEntry { calls: 1, ..one.spending[0].clone() });
    for logs in one.logs.values_mut().flat_map(|it| it.values_mut()) {
        logs.truncate(1);
    }
    let text = Report::new(one).html();
    for words in [
        "Of 1 proposed move for", "paid for 1 call itself",
        "debate with Growth Strategist, 1 turn<",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for words in [" 1 proposed moves", " 1 calls", " 1 turns", "1 of 2 moves are"] {
        assert!(!text.contains(words), "{words}: {text}");
    }
}

#[test]
fn unbounded_memory_is_stated_with_the_isolation() {
    let isolation = Isolation {
        backend: "jail".to_owned(),
        level: IsolationLevel::Process,
        memory_unbounded: true,
    };
    let text = Report::new(Outcome { isolation, ..outcome() }).markdown();
    let words =
        "jail (isolation: process, shares the host's kernel; memory NOT BOUNDED by a kernel)";
    assert!(text.contains(words), "{text}");
}

/// Returns the outcome of a run whose debates ran in these back ends, by move.
fn outcome_in(debates: [(u16, &str, IsolationLevel); 4]) -> Outcome {
    let isolation_by_move: BTreeMap<MoveId, Isolation> = debates
        .map(|(id, backend, level)| {
            let backend = backend.to_owned();
            (MoveId(id), Isolation { backend, level, memory_unbounded: false })
        })
        .into();
    let isolation = Isolation::combine(isolation_by_move.values()).unwrap();
    Outcome { isolation, isolation_by_move, ..outcome() }
}

#[test]
fn debates_with_less_isolation_than_others_are_named() {
    use IsolationLevel::{Off, Process, Vm};
    let vm = |id| (id, "kvm-process", Vm);
    // A debate with less isolation than the others is named, although it is isolated too.
    let report = Report::new(outcome_in([vm(1), (2, "jail", Process), vm(3), vm(5)]));
    let weaker = "m2 with jail (isolation: process, shares the host's kernel)";
    let notice = format!("Less isolation than in the other debates: {weaker}.");
    let sandboxes = format!("kvm-process (isolation: vm), except {weaker}");
    assert_eq!(report.isolation_notice.as_ref(), Some(&notice));
    assert_eq!(report.outcome.sandboxes_text(), sandboxes);
    let markdown = report.markdown();
    let top = markdown.split("## Recommended").next().unwrap();
    assert!(top.contains(&notice) && top.contains(&sandboxes), "{top}");
    let html = report.html();
    assert!(html.contains("Less isolation than in the other debates: m2 with jail"), "{html}");
    assert!(report.json().contains("Less isolation than in the other debates: m2 with jail"));

    // The notice lists each level of isolation with its moves.
    let debates = [(1, "in-process", Off), (2, "jail", Process), vm(3), (5, "in-process", Off)];
    assert_eq!(
        Report::new(outcome_in(debates)).isolation_notice.unwrap(),
        "Less isolation than in the other debates: m1, m5 with in-process (isolation: off, NOT ISOLATED); \
         m2 with jail (isolation: process, shares the host's kernel)."
    );
    // Two back ends with the same level of isolation count as equal.
    let debates = [vm(1), (2, "microvm", Vm), vm(3), vm(5)];
    let report = Report::new(outcome_in(debates));
    assert_eq!(report.isolation_notice, None);
    assert_eq!(report.outcome.sandboxes_text(), "kvm-process, microvm (isolation: vm)");
}

#[test]
fn numbers_invented_by_a_model_are_flagged() {
    const ALL_IS_WELL: &str = "All citations refer to existing findings. All numbers";
    let clean = Outcome { logs: BTreeMap::new(), ..outcome() };
    assert!(Report::new(clean.clone()).markdown().contains(ALL_IS_WELL));

    let mut invented = clean;
    let document = "## Cash Flow\nFree cash flow will be $77.7 billion.\n".to_owned();
    invented.narrated.insert("financial.md".to_owned(), document);
    invented.findings[0].findings[0].draft.claim = "Free cash flow of $77.7bn.".to_owned();
    invented.moves[0].draft.thesis = "Spend the $77.7 billion [F1-01].".to_owned();
    let text = Report::new(invented).markdown();
    for line in [
        "| financial.md | Cash Flow, sentence 2 | $77.7 billion | not in the data |",
        "| F1-01 | claim, sentence 1 | $77.7bn | not in the data |",
        "| m1 | thesis, sentence 1 | $77.7 billion | stated only by F1-01; not in the data |",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains(ALL_IS_WELL));
}

#[test]
fn text_from_models_never_becomes_markup() {
    let attack = "<script>alert(1)</script><img src=x onerror=y> ![a](http://x/y) \u{202e}| \"' see ![b] at https://x \
                  or www.x\n\n[b]: http://x/z";
    let mut outcome = outcome();
    for it in &mut outcome.moves {
        it.draft.title = attack.to_owned();
        it.draft.thesis = attack.to_owned();
        it.draft.reasoning = vec![attack.to_owned()];
    }
    outcome
        .logs
        .values_mut()
        .flat_map(BTreeMap::values_mut)
        .flatten()
        .for_each(|it| it.content = attack.to_owned());
    outcome.unscored[0].reason = attack.to_owned();
    outcome.run_id = attack.to_owned();
    outcome.metrics[0].name = attack.to_owned();
    for score in &mut outcome.scores {
        score.scores_by_agent.values_mut().for_each(|it| it.reasoning = attack.to_owned());
    }
    let report = Report::new(outcome);
    for text in [report.html(), report.markdown()] {
        for mark in ["<script", "<img", "\u{202e}"] {
            assert!(!text.contains(mark), "{mark}");
        }
    }
    // Markdown renderers find no links in the text.
    for mark in ["](", "]:", "://", "www."] {
        assert!(!report.markdown().contains(mark), "{mark}");
    }
    // The page contains only kinds of HTML elements that it also has without the attack.
    let elements = |page: &str| -> BTreeSet<String> {
        page.split('<')
            .skip(1)
            .filter_map(|it| it.split([' ', '>', '\n']).next())
            .map(str::to_owned)
            .collect()
    };
    let usual = elements(&Report::new(self::outcome()).html());
    assert!(elements(&report.html()).is_subset(&usual));
}

#[test]
fn findings_figures_and_moves_link_to_each_other() {
    let ticker = Ticker::parse("NVDA").unwrap();
    let company = snapshot::company(&ticker, date(2026, 11, 15)).unwrap().unwrap();
    let mut outcome = Outcome { company, ..outcome() };
    outcome.findings[0].findings[0].draft.claim = "Revenue was $215,938m in FY2026.".to_owned();
    let html = Report::new(outcome).html();
    for (from, to) in [
        // The card and the text of a move cite the finding.
        ("<article", "<a href=\"#F1-01\">F1-01</a>"),
        ("<h3 id=\"m1\">", "<a href=\"#F1-01\">F1-01</a>"),
        ("<tr id=\"F1-01\">", "<a href=\"#figure-revenue-fy2026\">"),
        ("<tr id=\"F1-01\">", "<a href=\"#m1\">m1</a>"),
        ("<tr id=\"figure-revenue-fy2026\">", "<a href=\"#F1-01\">"),
        ("<tr id=\"figure-revenue-fy2026\">", "<a href=\"#filing-0001045810-26-000021\">"),
        ("<tr id=\"filing-0001045810-26-000021\">", "<a href=\"#figure-revenue-fy2026\">"),
        (
            "<tr id=\"filing-0001045810-26-000021\">",
            "<a href=\"https://www.sec.gov/Archives/edgar/data/1045810/000104581026000021/0001045810-26-000021-index.htm\">",
        ),
    ] {
        let start = html.find(from).unwrap_or_else(|| panic!("{from} is missing"));
        let end = html[start..].find("</tr>").map_or(html.len(), |it| start + it);
        assert!(html[start..end].contains(to), "{from} does not link to {to}");
    }
}

#[test]
fn the_strongest_objection_is_an_unanswered_one() {
    let maker = |n: u8| Speaker::DecisionMaker(format!("D{n}"));
    let opening = "Sales grow on credit [F1-02]. Cash is short [F1-03]. This is all talk.";
    let debate = |n: u8, answer: &str, reply: &str, last: &str| {
        let log = append_to_log(&[], Speaker::Critic, opening, 1);
        let log = append_to_log(&log, maker(n), answer, 1);
        let log = append_to_log(&log, Speaker::Critic, reply, 2);
        append_to_log(&log, maker(n), last, 2)
    };
    let logs = BTreeMap::from([
        ("i1".to_owned(), debate(1, "Cash is fine [F1-03].", "Prices fall [F2-02].", "No.")),
        ("i2".to_owned(), debate(2, "Cash is fine [F1-03].", "So?", "Prices rise [F2-02].")),
    ]);
    let makers = Config::parse(DEFAULT).unwrap().decision_makers;
    let strongest = strongest_objection(MoveId(1), &logs, &makers).unwrap();
    // Both decision makers left F1-02 open, only one of them F2-02.
    assert_eq!((strongest.text.as_str(), strongest.debates), ("Sales grow on credit [F1-02].", 2));

    let answered = BTreeMap::from([(
        "i1".to_owned(),
        debate(1, "[F1-02] is seasonal.", "And [F1-03]?", "See [F1-03]."),
    )]);
    assert_eq!(strongest_objection(MoveId(1), &answered, &makers), None);
}

#[test]
fn an_objection_on_the_first_page_states_the_claims_that_it_cites() {
    let card = |objection: &str| {
        let mut outcome = outcome();
        let log = append_to_log(&[], Speaker::Critic, objection, 1);
        outcome.logs = BTreeMap::from([(MoveId(1), BTreeMap::from([("i1".to_owned(), log)]))]);
        let text = Report::new(outcome).markdown();
        let line = text.lines().find(|it| it.contains("**Unanswered objection:**"));
        line.unwrap().split_once(":** ").unwrap().1.to_owned()
    };
    assert_eq!(
        card("You have not said a word about [F1-02]."),
        "“You have not said a word about [F1-02].” (to Growth Strategist, round 1) F1-02 says: Receivables grew by 19.0%, \
         faster than sales."
    );
    let quoted = "Look at this: Receivables grew by 19.0%, faster than sales [F1-02].";
    assert_eq!(card(quoted), format!("“{quoted}” (to Growth Strategist, round 1)"));
}

#[test]
fn agents_are_named_instead_of_their_ids() {
    let mut outcome = outcome();
    let failure = CallFailure { kind: FailureKind::ModelFailed, reason: "no answer".to_owned() };
    outcome.failures = vec![Failure::new("m3, round 2, critic to D1", failure)];
    let role = |name: &str| SpendingEntry { name: name.to_owned(), ..outcome.spending[0].clone() };
    outcome.spending = vec![role("trend_inference"), role("D2 scoring")];
    let properties = ["model of D3 scoring", "prompt financial_synthesizer"];
    outcome.manifest = properties.map(|it| (it.to_owned(), "0".to_owned())).into();
    let score = outcome.scores[0].scores_by_agent.get_mut("D2").unwrap();
    let (metric, given) = ("impact".to_owned(), "8.5".to_owned());
    score.adjustments = vec![Adjustment { metric, given, kept: 8 }];
    let agents = outcome.agents.clone();
    let report = Report::new(outcome);
    for text in [report.markdown(), report.html()] {
        for words in [
            "first m3, round 2, Critic to Growth Strategist: no answer; ",
            "debate with Growth Strategist, round 1, Critic, sentence 1",
            "Trend inference",
            "Operational Pragmatist, scoring",
            "model of Stakeholder Value Advocate, scoring",
            "prompt of Financial data provider",
            "corrected form; Impact changed from 8.5 to 8",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // The id of the critic is an ordinary word, which the report may contain.
        for id in agents.keys().filter(|it| *it != "critic").map(String::as_str).chain(["i1"]) {
            let mut words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
            assert!(words.all(|it| it != id), "{id}: {text}");
        }
    }
}

#[test]
fn decision_makers_without_turns_are_named_and_counted() {
    let makers = Config::parse(DEFAULT).unwrap().decision_makers;
    let log = append_to_log(&[], Speaker::Critic, "Cash is short [F1-03].", 1);
    let logs = BTreeMap::from([("i2".to_owned(), log.clone()), ("i3".to_owned(), log)]);
    let strongest = strongest_objection(MoveId(1), &logs, &makers).unwrap();
    assert_eq!((strongest.maker.as_str(), strongest.debates), (makers[2].id.as_str(), 2));
}

#[test]
fn objections_without_findings_are_not_reported_as_answered() {
    let mut outcome = outcome();
    let log = append_to_log(&[], Speaker::Critic, "This is all talk.", 1);
    outcome.logs = BTreeMap::from([(MoveId(1), BTreeMap::from([("i1".to_owned(), log)]))]);
    let text = Report::new(outcome).markdown();
    assert!(text.contains("Unknown: the critic cited no findings"), "{text}");
    assert!(!text.contains("finding was answered"), "{text}");
}

#[test]
fn confidence_is_low_if_every_scored_move_is_recommended() {
    let complete = || Outcome { missing: Vec::new(), unscored: Vec::new(), ..outcome() };
    let text = Report::new(Outcome { top_k: 3, ..complete() }).markdown();
    assert!(text.contains("Low: every scored move is recommended"), "{text}");
    assert!(!text.contains("resampled at random"), "{text}");
    let text = Report::new(complete()).markdown();
    assert!(!text.contains("every scored move is recommended"), "{text}");
    assert!(text.contains("resampled at random"), "{text}");
}

#[test]
fn a_report_without_moves_can_be_rendered() {
    let nothing = Outcome {
        moves: Vec::new(),
        scores: Vec::new(),
        baselines: Vec::new(),
        unscored: Vec::new(),
        logs: BTreeMap::new(),
        findings: Vec::new(),
        spending: Vec::new(),
        spending_by_move: Vec::new(),
        spending_by_round: Vec::new(),
        own_spending: None,
        warnings: Vec::new(),
        ..outcome()
    };
    let text = Report::new(nothing).markdown();
    assert!(text.contains("No move was scored"), "{text}");
}

#[test]
fn missing_moves_are_reported_with_their_cause() {
    let failures = vec![
        Failure::unusable("financial_synthesizer", "the answer is empty"),
        Failure::unusable("analyst_2", "the answer is a refusal."),
    ];
    let notices = Report::new(Outcome { failures, ..outcome() }).incomplete_notices();
    assert!(notices[0].contains("the answer is empty"), "{notices:?}");
    let cause = "from Growth architect. Growth architect: the answer is a refusal.";
    assert!(notices[1].ends_with(cause), "{notices:?}");
    // The first notice already names the first failure.
    let failures = vec![Failure::unusable("analyst_2", "the answer is a refusal")];
    let notices = Report::new(Outcome { failures, ..outcome() }).incomplete_notices();
    assert!(notices[1].ends_with("from Growth architect."), "{notices:?}");
}
