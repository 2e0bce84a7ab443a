//! Moves of the offline board.

use minijinja::{Value, context};

use super::{
    figures::FILING_EVENTS,
    writer::{MoveText, TEXTS, Writer},
};
use crate::{
    finding::{Direction, Evidence, Finding, Findings, Inference, Kind},
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

/// Chooses one of the analyst's prepared moves with this risk. Prefers moves that name no unknown segment or
/// competitor, then moves whose topics have findings. For an analyst without prepared moves, chooses from the moves of
/// all analysts.
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
    let unknown_names = evidence.unknown_names();
    // Without news, no move has findings on the topics from F2.
    let n_topics = if evidence.has_outside_view() { 4 } else { 2 };
    order.min_by_key(|it| {
        let is_vague = unknown_names.iter().any(|name| it.refers_to(name));
        let topics = it.findings.iter().take(n_topics);
        (is_vague, topics.filter(|kind| evidence.get(**kind).is_none()).count())
    })
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
    // Without news, any unfavourable trend is an objection, except the one that supports the argument.
    let against = if evidence.has_outside_view() {
        against
    } else {
        evidence.any_negative_except(market, turn, writer).or(against)
    };
    let (why_now, view) = if evidence.has_outside_view() {
        ("why_now", "outside_view")
    } else {
        ("figures_why_now", "figures_view")
    };
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
        format!("{} {}. {}", fill(&text.argument), cite(market), phrase(view)),
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
    let step = |[action, owner, timeframe]: &[String; 3]| Step {
        action: fill(action),
        owner: fill(owner),
        timeframe: fill(timeframe),
    };
    MoveDraft {
        title: fill(&text.title),
        risk_level: text.risk,
        thesis: format!("{} {} {}.", fill(&text.thesis), phrase("thesis_figure"), cite(first)),
        why_now: format!("{} {}.", phrase(why_now), cite(outside)),
        reasoning,
        citations: citations.map(|it| it.id.to_string()).collect(),
        steps: text.steps.iter().map(step).collect(),
        cost: fill(&text.cost),
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

    /// Returns whether there are findings from news, as opposed to the company's own figures and filings.
    fn has_outside_view(&self) -> bool {
        let kinds = [
            Kind::Sentiment,
            Kind::Competitor,
            Kind::Regulation,
            Kind::Event,
            Kind::Analyst,
            Kind::Prediction,
        ];
        let is_filing = |it: &Evidence| it.section == FILING_EVENTS;
        let from_news = |it: &&Finding| !it.draft.evidence.iter().any(is_filing);
        self.findings.iter().any(|it| kinds.contains(&it.draft.kind) && from_news(it))
    }

    /// Returns one of the findings of a set, or one of all findings if the set is empty. Findings without a topic are
    /// used only if there are no others. `idx` selects the finding; consecutive values select different findings.
    fn any(&self, inference: Inference, idx: usize, writer: &Writer) -> Option<&'a Finding> {
        let is_in_set = |it: &&&Finding| it.id.inference == inference;
        let has_topic = |it: &&&Finding| it.draft.kind != Kind::Other;
        let mut of_set: Vec<_> = self.findings.iter().filter(is_in_set).filter(has_topic).collect();
        if of_set.is_empty() {
            of_set = self.findings.iter().filter(is_in_set).collect();
        }
        let some = if of_set.is_empty() { self.findings.iter().collect() } else { of_set };
        let order = writer.order(&inference.to_string(), some.len());
        order.get(idx % order.len().max(1)).map(|it| *some[*it])
    }

    /// Returns one of the unfavourable findings, but not `except`. `idx` selects the finding.
    fn any_negative_except(
        &self,
        except: Option<&Finding>,
        idx: usize,
        writer: &Writer,
    ) -> Option<&'a Finding> {
        let is_other = |it: &Finding| except.is_none_or(|except| except.id != it.id);
        let is_negative =
            |it: &&&Finding| it.draft.direction == Direction::Negative && is_other(it);
        let of_f2 = |it: &&&Finding| it.id.inference == Inference::F2;
        let negative: Vec<_> = self.findings.iter().filter(is_negative).filter(of_f2).collect();
        let order = writer.order("negative", negative.len());
        order.get(idx % order.len().max(1)).map(|it| *negative[*it])
    }

    /// Returns the template variables for the segments and the competitor, each with the name to insert, if known. The
    /// names are extracted from the quotations in the findings.
    fn known_names(&self) -> [(&'static str, Option<&'a str>); 3] {
        let quote = |section: &str| {
            let mut evidence = self.findings.iter().flat_map(|it| &it.draft.evidence);
            evidence.find(|it| it.section == section).map_or("", |it| it.quote.as_str())
        };
        let segment = |idx| quote("Revenue by Segment").split(" | ").nth(idx);
        let rival = quote("Competitor Activity").split_once(": ").map(|it| it.0);
        [("lead_segment", segment(1)), ("young_segment", segment(3)), ("rival_name", rival)]
    }

    fn unknown_names(&self) -> Vec<&'static str> {
        self.known_names().into_iter().filter(|it| it.1.is_none()).map(|it| it.0).collect()
    }

    fn names(&self) -> Value {
        let [lead_segment, young_segment, rival_name] = self.known_names().map(|it| it.1);
        context! {
            lead_segment => lead_segment.unwrap_or("the largest segment"),
            young_segment => young_segment.unwrap_or("the newest segment"),
            rival_name => rival_name.unwrap_or("the strongest competitor"),
        }
    }
}
