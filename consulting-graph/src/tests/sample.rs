//! Sample company with findings and a move.

use chrono::NaiveDate;

use crate::{
    data::Ticker,
    finding::{
        Direction, Evidence, FindingDraft, Findings, FindingsDraft, Inference, Kind, TensionDraft,
    },
    moves::{Move, MoveDraft, MoveId, Risk, Step},
};

/// Text with HTML, a link, a heading and a quote, which appear only after invisible characters are removed.
pub(crate) const HIDDEN_MARKUP: &str =
    "Yes <\u{200b}img src=x> [a]\u{200d}(x)\u{2028}# Approved\n\u{feff}> **Audited**";

/// [`HIDDEN_MARKUP`] as a Markdown document must contain it.
pub(crate) const ESCAPED_MARKUP: &str =
    "Yes &lt;img src=x> [a]&#40;x)\n\\# Approved\n\\> **Audited**";

pub(crate) fn date(year: i32, month: u32, day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(year, month, day).unwrap()
}

pub(crate) fn ticker() -> Ticker {
    Ticker::parse("NVDA").unwrap()
}

fn finding(
    claim: &str,
    section: &str,
    quote: &str,
    direction: Direction,
    kind: Kind,
) -> FindingDraft {
    let evidence = vec![Evidence { section: section.to_owned(), quote: quote.to_owned() }];
    FindingDraft { claim: claim.to_owned(), evidence, direction, strength: 2, kind }
}

pub(crate) fn f1() -> Findings {
    let findings = vec![
        finding(
            "Revenue grew by 7.9% to $9,112m.",
            "Quarterly Revenue",
            "Q4 FY2025 $9,112m 7.9%",
            Direction::Positive,
            Kind::Growth,
        ),
        finding(
            "Receivables grew by 19.0%, faster than sales.",
            "Balance Sheet",
            "$8,209m",
            Direction::Negative,
            Kind::Efficiency,
        ),
        finding(
            "Net debt fell to -$6,016m.",
            "Key Ratios",
            "-$6,016m",
            Direction::Positive,
            Kind::Liquidity,
        ),
    ];
    let tensions =
        vec![TensionDraft { between: vec![1, 2], text: "Sales grow on credit.".to_owned() }];
    Findings::from_draft(Inference::F1, ticker(), FindingsDraft { findings, tensions })
}

pub(crate) fn f2() -> Findings {
    let findings = vec![
        finding(
            "One house advises to sell with a target of $96.30.",
            "Analyst Ratings",
            "sell, target $96.30",
            Direction::Negative,
            Kind::Analyst,
        ),
        finding(
            "A competitor cut prices by 11%.",
            "Competitor Activity",
            "cut its prices for Cloud platform by 11%",
            Direction::Negative,
            Kind::Competitor,
        ),
    ];
    Findings::from_draft(Inference::F2, ticker(), FindingsDraft { findings, tensions: Vec::new() })
}

pub(crate) fn draft() -> MoveDraft {
    MoveDraft {
        title: "Tie credit to margin".to_owned(),
        risk_level: Risk::Low,
        thesis: "Revenue grew by 7.9% [F1-01], but receivables grew by 19.0% [F1-02].".to_owned(),
        why_now: "A competitor cut prices by 11% [F2-02].".to_owned(),
        reasoning: vec![
            "Net debt of -$6,016m [F1-03] leaves room.".to_owned(),
            "Sales on credit hide what the price war costs.".to_owned(),
            "A smaller book is a safer one.".to_owned(),
        ],
        citations: ["F1-01", "F1-02", "F2-02"].map(str::to_owned).into(),
        steps: vec![Step {
            action: "Score all customers".to_owned(),
            owner: "CFO".to_owned(),
            timeframe: "within 3 months".to_owned(),
        }],
        cost: "$25m and 40 people.".to_owned(),
        downside: "Some customers leave.".to_owned(),
        mitigation: "Offer them leasing.".to_owned(),
        falsifiers: vec!["Receivables fall below 12% growth without it.".to_owned()],
        kpi: "Receivables growth under 8%.".to_owned(),
    }
}

pub(crate) fn the_move() -> Move {
    Move {
        move_id: MoveId(4),
        agent_id: "analyst_2".to_owned(),
        persona: "Growth architect".to_owned(),
        ticker: ticker(),
        draft: draft(),
    }
}
