//! Moves of the offline board.

use minijinja::{Value, context};

use super::writer::{MoveText, TEXTS, Writer};
use crate::{
    finding::{Finding, Findings, Inference, Kind},
    moves::{MoveDraft, MovesDraft, Risk, Step},
};

/// Drafts one move per risk level. About one analyst in eight gives an insufficient first answer, so that the pipeline
/// asks again.
pub(super) fn draft(
    analyst: &str,
    findings: &[Findings],
    is_retry: bool,
    writer: &Writer,
) -> MovesDraft {
    if !is_retry && writer.makes_mistake(120) {
        return MovesDraft { moves: (0..3).map(|_| hasty_move(writer)).collect() };
    }
    let risks = (0..).zip([Risk::Low, Risk::Medium, Risk::High]);
    let evidence = MoveEvidence::new(findings);
    let moves = risks.filter_map(|(turn, risk)| {
        let text = choose(analyst, risk, &evidence, writer)?;
        Some(write(text, &evidence, turn, writer))
    });
    MovesDraft { moves: moves.collect() }
}

fn hasty_move(writer: &Writer) -> MoveDraft {
    let topic = writer.pick(&["margins", "growth", "costs"]);
    MoveDraft {
        title: format!("{} on {topic} at once", writer.pick(&["Act", "Move"])),
        risk_level: *writer.pick(&[Risk::Low, Risk::Medium, Risk::High]),
        thesis: "The numbers speak for themselves [F1-01].".to_owned(),
        ..MoveDraft::default()
    }
}

/// Chooses a prepared move with this risk by the analyst, preferably one for whose topics findings exist. For an
/// analyst without prepared moves, chooses from the moves of all analysts.
fn choose(
    analyst: &str,
    risk: Risk,
    evidence: &MoveEvidence<'_>,
    writer: &Writer,
) -> Option<&'static MoveText> {
    let has_own = TEXTS.moves.iter().any(|it| it.author == analyst);
    let fits = |it: &&MoveText| it.risk == risk && (it.author == analyst || !has_own);
    let moves: Vec<&'static MoveText> = TEXTS.moves.iter().filter(fits).collect();
    let order = writer.order(&format!("{risk:?}"), moves.len()).into_iter().map(|it| moves[it]);
    order.min_by_key(|it| it.findings.iter().filter(|kind| evidence.get(**kind).is_none()).count())
}

/// Writes a move. `turn` is the position of the move in the answer. It selects the phrases, so that the moves in one
/// answer use different phrases.
fn write(text: &MoveText, evidence: &MoveEvidence<'_>, turn: usize, writer: &Writer) -> MoveDraft {
    let names = evidence.names();
    let fill = |template: &str| writer.fill(template, &names).unwrap_or_default();
    let phrase = |list: &str| writer.phrase_at(turn, list, &names);
    let any = |inference, idx: usize| evidence.any(inference, idx + 2 * turn, writer);
    // If there is no finding on a topic, a finding on another topic is used instead.
    let [first, second, outside, against] = [0, 1, 2, 3].map(|idx| {
        let inference = if idx < 2 { Inference::F1 } else { Inference::F2 };
        evidence.get(text.findings[idx]).or_else(|| any(inference, idx))
    });
    let also = [Inference::F1, Inference::F2].map(|it| any(it, 4));
    let market = any(Inference::F2, 5);
    let cite = |it: Option<&Finding>| it.map(citation).unwrap_or_default();
    let id = |it: Option<&Finding>| it.map(|it| format!("[{}]", it.id)).unwrap_or_default();
    let reasoning = vec![
        format!(
            "{} {}. {} {}. {}",
            phrase("starts_from"),
            id(first),
            phrase("reads_as"),
            cite(second),
            phrase("taken_together")
        ),
        format!("{} {}. {}", fill(&text.argument), cite(market), phrase("outside_view")),
        format!(
            "{} {}. {} {} {} and {}.",
            phrase("objection"),
            cite(against),
            phrase("still"),
            phrase("see_also"),
            id(also[0]),
            id(also[1])
        ),
    ];
    let citations = [first, second, outside, against].into_iter().flatten();
    let cost = match text.risk {
        Risk::Low => "low_cost",
        Risk::Medium => "medium_cost",
        Risk::High => "high_cost",
    };
    let step = |[action, owner, timeframe]: &[String; 3]| Step {
        action: fill(action),
        owner: fill(owner),
        timeframe: fill(timeframe),
    };
    MoveDraft {
        title: fill(&text.title),
        risk_level: text.risk,
        thesis: format!("{} {}.", fill(&text.thesis), cite(first)),
        why_now: format!("{} {}.", phrase("why_now"), cite(outside)),
        reasoning,
        citations: citations.map(|it| it.id.to_string()).collect(),
        steps: text.steps.iter().map(step).collect(),
        cost: phrase(cost),
        downside: fill(&text.downside),
        mitigation: fill(&text.mitigation),
        falsifiers: vec![fill(&text.falsifier), phrase("second_falsifier")],
        kpi: fill(&text.kpi),
    }
}

/// Returns the claim of a finding without its full stop, followed by the id of the finding in brackets.
pub(super) fn citation(finding: &Finding) -> String {
    format!("{} [{}]", finding.draft.claim.trim_end_matches('.'), finding.id)
}

/// The findings that moves are based on.
struct MoveEvidence<'a> {
    findings: Vec<&'a Finding>,
}

impl<'a> MoveEvidence<'a> {
    fn new(findings: &'a [Findings]) -> Self {
        Self { findings: findings.iter().flat_map(|it| &it.findings).collect() }
    }

    /// Returns the most important finding on a topic.
    fn get(&self, kind: Kind) -> Option<&'a Finding> {
        self.findings.iter().find(|it| it.draft.kind == kind).copied()
    }

    /// Returns one of the findings of a set, or one of all findings if the set is empty. `idx` selects the finding;
    /// consecutive values select different findings.
    fn any(&self, inference: Inference, idx: usize, writer: &Writer) -> Option<&'a Finding> {
        let of_set: Vec<_> =
            self.findings.iter().filter(|it| it.id.inference == inference).collect();
        let some = if of_set.is_empty() { self.findings.iter().collect() } else { of_set };
        let order = writer.order(&inference.to_string(), some.len());
        order.get(idx % order.len().max(1)).map(|it| *some[*it])
    }

    /// Returns the names of segments and of a competitor, which the templates of moves refer to. The names are
    /// extracted from the quotations in the findings.
    fn names(&self) -> Value {
        let quote = |section: &str| {
            let mut evidence = self.findings.iter().flat_map(|it| &it.draft.evidence);
            evidence.find(|it| it.section == section).map_or("", |it| it.quote.as_str())
        };
        let segment = |idx| quote("Revenue by Segment").split(" | ").nth(idx);
        let rival = quote("Competitor Activity").split_once(": ").map(|it| it.0);
        context! {
            lead_segment => segment(1).unwrap_or("the largest segment"),
            young_segment => segment(3).unwrap_or("the newest segment"),
            rival_name => rival.unwrap_or("the strongest competitor"),
        }
    }
}
