//! Tests of the typed copies that the reducers of JSON fields keep.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::*;
use crate::state::{
    change::Change,
    erased::{AnyUpdate, ErasedState, TypedState},
    field::FieldError,
    fold::Fold,
};

/// Adds numbers to the typed copy of the sum. Uses the value of the field only if there is no typed copy.
#[derive(Debug)]
struct Total;

impl JsonReducer for Total {
    fn initial_value(&self) -> Value {
        Value::from(0)
    }

    fn fold(
        &self,
        field: ReducedField<'_>,
        write: ReducedWrite,
    ) -> Result<Option<Change>, FieldError> {
        let ReducedField { value, decoded, .. } = field;
        let copy = decoded.as_ref().and_then(|it| it.downcast_ref::<u64>()).copied();
        let current = copy.or_else(|| value.as_u64()).unwrap_or_default();
        let sum = current + write.value.as_u64().unwrap_or_default();
        *value = Value::from(sum);
        *decoded = Some(Arc::new(sum));
        Ok(None)
    }
}

fn write(state: &mut TypedState<JsonState>, number: u64, overwrite: bool) {
    let schema = &state.0.schema;
    let update = JsonUpdate::default().write(schema, "total", Value::from(number), overwrite);
    let mut update: AnyUpdate = Box::new(update.unwrap());
    state.fold(&mut update, &mut Fold::default()).unwrap();
}

fn load(state: &mut TypedState<JsonState>) {
    state.load(Map::from_iter([("total".to_owned(), json!(10))])).unwrap();
}

#[test]
fn replacing_a_value_drops_its_typed_copy() {
    let kind = JsonFieldKind::Custom(Arc::new(Total));
    let schema = JsonStateSchema::new([("total", kind)]).unwrap();
    let replacements: [(&str, fn(&mut TypedState<JsonState>), u64); 3] = [
        ("overwrite", |state| write(state, 10, true), 11),
        ("load", load, 11),
        ("clear", |state| state.clear(0), 1),
    ];
    for (name, replace, expected) in replacements {
        let mut state = TypedState(Arc::new(schema.initial()));
        write(&mut state, 3, false);
        write(&mut state, 4, false);
        assert_eq!(state.0.decoded::<u64>("total").as_deref(), Some(&7), "{name}");
        replace(&mut state);
        assert!(state.0.decoded::<u64>("total").is_none(), "{name}");
        write(&mut state, 1, false);
        assert_eq!(state.0.get("total"), Some(&Value::from(expected)), "{name}");
    }
}
