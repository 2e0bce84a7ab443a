//! Checks of citations and numbers.

use proptest::prelude::*;

use super::sample::{self, date};
use crate::{
    citation::{CitationChecker, Flag, Reason},
    data::{number, render, synthetic},
    finding::{Findings, FindingsDraft, Inference, parse},
    moves::{Move, MoveDraft},
    transcript::{ConversationEntry, Speaker},
};

/// Data from which the sample findings are drawn.
const DATA: &str = "Revenue was $9,112m, which is 7.9% more. Receivables were $8,209m, 19.0% more. Net debt was \
                    -$6,016m. Cash was $19,077m. A house has a target of $96.30. A competitor cut prices by 11%.";

fn evidence() -> CitationChecker {
    CitationChecker::new(&[sample::f1(), sample::f2()], &[DATA])
}

fn shown(flags: &[Flag]) -> Vec<String> {
    flags
        .iter()
        .map(|it| {
            format!("{} {}: {}: {}", it.location.part, it.location.sentence, it.text, it.reason)
        })
        .collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let entry = ConversationEntry { role: Speaker::Critic, content: text.to_owned(), round: 3 };
    let flags = evidence().check_log(&sample::the_move(), "i1", &[entry]);
    let expected: Vec<String> =
        expected.iter().map(|it| format!("i1, round 3, critic {it}")).collect();
    assert_eq!(shown(&flags), expected, "{text}");
}

#[test]
fn supported_claims_pass() {
    check("Revenue grew by 7.9% [F1-01]. It reached about $9.1 billion. [F1-01]", &[]);
    check("Cash of $19bn is there, and a rival cut prices by 11%.", &[]);
    // Numbers from the move itself may be quoted.
    check("Spending $25m on 40 people is fine, says [F1-01].", &[]);
    check("In 2025, over 18 months, in round 3, 8/10.", &[]);
}

#[test]
fn unsupported_claims_are_flagged_with_location_and_reason() {
    check(
        "It is so. Revenue grew by 8.9% [F1-01].",
        &["2: 8.9%: in neither the findings nor the data"],
    );
    check(
        "Receivables grew by 19.0% [F1-01].",
        &["1: 19.0%: not in the cited finding, but in F1-02"],
    );
    check("Cash of $19,077m [F1-01].", &["1: $19,077m: not in the cited finding, but in the data"]);
    check(
        "See [F1-09] and [F3-01].",
        &["1: F1-09: this finding does not exist", "1: F3-01: this finding does not exist"],
    );
    check("Churn is 4%.", &["1: 4%: in neither the findings nor the data"]);
}

#[test]
fn only_invalid_moves_are_flagged() {
    assert_eq!(evidence().check_move(&sample::the_move()), []);
    let mut bad = sample::the_move();
    bad.draft.thesis = "Revenue grew by 79% [F1-01].".to_owned();
    bad.draft.citations.push("F2-07".to_owned());
    let flags = evidence().check_move(&bad);
    assert_eq!(
        shown(&flags),
        [
            "thesis 1: 79%: in neither the findings nor the data",
            "citations 4: F2-07: this finding does not exist",
        ]
    );
    assert_eq!(flags[0].reason, Reason::Unsupported);
}

#[test]
fn documents_and_findings_are_checked_against_the_data() {
    let evidence = evidence();
    let document = "# Financial data\nSales reached 9.1 billion.\n## Cash\n| Cash | $19,077m |\nIt grew by 12%. That is \
                more than 11%. Some $21 billion!\n";
    assert_eq!(
        shown(&evidence.check_document("financial.md", document)),
        ["Cash 3: 12%: not in the data", "Cash 5: $21 billion: not in the data"]
    );

    let mut findings = sample::f1();
    assert_eq!(evidence.check_findings(&findings), []);
    findings.findings[1].draft.claim = "Receivables grew by 23%.".to_owned();
    findings.findings[2].draft.evidence[0].quote = "-$7,016m".to_owned();
    findings.tensions[0].text = "Sales grow on 31% credit.".to_owned();
    let flags = evidence.check_findings(&findings);
    assert_eq!(
        shown(&flags),
        [
            "claim 1: 23%: not in the data", "quote 1 1: $7,016m: not in the data",
            "tension 1 1: 31%: not in the data",
        ]
    );
    assert_eq!(flags[0].location.document, "F1-02");

    // A number that appears in a finding but not in the data is flagged, whether or not the finding is cited.
    let evidence = CitationChecker::new(&[findings, sample::f2()], &[DATA]);
    let entry = |content: &str| ConversationEntry {
        role: Speaker::Critic,
        content: content.to_owned(),
        round: 1,
    };
    for text in ["Receivables grew by 23% [F1-02].", "Receivables grew by 23%."] {
        let flags = evidence.check_log(&sample::the_move(), "i1", &[entry(text)]);
        assert_eq!(
            shown(&flags),
            ["i1, round 1, critic 1: 23%: stated only by F1-02; not in the data"]
        );
    }
}

/// Returns one finding for each list item of a document. The text of the item is the claim of the finding.
fn findings_of(document: &str) -> Findings {
    let lines =
        document.lines().filter(|it| it.starts_with("- ")).map(|it| it.trim_start_matches("- "));
    let text: String = lines.map(|it| format!("## F2-01\n{it}\n")).collect();
    let draft: FindingsDraft = parse(&text);
    Findings::from_draft(Inference::F2, sample::ticker(), draft)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A move that repeats the claim of a finding raises no flag. A move with a wrong number raises one.
    #[test]
    fn wrong_numbers_are_flagged_and_correct_ones_are_not(ticker in "[A-Z]{2,4}", line in 0_usize..20, off in 3_i64..900) {
        let ticker = crate::data::Ticker::parse(&ticker).unwrap();
        let company = synthetic::company(&ticker, date(2026, 3, 1));
        let (financial, news) = (render::financial(&company), render::news(&company));
        let findings = findings_of(&news);
        let evidence = CitationChecker::new(std::slice::from_ref(&findings), &[&financial, &news]);
        let finding = &findings.findings[line % findings.findings.len()];
        let thesis = format!("{} [{}]", finding.draft.claim.trim_end_matches('.'), finding.id);
        let clean = Move { draft: MoveDraft { thesis, ..MoveDraft::default() }, ..sample::the_move() };
        prop_assert_eq!(evidence.check_move(&clean), []);

        let revenue = company.annuals[2].get(crate::data::Item::Revenue).unwrap();
        let wrong = number::dollars(revenue * 7 + off * 1_000_000);
        let thesis = format!("Sales were {wrong} [{}].", finding.id);
        let planted = Move { draft: MoveDraft { thesis, ..MoveDraft::default() }, ..sample::the_move() };
        let flags = evidence.check_move(&planted);
        prop_assert_eq!(flags.len(), 1);
        prop_assert_eq!(&flags[0].text, &wrong);
    }

    #[test]
    fn checking_never_panics(text in "(?s).{0,200}", marked in "([F1-9 .,$%\\[\\]\n-]|F1-01|\\[F2-02\\]){0,60}") {
        for content in [text, marked] {
            let entry = ConversationEntry { role: Speaker::Critic, content, round: 1 };
            evidence().check_log(&sample::the_move(), "i1", &[entry]);
        }
    }
}
