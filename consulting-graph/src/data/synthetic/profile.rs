//! What an invented company is like, before its books are kept.

use super::super::random::Chance;

/// A line of business, with segments and competitors that exist nowhere else.
#[derive(Debug)]
pub(super) struct Sector {
    pub(super) name: &'static str,
    pub(super) segments: &'static [&'static str],
    pub(super) competitors: &'static [&'static str],
}

pub(super) const REGIONS: [&str; 4] = ["Americas", "Europe", "Asia-Pacific", "Rest of world"];

const SECTORS: &[Sector] = &[
    Sector {
        name: "Semiconductors",
        segments: &["Compute", "Networking", "Automotive", "Embedded"],
        competitors: &["Halvorsen Silicon", "Tessaly Micro", "Quorra Devices"],
    },
    Sector {
        name: "Enterprise Software",
        segments: &["Cloud platform", "Security", "Analytics", "Services"],
        competitors: &["Brightmoor Systems", "Ostrava Cloud", "Lumenary"],
    },
    Sector {
        name: "Consumer Devices",
        segments: &["Handsets", "Wearables", "Home", "Subscriptions"],
        competitors: &["Ardent Mobile", "Kestrel Home", "Vantor"],
    },
    Sector {
        name: "Medical Technology",
        segments: &["Imaging", "Diagnostics", "Surgical", "Software"],
        competitors: &["Meridian Optics", "Calloway Medical", "Nordhaven"],
    },
    Sector {
        name: "Industrial Automation",
        segments: &["Robotics", "Drives", "Control software", "Maintenance"],
        competitors: &["Steinfurt Drives", "Pallas Robotics", "Orrin Controls"],
    },
];

/// How the company does. Rates are in thousandths, of a quarter's revenue unless said otherwise; money is in millions.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) sector: &'static Sector,
    pub(super) revenue: i64,
    pub(super) growth: i64,
    pub(super) cost: i64,
    pub(super) cost_drift: i64,
    pub(super) research: i64,
    pub(super) selling: i64,
    pub(super) tax: i64,
    pub(super) receivables: i64,
    pub(super) receivables_drift: i64,
    /// Of the quarter's cost of revenue.
    pub(super) inventory: i64,
    pub(super) inventory_drift: i64,
    /// Of the quarter's cost of revenue.
    pub(super) payables: i64,
    pub(super) investment: i64,
    pub(super) investment_drift: i64,
    /// Of net income.
    pub(super) dividends: i64,
    /// Of free cash flow; over 1000 when more is paid out than comes in.
    pub(super) buybacks: i64,
    pub(super) debt: i64,
    pub(super) cash: i64,
    /// Millions of shares.
    pub(super) shares: i64,
    pub(super) segment_weights: Vec<(i64, i64)>,
    pub(super) region_weights: Vec<(i64, i64)>,
}

impl Profile {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let sector_idx = chance.between(0, SECTORS.len() as i64 - 1);
        let sector = SECTORS.get(sector_idx.unsigned_abs() as usize).unwrap_or(&SECTORS[0]);
        let mut profile = Self {
            sector,
            revenue: chance.between(400, 9_000),
            growth: chance.between(-6, 45),
            cost: chance.between(300, 560),
            cost_drift: chance.between(-5, 5),
            research: chance.between(70, 190),
            selling: chance.between(90, 180),
            tax: chance.between(140, 240),
            receivables: chance.between(450, 700),
            receivables_drift: chance.between(-4, 6),
            inventory: chance.between(300, 800),
            inventory_drift: chance.between(-6, 10),
            payables: chance.between(300, 600),
            investment: chance.between(40, 120),
            investment_drift: chance.between(-1, 3),
            dividends: chance.between(0, 300),
            buybacks: chance.between(100, 800),
            debt: chance.between(600, 2_400),
            cash: chance.between(700, 2_600),
            shares: chance.between(180, 2_400),
            segment_weights: weights(sector.segments.len(), chance),
            region_weights: weights(REGIONS.len(), chance),
        };
        profile.plant_tension(chance);
        profile
    }

    /// Makes good news cost something: growth that is bought, sold on credit, or paid out.
    fn plant_tension(&mut self, chance: &mut Chance) {
        match chance.between(0, 3) {
            0 => (self.growth, self.cost_drift) = (self.growth.max(15), chance.between(5, 9)),
            1 => {
                (self.growth, self.receivables_drift) =
                    (self.growth.max(12), chance.between(12, 22))
            }
            2 => {
                (self.cost_drift, self.buybacks) =
                    (chance.between(2, 5), chance.between(1_100, 1_500))
            }
            _ => {
                (self.growth, self.inventory_drift) =
                    (chance.between(-8, 4), chance.between(18, 34))
            }
        }
    }
}

/// Starting weights, largest first, with a drift by which the first shrinks and the last grows.
fn weights(n: usize, chance: &mut Chance) -> Vec<(i64, i64)> {
    let drift = chance.between(4, 12);
    (0..n as i64)
        .map(|idx| {
            let start = 420 / (idx + 1) + chance.between(0, 60);
            let drift = if idx == 0 {
                -drift
            } else if idx + 1 == n as i64 {
                drift
            } else {
                chance.between(-3, 5)
            };
            (start, drift)
        })
        .collect()
}
