//! JSON Schema of a graph's state, input and output.

use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::{
    graph::compiled::CompiledGraph,
    state::{State, field::Field},
};

impl<S: State + JsonSchema, C: Send + Sync + 'static> CompiledGraph<S, C> {
    /// Returns the JSON Schema of the whole state.
    pub fn state_schema(&self) -> Schema {
        self.schema_of(|_| true)
    }

    /// Returns the JSON Schema of a run's input.
    pub fn input_schema(&self) -> Schema {
        self.schema_of(|field| field.input)
    }

    /// Returns the JSON Schema of a run's output.
    pub fn output_schema(&self) -> Schema {
        self.schema_of(|field| field.output)
    }

    fn schema_of(&self, show: fn(&Field) -> bool) -> Schema {
        let mut schema = schemars::schema_for!(S);
        let shown = |name: &str| {
            let fields = self.erased().initial.fields();
            fields.iter().any(|it| it.name == name && show(it))
        };
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.retain(|name, _| shown(name));
        }
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|name| name.as_str().is_some_and(shown));
        }
        schema
    }
}
