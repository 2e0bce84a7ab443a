//! Charts of a company's figures, for the report and for the web page.

use serde::{Deserialize, Serialize};

use crate::data::{
    Company, Item, Split, Statement, number,
    ratio::{gross_margin, net_margin, operating_margin},
};

/// Maximum number of quarters in a chart.
const MAX_QUARTERS: usize = 8;
/// Maximum number of fiscal years in a chart.
const MAX_YEARS: usize = 4;

/// A chart of figures by period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureChart {
    pub title: String,
    pub form: ChartForm,
    pub unit: ChartUnit,
    /// The periods, oldest first.
    pub periods: Vec<String>,
    /// An additional figure for each period, shown below the name of the period. May be empty.
    pub captions: Vec<String>,
    pub series: Vec<FigureSeries>,
}

/// The values of one figure, one for each period of the chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureSeries {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartForm {
    /// One column for each period, in which the series are stacked.
    Columns,
    /// One line for each series.
    Lines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartUnit {
    Dollars,
    /// A fraction, shown as a percentage.
    Fraction,
}

impl FigureChart {
    pub(super) fn format(&self, value: f64) -> String {
        match self.unit {
            ChartUnit::Dollars => number::dollars(value as i64),
            ChartUnit::Fraction => number::percent(value),
        }
    }
}

/// Returns the charts for which the company has data. The first one summarizes the company.
pub(super) fn charts(company: &Company) -> Vec<FigureChart> {
    let quarters = newest(&company.quarters, MAX_QUARTERS);
    let segments = newest(&company.segments, MAX_QUARTERS);
    let all = [
        revenue("Revenue by fiscal year", newest(&company.annuals, MAX_YEARS), true),
        revenue("Revenue by quarter", quarters, false),
        margins(quarters),
        by_segment(segments),
    ];
    let has_data = |it: &FigureChart| {
        it.periods.len() > 1 && it.series.iter().any(|it| it.values.iter().any(Option::is_some))
    };
    all.into_iter().filter(has_data).collect()
}

fn newest<T>(all: &[T], n: usize) -> &[T] {
    &all[all.len().saturating_sub(n)..]
}

fn revenue(title: &str, statements: &[Statement], with_margin: bool) -> FigureChart {
    let known: Vec<&Statement> =
        statements.iter().filter(|it| it.get(Item::Revenue).is_some()).collect();
    let margin = |it: &&Statement| {
        operating_margin(it)
            .map_or_else(String::new, |it| format!("{} operating margin", number::percent(it)))
    };
    FigureChart {
        title: title.to_owned(),
        form: ChartForm::Columns,
        unit: ChartUnit::Dollars,
        periods: known.iter().map(|it| it.period.to_string()).collect(),
        captions: if with_margin { known.iter().map(margin).collect() } else { Vec::new() },
        series: vec![FigureSeries {
            name: "Revenue".to_owned(),
            values: known.iter().map(|it| it.get(Item::Revenue).map(|it| it as f64)).collect(),
        }],
    }
}

fn margins(quarters: &[Statement]) -> FigureChart {
    let series = |name: &str, margin: fn(&Statement) -> Option<f64>| FigureSeries {
        name: name.to_owned(),
        values: quarters.iter().map(margin).collect(),
    };
    let all = [
        series("Gross margin", gross_margin),
        series("Operating margin", operating_margin),
        series("Net margin", net_margin),
    ];
    FigureChart {
        title: "Margins by quarter, in percent of revenue".to_owned(),
        form: ChartForm::Lines,
        unit: ChartUnit::Fraction,
        periods: quarters.iter().map(|it| it.period.to_string()).collect(),
        captions: Vec::new(),
        series: all.into_iter().filter(|it| it.values.iter().any(Option::is_some)).collect(),
    }
}

fn by_segment(splits: &[Split]) -> FigureChart {
    let names: Vec<&String> =
        splits.last().into_iter().flat_map(|it| it.parts.iter().map(|it| &it.0)).collect();
    let series = |name: &&String| FigureSeries {
        name: (*name).clone(),
        values: splits
            .iter()
            .map(|it| it.parts.iter().find(|part| part.0 == **name).map(|it| it.1 as f64))
            .collect(),
    };
    FigureChart {
        title: "Revenue by segment and quarter".to_owned(),
        form: ChartForm::Columns,
        unit: ChartUnit::Dollars,
        periods: splits.iter().map(|it| it.period.to_string()).collect(),
        captions: Vec::new(),
        series: names.iter().map(series).collect(),
    }
}
