//! Generates moves with and without a planted flaw from the figures of a company.

use serde::{Deserialize, Serialize};

use super::{
    error::AblationError,
    facts::{self, Fact},
    flaw::FlawKind,
};
use crate::{
    data::{Company, SeededRng, number},
    finding::{
        Direction, Evidence, FindingDraft, FindingId, Findings, FindingsDraft, Inference, Kind,
    },
    moves::{Move, MoveDraft, MoveId, Risk, Step},
    prompt::Brief,
};

/// A move with its ground truth.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Case {
    /// Number of the pair that the move belongs to, starting at 0.
    pub pair: usize,
    /// The planted flaw. `None` for the sound move of the pair.
    pub flaw: Option<FlawKind>,
    /// The move and the findings that it cites.
    pub brief: Brief,
}

/// Subject of a move.
struct Plan {
    title: &'static str,
    thesis: &'static str,
    /// Purpose of the one-off payment.
    purchase: &'static str,
    /// Purpose of the yearly payment.
    operation: &'static str,
    owner: &'static str,
    downside: &'static str,
    kpi: &'static str,
}

const PLANS: [Plan; 8] = [
    Plan {
        title: "Add a second assembly site",
        thesis: "A second site removes the dependence on a single location and shortens delivery times.",
        purchase: "the building and the assembly lines",
        operation: "the staff and the maintenance of the site",
        owner: "COO",
        downside: "The site is used less than planned if demand falls.",
        kpi: "Share of orders delivered within 30 days",
    },
    Plan {
        title: "Offer a support contract to every large customer",
        thesis: "Support contracts make revenue more predictable and bring the company closer to its customers.",
        purchase: "the support centre and its software",
        operation: "the support engineers",
        owner: "Head of services",
        downside: "Customers may regard support as part of the price.",
        kpi: "Share of large customers with a contract",
    },
    Plan {
        title: "Move internal data to a common platform",
        thesis: "One platform replaces several systems that do the same work.",
        purchase: "the migration of all systems",
        operation: "the licences of the platform",
        owner: "CIO",
        downside: "The migration disturbs the monthly closing of the books.",
        kpi: "Number of systems in operation",
    },
    Plan {
        title: "Open a sales office in a new region",
        thesis: "A local office wins customers who do not buy from abroad.",
        purchase: "the office and the local certification of the products",
        operation: "the rent and the sales team",
        owner: "Head of sales",
        downside: "A local competitor may answer with lower prices.",
        kpi: "Revenue from the region",
    },
    Plan {
        title: "Build a training programme for partners",
        thesis: "Trained partners sell and install more without additional staff of the company.",
        purchase: "the courses and the examination system",
        operation: "the trainers",
        owner: "Head of partners",
        downside: "Partners may use the training to sell competing products.",
        kpi: "Number of certified partners",
    },
    Plan {
        title: "Secure a long-term supply agreement",
        thesis: "A fixed quantity at a fixed price protects the margin against shortages.",
        purchase: "the warehouse for the reserved parts",
        operation: "the storage of the delivered parts",
        owner: "CFO",
        downside: "The reserved quantity may turn out to be too large.",
        kpi: "Share of parts under contract",
    },
    Plan {
        title: "Create a laboratory for product reliability",
        thesis: "Fewer failures in the field reduce warranty costs and strengthen the brand.",
        purchase: "the test equipment",
        operation: "the engineers of the laboratory",
        owner: "CTO",
        downside: "Results arrive too late for the products of this year.",
        kpi: "Failures per thousand units",
    },
    Plan {
        title: "Refurbish and resell returned products",
        thesis: "Returned products have a second life in markets that buy on price.",
        purchase: "the refurbishing line",
        operation: "the logistics of returns",
        owner: "Head of operations",
        downside: "Refurbished products may take sales from new ones.",
        kpi: "Share of returned products resold",
    },
];

/// Sentences that connect a fact with the move. `{}` is the fact with its citation.
const LINKS: [&str; 3] = [
    "{}, so the company can carry the programme without touching its core business.",
    "{}, which shows the size of the business that the programme has to fit.",
    "{}, which is the level against which the result will be measured.",
];

/// Timeframes in which nothing can be bought and put into operation.
const IMPOSSIBLE: [&str; 3] = ["within 30 minutes", "within 1 hour", "within 2 hours"];

/// Generates `pairs` pairs of moves. A pair consists of a sound move and the same move with one flaw. The kinds of
/// flaws are used in rotation, and each occurs with every plan once in 32 pairs. The same company and seed result in
/// the same moves.
pub fn generate(company: &Company, pairs: usize, seed: u64) -> Result<Vec<Case>, AblationError> {
    let facts = facts::facts(company);
    let too_few = || AblationError::TooFewFigures(company.ticker.to_string());
    let cash = facts::cash(company).ok_or_else(too_few)?;
    if facts.len() < 6 {
        return Err(too_few());
    }
    let mut cases = Vec::with_capacity(2 * pairs);
    for pair in 0..pairs {
        let mut rng = SeededRng::from_text(&format!("ablation {seed} {} {pair}", company.ticker));
        let parts = Parts::draw(pair, &facts, &cash, &mut rng);
        let flaw = FlawKind::ALL[pair % FlawKind::ALL.len()];
        for flaw in [None, Some(flaw)] {
            // Random, so that the numbers of the two moves do not reveal which of them is flawed.
            let is_second = flaw.is_some() == rng.clone().next_u64().is_multiple_of(2);
            let number = 2 * pair + 1 + usize::from(is_second);
            let move_id = MoveId(u16::try_from(number).unwrap_or(u16::MAX));
            let the_move = Move {
                move_id,
                agent_id: "analyst_1".to_owned(),
                persona: "Analyst".to_owned(),
                ticker: company.ticker.clone(),
                draft: parts.draft(flaw),
            };
            let brief = Brief::new(&the_move, &[parts.findings(company)]);
            cases.push(Case { pair, flaw, brief });
        }
    }
    Ok(cases)
}

/// The parts that both moves of a pair have in common, and their replacements in the flawed move.
struct Parts {
    plan: &'static Plan,
    /// Three facts and the cash balance.
    facts: Vec<Fact>,
    /// Index of the fact with the wrong figure or citation.
    flawed_fact: usize,
    wrong_value: String,
    once: i64,
    yearly: i64,
    years: i64,
    months: i64,
    impossible: &'static str,
}

impl Parts {
    fn draw(pair: usize, facts: &[Fact], cash: &(Fact, i64), rng: &mut SeededRng) -> Self {
        let mut pick = |n: usize| rng.between(0, n as i64 - 1).unsigned_abs() as usize;
        let mut left: Vec<&Fact> = facts.iter().collect();
        let mut chosen: Vec<Fact> = (0..3).map(|_| left.remove(pick(left.len())).clone()).collect();
        chosen.push(cash.0.clone());
        let flawed_fact = pick(3);
        let impossible = IMPOSSIBLE[pick(IMPOSSIBLE.len())];
        let wrong_value = chosen[flawed_fact].wrong_value(rng);
        // Rounded, so that the sums in the text are exact.
        let round = |it: i64| (it / 1_000_000).max(1) * 1_000_000;
        let once = round(cash.1 / 1000 * rng.between(20, 60));
        Self {
            // Shifted in each cycle, because the kind of the flaw also depends on the number of the pair.
            plan: &PLANS[(pair + pair / PLANS.len()) % PLANS.len()],
            facts: chosen,
            flawed_fact,
            wrong_value,
            once,
            yearly: round(once / 100 * rng.between(20, 60)),
            years: rng.between(3, 6),
            months: rng.between(9, 24),
            impossible,
        }
    }

    /// Returns the number of the finding that states a fact.
    fn id(index: usize) -> FindingId {
        FindingId { inference: Inference::F1, number: index as u8 + 1 }
    }

    fn findings(&self, company: &Company) -> Findings {
        let finding = |it: &Fact| FindingDraft {
            claim: format!("{} was {}.", it.subject, it.value()),
            evidence: vec![Evidence {
                section: "Figures".to_owned(),
                quote: format!("{}: {}", it.subject, it.value()),
            }],
            direction: Direction::Mixed,
            strength: 3,
            kind: Kind::Other,
        };
        let findings = self.facts.iter().map(finding).collect();
        let draft = FindingsDraft { findings, tensions: Vec::new() };
        Findings::from_draft(Inference::F1, company.ticker.clone(), draft)
    }

    fn draft(&self, flaw: Option<FlawKind>) -> MoveDraft {
        let Self { plan, years, .. } = self;
        let (once, yearly) = (number::dollars(self.once), number::dollars(self.yearly));
        let total = number::dollars(self.once + self.years * self.yearly);
        let cash = self.facts.len() - 1;
        let mut reasoning: Vec<String> = LINKS
            .iter()
            .enumerate()
            .map(|(idx, link)| link.replace("{}", &self.statement(idx, flaw)))
            .collect();
        reasoning.push(format!(
            "{}, so the first payment of {once} can be made from cash.",
            self.statement(cash, flaw)
        ));
        let timeframe = match flaw {
            Some(FlawKind::InfeasibleStep) => self.impossible.to_owned(),
            _ => format!("within {} months", self.months),
        };
        let cost = match flaw {
            Some(FlawKind::HiddenCost) => {
                format!("{once} once, and nothing after that: {once} in total.")
            }
            _ => format!("{once} once and {yearly} a year for {years} years: {total} in total."),
        };
        let step = |action: String, timeframe: String| Step {
            action,
            owner: plan.owner.to_owned(),
            timeframe,
        };
        MoveDraft {
            title: plan.title.to_owned(),
            risk_level: Risk::Medium,
            thesis: plan.thesis.to_owned(),
            why_now: "The preparation takes months, and the money is available now.".to_owned(),
            reasoning,
            citations: (0..self.facts.len()).map(|it| Self::id(it).to_string()).collect(),
            steps: vec![
                step(
                    "Choose the suppliers and sign the contracts".to_owned(),
                    "within 4 months".to_owned(),
                ),
                step(
                    format!("Buy and put into operation {}, for {once} in total", plan.purchase),
                    timeframe,
                ),
                step(
                    format!("Pay {yearly} a year for {}", plan.operation),
                    format!("for {years} years after that"),
                ),
            ],
            cost,
            downside: plan.downside.to_owned(),
            mitigation: "The board reviews the programme every year and can end it.".to_owned(),
            falsifiers: vec!["The measure below does not improve within two years.".to_owned()],
            kpi: plan.kpi.to_owned(),
        }
    }

    /// States a fact with its citation. The flawed fact has a wrong value, or cites the finding of another fact.
    fn statement(&self, index: usize, flaw: Option<FlawKind>) -> String {
        let fact = &self.facts[index];
        let is_flawed = index == self.flawed_fact;
        let value = match flaw {
            Some(FlawKind::WrongFigure) if is_flawed => self.wrong_value.clone(),
            _ => fact.value(),
        };
        let cited = match flaw {
            Some(FlawKind::WrongCitation) if is_flawed => (index + 1) % 3,
            _ => index,
        };
        format!("{} was {value} [{}]", fact.subject, Self::id(cited))
    }
}
