//! The statement values that all files together contain.

use std::collections::BTreeMap;

use super::{
    super::{
        item::Item,
        origin::{Fact, Origin},
        statement::Period,
    },
    calendar::Calendar,
};

/// The statement values read from the files so far.
#[derive(Debug)]
pub(super) struct StatementTable {
    pub(super) calendar: Calendar,
    pub(super) statements: BTreeMap<Period, BTreeMap<Item, Fact>>,
}

impl StatementTable {
    pub(super) fn add(
        &mut self,
        period: Period,
        item: Item,
        value: f64,
        origin: Origin,
    ) -> Result<(), String> {
        if !self.calendar.admit(period) {
            return Ok(());
        }
        if value.abs() > 9.0e15 {
            return Err(format!("{value} is too large; enter amounts in whole dollars or shares"));
        }
        let fact = Fact { value: value.round() as i64, origin };
        let facts = self.statements.entry(period).or_default();
        match facts.get(&item) {
            Some(before) if before.value != fact.value => Err(format!(
                "{item} of {period} is {} here but {} in {}; remove one of them",
                fact.value, before.value, before.origin
            )),
            _ => {
                facts.insert(item, fact);
                Ok(())
            }
        }
    }
}
