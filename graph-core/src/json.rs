//! Dynamic graphs: the same engine over JSON state whose fields are chosen at run time.
//!
//! ```
//! use graph_core::{END, JsonKind, JsonSchema, START, json_node};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = JsonSchema::new([("log", JsonKind::Append), ("topic", JsonKind::Last)])?;
//! let graph = schema
//!     .graph()
//!     .node(json_node("greet", |input, _| async move {
//!         let topic = input.get("topic").cloned().unwrap_or_default();
//!         Ok(json!({"log": [format!("hello {topic}")]}))
//!     }))
//!     .edge(START, "greet")
//!     .edge("greet", END)
//!     .compile()?;
//! let output = graph.run(schema.input(json!({"topic": "rust"}))?, ()).await?;
//! assert_eq!(output.to_value(), json!({"topic": "rust", "log": ["hello \"rust\""]}));
//! # Ok(())
//! # }
//! ```

mod kind;
mod node;

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value};

pub use kind::JsonKind;
pub use node::{
    JsonBranch, JsonInput, JsonNode, JsonReturn, UnknownLabel, json_node, json_subgraph,
};

use crate::{
    FieldWrite, Input, NodeError, State, StateGraph,
    node::{IntoOutcome, Outcome},
    state::{Field, FieldError, Fold, Touched, guard},
};

/// The fields of a JSON state, with the kind of each. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JsonSchema {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fields: Vec<Field>,
    kinds: Vec<JsonKind>,
    index: BTreeMap<String, usize>,
    /// Computed fields, which only inputs of nodes and branches show.
    computed: Vec<(String, JsonKind)>,
}

impl JsonSchema {
    /// A schema of these fields.
    pub fn new<N: Into<String>>(
        fields: impl IntoIterator<Item = (N, JsonKind)>,
    ) -> Result<Self, FieldError> {
        let mut shared = Shared {
            fields: Vec::new(),
            kinds: Vec::new(),
            index: BTreeMap::new(),
            computed: Vec::new(),
        };
        for (name, kind) in fields {
            let name = name.into();
            if shared.index.contains_key(&name) || shared.computed.iter().any(|it| it.0 == name) {
                return Err(FieldError::new(name, "the schema names this field twice"));
            }
            if kind.is_computed() {
                shared.computed.push((name, kind));
                continue;
            }
            shared.index.insert(name.clone(), shared.fields.len());
            shared.fields.push(Field {
                name: name.into(),
                many_writers: kind.takes_many(),
                lifetime: kind.lifetime(),
                input: true,
                output: true,
            });
            shared.kinds.push(kind);
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The same schema, where only these fields are taken from an input.
    pub fn with_input<N: AsRef<str>>(
        self,
        fields: impl IntoIterator<Item = N>,
    ) -> Result<Self, FieldError> {
        self.restricted(fields, |field, listed| field.input = listed)
    }

    /// The same schema, where only these fields show in the output.
    pub fn with_output<N: AsRef<str>>(
        self,
        fields: impl IntoIterator<Item = N>,
    ) -> Result<Self, FieldError> {
        self.restricted(fields, |field, listed| field.output = listed)
    }

    /// A graph over this schema.
    pub fn graph(&self) -> StateGraph<JsonState> {
        StateGraph::from_initial(self.initial())
    }

    /// A graph over this schema, whose nodes get dependencies of type `C`.
    pub fn graph_with<C: Send + Sync + 'static>(&self) -> StateGraph<JsonState, C> {
        StateGraph::from_initial(self.initial())
    }

    /// An input from a JSON object; fields that are no input fields are left out.
    pub fn input(&self, value: Value) -> Result<Input<JsonState>, FieldError> {
        let mut update = JsonUpdate::from_value(self, value)?;
        update.writes.retain(|write| self.shared.fields[write.0].input);
        Ok(Input::update(update))
    }

    /// An update from a JSON object.
    pub fn update(&self, value: Value) -> Result<JsonUpdate, FieldError> {
        JsonUpdate::from_value(self, value)
    }

    /// Whether the schema has a field of that name.
    pub fn has(&self, field: &str) -> bool {
        self.shared.index.contains_key(field) || self.shared.computed.iter().any(|it| it.0 == field)
    }

    fn initial(&self) -> JsonState {
        let start = |kind: &JsonKind| kind.start().map(Arc::new);
        JsonState { schema: self.clone(), values: self.shared.kinds.iter().map(start).collect() }
    }

    fn restricted<N: AsRef<str>>(
        self,
        names: impl IntoIterator<Item = N>,
        set: fn(&mut Field, bool),
    ) -> Result<Self, FieldError> {
        let mut fields = self.shared.fields.clone();
        fields.iter_mut().for_each(|field| set(field, false));
        for name in names {
            match self.shared.index.get(name.as_ref()) {
                Some(index) => set(&mut fields[*index], true),
                None => return Err(FieldError::new(name.as_ref(), "the schema lacks this field")),
            }
        }
        let shared = Shared {
            fields,
            kinds: self.shared.kinds.clone(),
            index: self.shared.index.clone(),
            computed: self.shared.computed.clone(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// A state of JSON values. Cheap to clone: the values are shared until one of them changes.
#[derive(Clone)]
pub struct JsonState {
    schema: JsonSchema,
    values: Vec<Option<Arc<Value>>>,
}

impl JsonState {
    /// A field's value, or `None` where it has none.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.values[*self.schema.shared.index.get(field)?].as_deref()
    }

    /// The output fields that have a value, as an object.
    pub fn to_value(&self) -> Value {
        self.object(|field| field.output)
    }

    /// All fields that have a value, as an object.
    pub fn to_full_value(&self) -> Value {
        self.object(|_| true)
    }

    fn object(&self, show: impl Fn(&Field) -> bool) -> Value {
        let fields = self.schema.shared.fields.iter().zip(&self.values);
        let present = fields.filter(|(field, _)| show(field)).filter_map(|(field, value)| {
            Some((field.name.clone().into_owned(), Value::clone(value.as_deref()?)))
        });
        Value::Object(present.collect())
    }

    /// A field of an update, which may be made for another schema, by its index here.
    fn own_index(&self, update: &JsonUpdate, field: usize) -> Result<usize, FieldError> {
        match &update.schema {
            Some(schema) if !Arc::ptr_eq(&schema.shared, &self.schema.shared) => {
                let name = &schema.shared.fields[field].name;
                let own = self.schema().index.get(&**name).copied();
                own.ok_or_else(|| FieldError::new(&**name, "the state has no such field"))
            }
            _ => Ok(field),
        }
    }

    fn schema(&self) -> &Shared {
        &self.schema.shared
    }
}

impl fmt::Debug for JsonState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_full_value())
    }
}

/// An update of a JSON state.
#[derive(Clone, Debug, Default)]
pub struct JsonUpdate {
    /// Field, value, and whether it overwrites.
    writes: Vec<(usize, Value, bool)>,
    /// What a node returned beyond the state's fields: only its own branches see it.
    extra: Map<String, Value>,
    /// Whose fields the indexes are; `None` while there are none.
    schema: Option<JsonSchema>,
}

impl JsonUpdate {
    fn from_value(schema: &JsonSchema, value: Value) -> Result<Self, FieldError> {
        let Value::Object(object) = value else {
            let problem = format_args!("an update must be an object, not {}", kind::name(&value));
            return Err(FieldError::new("*", problem));
        };
        let mut update = Self { schema: Some(schema.clone()), ..Self::default() };
        for (name, value) in object {
            let value = guard::admit(&name, value)?;
            match schema.shared.index.get(&name) {
                Some(index) => update.writes.push((*index, value, false)),
                None => drop(update.extra.insert(name, value)),
            }
        }
        Ok(update)
    }

    /// Writes one field more, in place of an earlier write of it; `overwrite` puts the value in the field's place
    /// instead of reducing it.
    pub fn write(
        mut self,
        schema: &JsonSchema,
        field: &str,
        value: Value,
        overwrite: bool,
    ) -> Result<Self, FieldError> {
        let value = guard::admit(field, value)?;
        self.schema.get_or_insert_with(|| schema.clone());
        match schema.shared.index.get(field) {
            Some(index) => match self.writes.iter_mut().find(|it| it.0 == *index) {
                Some(write) => *write = (*index, value, overwrite),
                None => self.writes.push((*index, value, overwrite)),
            },
            None => drop(self.extra.insert(field.to_owned(), value)),
        }
        Ok(self)
    }
}

impl IntoOutcome<JsonState> for JsonUpdate {
    fn into_outcome(self) -> Result<Outcome, NodeError> {
        Ok(Outcome::update::<JsonState>(self))
    }
}

impl From<JsonUpdate> for Input<JsonState> {
    fn from(update: JsonUpdate) -> Self {
        Self::update(update)
    }
}

impl State for JsonState {
    type Update = JsonUpdate;

    fn fields(&self) -> &[Field] {
        &self.schema().fields
    }

    fn touched(&self, update: &JsonUpdate) -> Touched {
        let mut touched = Touched::default();
        for (field, _, overwrite) in &update.writes {
            // A field that this state lacks is an error once it is folded.
            let Ok(field) = self.own_index(update, *field) else { continue };
            touched.written.insert(field);
            if *overwrite {
                touched.overwritten.insert(field);
            }
        }
        touched
    }

    fn fold(&mut self, update: &mut JsonUpdate, fold: &mut Fold) -> Result<(), FieldError> {
        for (field, value, overwrite) in std::mem::take(&mut update.writes) {
            let field = self.own_index(update, field)?;
            if !fold.skips(field, overwrite) {
                let schema = self.schema.shared.clone();
                let name = &schema.fields[field].name;
                let current = &mut self.values[field];
                schema.kinds[field].fold(field, name, current, value, overwrite, fold)?;
            }
        }
        Ok(())
    }

    fn into_update(self) -> JsonUpdate {
        let inputs = self.schema.shared.fields.iter().zip(self.values).enumerate();
        let writes = inputs.filter(|(_, (field, _))| field.input);
        let writes = writes
            .filter_map(|(index, (_, value))| Some((index, Arc::unwrap_or_clone(value?), false)));
        let writes = writes.collect();
        JsonUpdate { writes, extra: Map::new(), schema: Some(self.schema) }
    }

    fn clear(&mut self, field: usize) {
        self.values[field] = None;
    }

    fn value(&self, field: usize) -> Result<Option<Value>, FieldError> {
        Ok(self.values[field].as_deref().cloned())
    }

    fn set_value(&mut self, field: usize, value: Value) -> Result<(), FieldError> {
        self.schema().kinds[field].check(&self.schema().fields[field].name, &value)?;
        self.values[field] = Some(Arc::new(value));
        Ok(())
    }

    fn writes(&self, update: &JsonUpdate) -> Result<Vec<FieldWrite>, FieldError> {
        let write = |(field, value, overwrite): &(usize, Value, bool)| {
            let field = self.own_index(update, *field)?;
            Ok(FieldWrite {
                field: self.schema().fields[field].name.clone().into_owned(),
                value: value.clone(),
                overwrite: *overwrite,
            })
        };
        update.writes.iter().map(write).collect()
    }

    fn update_from(&self, writes: Vec<FieldWrite>) -> Result<JsonUpdate, FieldError> {
        let mut update = JsonUpdate { schema: Some(self.schema.clone()), ..JsonUpdate::default() };
        for FieldWrite { field, value, overwrite } in writes {
            match self.schema().index.get(&field) {
                Some(index) => update.writes.push((*index, value, overwrite)),
                None => return Err(FieldError::new(field, "the schema lacks this field")),
            }
        }
        Ok(update)
    }
}
