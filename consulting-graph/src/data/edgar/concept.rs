//! XBRL tags for the line items of financial statements.

use super::super::item::Item;

/// Returns the tags that filers use for a line item, most common first. The list is empty for line items that are not
/// read from filings.
pub(super) fn tags(item: Item) -> &'static [&'static str] {
    match item {
        Item::Revenue => &[
            "Revenues",
            "RevenueFromContractWithCustomerExcludingAssessedTax",
            "RevenueFromContractWithCustomerIncludingAssessedTax",
            "SalesRevenueNet",
        ],
        Item::CostOfRevenue => &["CostOfRevenue", "CostOfGoodsAndServicesSold", "CostOfGoodsSold"],
        Item::GrossProfit => &["GrossProfit"],
        Item::ResearchAndDevelopment => &["ResearchAndDevelopmentExpense"],
        Item::SellingAndAdministration => &["SellingGeneralAndAdministrativeExpense"],
        Item::OperatingIncome => &["OperatingIncomeLoss"],
        Item::OtherIncome => &["NonoperatingIncomeExpense"],
        Item::PretaxIncome => &[
            "IncomeLossFromContinuingOperationsBeforeIncomeTaxesExtraordinaryItemsNoncontrollingInterest",
            "IncomeLossFromContinuingOperationsBeforeIncomeTaxesMinorityInterestAndIncomeLossFromEquityMethodInvestments",
        ],
        Item::IncomeTax => &["IncomeTaxExpenseBenefit"],
        Item::NetIncome => &["NetIncomeLoss", "ProfitLoss"],
        Item::DilutedShares => &["WeightedAverageNumberOfDilutedSharesOutstanding"],
        Item::Depreciation => {
            &["DepreciationDepletionAndAmortization", "DepreciationAmortizationAndAccretionNet"]
        }
        Item::ShareBasedCompensation => &["ShareBasedCompensation"],
        Item::OperatingCashFlow => &["NetCashProvidedByUsedInOperatingActivities"],
        Item::CapitalExpenditure => {
            &["PaymentsToAcquirePropertyPlantAndEquipment", "PaymentsToAcquireProductiveAssets"]
        }
        Item::Buybacks => &["PaymentsForRepurchaseOfCommonStock"],
        Item::Dividends => &["PaymentsOfDividends", "PaymentsOfDividendsCommonStock"],
        // Issued and repaid debt is reported under too many different tags to compute a reliable sum.
        Item::DebtRaised => &[],
        Item::ChangeInCash => &[
            "CashCashEquivalentsRestrictedCashAndRestrictedCashEquivalentsPeriodIncreaseDecreaseIncludingExchangeRateEffect",
        ],
        Item::Cash => &["CashAndCashEquivalentsAtCarryingValue"],
        Item::MarketableSecurities => &["MarketableSecuritiesCurrent", "ShortTermInvestments"],
        Item::Receivables => &["AccountsReceivableNetCurrent"],
        Item::Inventory => &["InventoryNet"],
        Item::CurrentAssets => &["AssetsCurrent"],
        Item::FixedAssets => &["PropertyPlantAndEquipmentNet"],
        Item::Goodwill => &["Goodwill"],
        Item::Assets => &["Assets"],
        Item::Payables => &["AccountsPayableCurrent"],
        Item::CurrentLiabilities => &["LiabilitiesCurrent"],
        Item::Debt => &["LongTermDebt", "LongTermDebtNoncurrent"],
        Item::Liabilities => &["Liabilities"],
        Item::Equity => &[
            "StockholdersEquity",
            "StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest",
        ],
    }
}
