//! Filings of form 8-K, with which companies report events between their periodic reports.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// Item under which exhibits are attached to a report. It says nothing about the event.
const EXHIBITS: &str = "9.01";

/// Items that are bad news for a company, regardless of the details.
const UNFAVOURABLE: [&str; 8] = ["1.03", "1.05", "2.04", "2.05", "2.06", "3.01", "4.02", "6.04"];

/// The items of form 8-K with their titles.
const TITLES: [(&str, &str); 33] = [
    ("1.01", "Entry into a Material Definitive Agreement"),
    ("1.02", "Termination of a Material Definitive Agreement"),
    ("1.03", "Bankruptcy or Receivership"),
    ("1.04", "Mine Safety - Reporting of Shutdowns and Patterns of Violations"),
    ("1.05", "Material Cybersecurity Incidents"),
    ("2.01", "Completion of Acquisition or Disposition of Assets"),
    ("2.02", "Results of Operations and Financial Condition"),
    (
        "2.03",
        "Creation of a Direct Financial Obligation or an Obligation under an Off-Balance Sheet Arrangement of a \
         Registrant",
    ),
    (
        "2.04",
        "Triggering Events That Accelerate or Increase a Direct Financial Obligation or an Obligation under an \
         Off-Balance Sheet Arrangement",
    ),
    ("2.05", "Costs Associated with Exit or Disposal Activities"),
    ("2.06", "Material Impairments"),
    (
        "3.01",
        "Notice of Delisting or Failure to Satisfy a Continued Listing Rule or Standard; Transfer of Listing",
    ),
    ("3.02", "Unregistered Sales of Equity Securities"),
    ("3.03", "Material Modification to Rights of Security Holders"),
    ("4.01", "Changes in Registrant's Certifying Accountant"),
    (
        "4.02",
        "Non-Reliance on Previously Issued Financial Statements or a Related Audit Report or Completed Interim Review",
    ),
    ("5.01", "Changes in Control of Registrant"),
    (
        "5.02",
        "Departure of Directors or Certain Officers; Election of Directors; Appointment of Certain Officers; \
         Compensatory Arrangements of Certain Officers",
    ),
    ("5.03", "Amendments to Articles of Incorporation or Bylaws; Change in Fiscal Year"),
    ("5.04", "Temporary Suspension of Trading Under Registrant's Employee Benefit Plans"),
    (
        "5.05",
        "Amendments to the Registrant's Code of Ethics, or Waiver of a Provision of the Code of Ethics",
    ),
    ("5.06", "Change in Shell Company Status"),
    ("5.07", "Submission of Matters to a Vote of Security Holders"),
    ("5.08", "Shareholder Director Nominations"),
    ("6.01", "ABS Informational and Computational Material"),
    ("6.02", "Change of Servicer or Trustee"),
    ("6.03", "Change in Credit Enhancement or Other External Support"),
    ("6.04", "Failure to Make a Required Distribution"),
    ("6.05", "Securities Act Updating Disclosure"),
    ("6.06", "Static Pool"),
    ("7.01", "Regulation FD Disclosure"),
    ("8.01", "Other Events"),
    (EXHIBITS, "Financial Statements and Exhibits"),
];

/// A filing of form 8-K. Only its date and its items are known, not its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentReport {
    pub filed: NaiveDate,
    /// The date of the earliest event that is reported, if the filing states it.
    pub event_date: Option<NaiveDate>,
    /// `8-K`, or `8-K/A` for an amendment.
    pub form: String,
    /// The numbers of the items, such as `2.02`.
    pub items: Vec<String>,
    /// The filing's accession number.
    pub accession: String,
}

impl CurrentReport {
    /// Returns whether one of the items is bad news for the company, regardless of the details.
    pub(crate) fn is_unfavourable(&self) -> bool {
        self.items.iter().any(|it| UNFAVOURABLE.contains(&it.as_str()))
    }

    /// Describes the report in one sentence without a full stop.
    pub(crate) fn sentence(&self) -> String {
        let Self { form, accession, .. } = self;
        let is_event = |it: &&String| *it != EXHIBITS || self.items.len() == 1;
        let items: Vec<String> =
            self.items.iter().filter(is_event).map(|it| item_with_title(it)).collect();
        let items = if items.is_empty() { "no item".to_owned() } else { items.join("; ") };
        let date = self.event_date.map(|it| format!(" on an event of {it}")).unwrap_or_default();
        format!("the {form}{date} reports {items} ({accession})")
    }
}

/// Returns the number of an item with its title. Items of older versions of the form have no known title.
fn item_with_title(number: &str) -> String {
    match TITLES.iter().find(|it| it.0 == number) {
        Some((_, title)) => format!("Item {number}, {title}"),
        None => format!("Item {number}"),
    }
}
