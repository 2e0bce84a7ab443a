//! Parameters from which the accounts of a fictional company are generated.

use super::super::rng::SeededRng;

/// An industry with fictional segments and competitors.
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

/// Parameters of a fictional company. Rates are in thousandths of a quarter's revenue unless stated otherwise, and
/// money is in millions. In every quarter, the field `x_drift` is added to the rate `x`.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) sector: &'static Sector,
    pub(super) revenue: i64,
    pub(super) growth: i64,
    pub(super) cost: i64,
    pub(super) cost_drift: i64,
    pub(super) research: i64,
    pub(super) selling: i64,
    /// In thousandths of pretax income.
    pub(super) tax: i64,
    pub(super) receivables: i64,
    pub(super) receivables_drift: i64,
    /// In thousandths of the quarter's cost of revenue.
    pub(super) inventory: i64,
    pub(super) inventory_drift: i64,
    /// In thousandths of the quarter's cost of revenue.
    pub(super) payables: i64,
    pub(super) investment: i64,
    pub(super) investment_drift: i64,
    /// In thousandths of net income.
    pub(super) dividends: i64,
    /// In thousandths of free cash flow. If the rate is above 1000, repurchases exceed the free cash flow.
    pub(super) buybacks: i64,
    pub(super) debt: i64,
    pub(super) cash: i64,
    /// Millions of shares.
    pub(super) shares: i64,
    pub(super) segment_weights: Vec<(i64, i64)>,
    pub(super) region_weights: Vec<(i64, i64)>,
}

impl Profile {
    pub(super) fn generate(rng: &mut SeededRng) -> Self {
        let sector_idx = rng.between(0, SECTORS.len() as i64 - 1);
        let sector = SECTORS.get(sector_idx.unsigned_abs() as usize).unwrap_or(&SECTORS[0]);
        let mut profile = Self {
            sector,
            revenue: rng.between(400, 9_000),
            growth: rng.between(-6, 45),
            cost: rng.between(300, 560),
            cost_drift: rng.between(-5, 5),
            research: rng.between(70, 190),
            selling: rng.between(90, 180),
            tax: rng.between(140, 240),
            receivables: rng.between(450, 700),
            receivables_drift: rng.between(-4, 6),
            inventory: rng.between(300, 800),
            inventory_drift: rng.between(-6, 10),
            payables: rng.between(300, 600),
            investment: rng.between(40, 120),
            investment_drift: rng.between(-1, 3),
            dividends: rng.between(0, 300),
            buybacks: rng.between(100, 800),
            debt: rng.between(600, 2_400),
            cash: rng.between(700, 2_600),
            shares: rng.between(180, 2_400),
            segment_weights: weights(sector.segments.len(), rng),
            region_weights: weights(REGIONS.len(), rng),
        };
        profile.add_tension(rng);
        profile
    }

    /// Adds a randomly chosen weakness, such as growth at the expense of the margin, late-paying customers, repurchases
    /// that exceed the free cash flow, or growing inventory.
    fn add_tension(&mut self, rng: &mut SeededRng) {
        match rng.between(0, 3) {
            0 => (self.growth, self.cost_drift) = (self.growth.max(15), rng.between(5, 9)),
            1 => (self.growth, self.receivables_drift) = (self.growth.max(12), rng.between(12, 22)),
            2 => (self.cost_drift, self.buybacks) = (rng.between(2, 5), rng.between(1_100, 1_500)),
            _ => (self.growth, self.inventory_drift) = (rng.between(-8, 4), rng.between(18, 34)),
        }
    }
}

/// Draws `n` pairs of an initial weight and its change per quarter, largest weight first. The first weight shrinks and
/// the last one grows.
fn weights(n: usize, rng: &mut SeededRng) -> Vec<(i64, i64)> {
    let drift = rng.between(4, 12);
    (0..n as i64)
        .map(|idx| {
            let start = 420 / (idx + 1) + rng.between(0, 60);
            let drift = if idx == 0 {
                -drift
            } else if idx + 1 == n as i64 {
                drift
            } else {
                rng.between(-3, 5)
            };
            (start, drift)
        })
        .collect()
}
