//! The JSON state, its schema and its updates.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    error::NodeError,
    graph::build::StateGraph,
    json::{
        field_kind::{JsonFieldKind, ReducedWrite},
        slot::{Decoded, JsonWrite, Slot},
    },
    node::output::{IntoNodeOutput, NodeOutput},
    run::input::Input,
    state::{
        State,
        erased::AnyState,
        field::{DEFAULT_REDUCER, Field, FieldError, FieldWrite, json_type},
        fold::{Fold, WriteSet},
        limits,
    },
};

/// The fields of a JSON state and their kinds. Cheap to clone. See [`json_node`](crate::json_node) for an example.
///
/// ```
/// use graph_core::{JsonFieldKind, JsonStateSchema};
/// use serde_json::json;
///
/// let schema = JsonStateSchema::new([("log", JsonFieldKind::Append), ("topic", JsonFieldKind::Last)])?;
/// assert!(schema.has("topic"));
/// assert!(schema.input(json!({ "topic": "tea" })).is_ok());
/// assert!(JsonStateSchema::new([("log", JsonFieldKind::Last), ("log", JsonFieldKind::Last)]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct JsonStateSchema {
    pub(super) inner: Arc<SchemaInner>,
}

#[derive(Clone, Debug)]
pub(super) struct SchemaInner {
    pub(super) fields: Vec<Field>,
    kinds: Vec<JsonFieldKind>,
    index: BTreeMap<String, usize>,
    /// Computed fields. They are not part of the state; only the inputs of nodes and branches contain them.
    pub(super) computed: Vec<(String, JsonFieldKind)>,
}

impl JsonStateSchema {
    /// Creates a schema. Fails if two fields have the same name.
    pub fn new<N: Into<String>>(
        fields: impl IntoIterator<Item = (N, JsonFieldKind)>,
    ) -> Result<Self, FieldError> {
        let mut inner = SchemaInner {
            fields: Vec::new(),
            kinds: Vec::new(),
            index: BTreeMap::new(),
            computed: Vec::new(),
        };
        for (name, kind) in fields {
            let name = name.into();
            if inner.index.contains_key(&name) || inner.computed.iter().any(|it| it.0 == name) {
                return Err(FieldError::new(name, "the schema contains this field twice"));
            }
            if kind.is_computed() {
                inner.computed.push((name, kind));
                continue;
            }
            inner.index.insert(name.clone(), inner.fields.len());
            inner.fields.push(Field {
                name: name.into(),
                reducer: DEFAULT_REDUCER,
                many_writers: kind.allows_many_writers(),
                lifetime: kind.lifetime(),
                input: true,
                output: true,
            });
            inner.kinds.push(kind);
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Restricts a run's input to these fields.
    pub fn with_input<N: AsRef<str>>(
        self,
        fields: impl IntoIterator<Item = N>,
    ) -> Result<Self, FieldError> {
        self.with_flag(fields, |field, listed| field.input = listed)
    }

    /// Restricts a run's output to these fields.
    pub fn with_output<N: AsRef<str>>(
        self,
        fields: impl IntoIterator<Item = N>,
    ) -> Result<Self, FieldError> {
        self.with_flag(fields, |field, listed| field.output = listed)
    }

    /// Creates an empty graph with this schema.
    pub fn graph(&self) -> StateGraph<JsonState> {
        StateGraph::with_initial_state(self.initial())
    }

    /// Creates an empty graph with this schema and dependencies of type `C`.
    pub fn graph_with<C: Send + Sync + 'static>(&self) -> StateGraph<JsonState, C> {
        StateGraph::with_initial_state(self.initial())
    }

    /// Converts a JSON object into a run's input. Fields that are not part of the input are ignored.
    pub fn input(&self, value: Value) -> Result<Input<JsonState>, FieldError> {
        let mut update = JsonUpdate::from_value(self, value)?;
        update.writes.retain(|write| self.inner.fields[write.field].input);
        Ok(Input::update(update))
    }

    /// Converts a JSON object into an update.
    pub fn update(&self, value: Value) -> Result<JsonUpdate, FieldError> {
        JsonUpdate::from_value(self, value)
    }

    /// Returns whether the schema contains the field, including computed fields.
    pub fn has(&self, field: &str) -> bool {
        self.inner.index.contains_key(field) || self.inner.computed.iter().any(|it| it.0 == field)
    }

    /// Returns the schema of a JSON state.
    pub(super) fn of(state: &AnyState) -> Self {
        let state = state.downcast_ref::<JsonState>();
        state.expect("the graph of a JSON node has a JSON state").schema.clone()
    }

    pub(super) fn initial(&self) -> JsonState {
        let initial =
            |kind: &JsonFieldKind| kind.initial_value().map(Slot::new).unwrap_or_default();
        JsonState { schema: self.clone(), values: self.inner.kinds.iter().map(initial).collect() }
    }

    /// Calls `set` with `true` for the named fields and with `false` for all others.
    fn with_flag<N: AsRef<str>>(
        self,
        names: impl IntoIterator<Item = N>,
        set: fn(&mut Field, bool),
    ) -> Result<Self, FieldError> {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        inner.fields.iter_mut().for_each(|field| set(field, false));
        for name in names {
            match inner.index.get(name.as_ref()) {
                Some(index) => set(&mut inner.fields[*index], true),
                None => {
                    let problem = "the schema does not contain this field";
                    return Err(FieldError::new(name.as_ref(), problem));
                }
            }
        }
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// A state of JSON values. Cheap to clone, because clones share each value until it is changed.
#[derive(Clone)]
pub struct JsonState {
    pub(super) schema: JsonStateSchema,
    values: Vec<Slot>,
}

impl JsonState {
    /// Returns the value of a field, or `None` if the field has no value or does not exist.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.slot(field)?.value.as_deref()
    }

    /// Returns the typed copy that the reducer of the field keeps.
    pub(super) fn decoded<T: Any + Send + Sync>(&self, field: &str) -> Option<Arc<T>> {
        self.slot(field)?.decoded.clone()?.downcast().ok()
    }

    fn slot(&self, field: &str) -> Option<&Slot> {
        self.values.get(*self.schema.inner.index.get(field)?)
    }

    /// Returns the output fields that have a value, as an object.
    pub fn to_value(&self) -> Value {
        self.object(|field| field.output)
    }

    /// Returns all fields that have a value, as an object.
    pub fn to_full_value(&self) -> Value {
        self.object(|_| true)
    }

    pub(super) fn object(&self, show: impl Fn(&Field) -> bool) -> Value {
        let fields = self.schema.inner.fields.iter().zip(&self.values);
        let present = fields.filter(|(field, _)| show(field)).filter_map(|(field, slot)| {
            Some((field.name.clone().into_owned(), Value::clone(slot.value.as_deref()?)))
        });
        Value::Object(present.collect())
    }

    /// Converts a field index in `update` into a field index of this state. The update may have been created with
    /// another schema.
    fn local_index(&self, update: &JsonUpdate, field: usize) -> Result<usize, FieldError> {
        match &update.schema {
            Some(schema) if !Arc::ptr_eq(&schema.inner, &self.schema.inner) => {
                let name = &schema.inner.fields[field].name;
                let own = self.schema().index.get(&**name).copied();
                own.ok_or_else(|| FieldError::new(&**name, "the state does not contain this field"))
            }
            _ => Ok(field),
        }
    }

    fn schema(&self) -> &SchemaInner {
        &self.schema.inner
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
    pub(super) writes: Vec<JsonWrite>,
    /// Values that the node returned under names that are not fields of the state. Only the node's branches see them.
    pub(super) extra: Map<String, Value>,
    /// The schema that the field indexes refer to. `None` if there are no writes yet.
    pub(super) schema: Option<JsonStateSchema>,
}

impl JsonUpdate {
    pub(super) fn from_value(schema: &JsonStateSchema, value: Value) -> Result<Self, FieldError> {
        let Value::Object(object) = value else {
            let problem = format!("an update must be an object, not {}", json_type(&value));
            return Err(FieldError::new("*", problem));
        };
        let mut update = Self { schema: Some(schema.clone()), ..Self::default() };
        for (name, value) in object {
            let value = limits::ensure_depth(&name, value)?;
            match schema.inner.index.get(&name) {
                Some(index) => update.writes.push(JsonWrite::new(*index, value, false)),
                None => drop(update.extra.insert(name, value)),
            }
        }
        Ok(update)
    }

    /// Adds a write to a field, replacing an earlier write of this update to the same field. If `overwrite` is true,
    /// the value replaces the field's value instead of being reduced into it.
    pub fn write(
        self,
        schema: &JsonStateSchema,
        field: &str,
        value: Value,
        overwrite: bool,
    ) -> Result<Self, FieldError> {
        self.add(schema, field, ReducedWrite { value, decoded: None }, overwrite)
    }

    /// Adds a write to a field with a custom reducer, which also gets a typed copy of the value: see
    /// [`ReducedWrite::decoded`](crate::json::ReducedWrite::decoded).
    pub fn write_decoded(
        self,
        schema: &JsonStateSchema,
        field: &str,
        value: Value,
        decoded: Decoded,
    ) -> Result<Self, FieldError> {
        self.add(schema, field, ReducedWrite { value, decoded: Some(decoded) }, false)
    }

    fn add(
        mut self,
        schema: &JsonStateSchema,
        field: &str,
        write: ReducedWrite,
        overwrite: bool,
    ) -> Result<Self, FieldError> {
        let ReducedWrite { value, decoded } = write;
        let value = limits::ensure_depth(field, value)?;
        self.schema.get_or_insert_with(|| schema.clone());
        match schema.inner.index.get(field) {
            Some(&field) => {
                let write = JsonWrite { field, value, overwrite, decoded };
                match self.writes.iter_mut().find(|it| it.field == field) {
                    Some(earlier) => *earlier = write,
                    None => self.writes.push(write),
                }
            }
            None => drop(self.extra.insert(field.to_owned(), value)),
        }
        Ok(self)
    }
}

impl IntoNodeOutput<JsonState> for JsonUpdate {
    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        Ok(NodeOutput::update::<JsonState>(self))
    }
}

impl From<JsonUpdate> for Input<JsonState> {
    fn from(update: JsonUpdate) -> Self {
        Self::update(update)
    }
}

impl State for JsonState {
    type Update = JsonUpdate;
    const HAS_FIXED_FIELDS: bool = false;

    fn fields(&self) -> &[Field] {
        &self.schema().fields
    }

    fn write_set(&self, update: &JsonUpdate) -> WriteSet {
        let mut write_set = WriteSet::default();
        for write in &update.writes {
            // `fold` reports an error for a field that this state does not contain.
            let Ok(field) = self.local_index(update, write.field) else { continue };
            write_set.written.insert(field);
            if write.overwrite {
                write_set.overwritten.insert(field);
            }
        }
        write_set
    }

    fn fold(&mut self, update: &mut JsonUpdate, fold: &mut Fold) -> Result<(), FieldError> {
        for write in std::mem::take(&mut update.writes) {
            let field = self.local_index(update, write.field)?;
            if !fold.ignores(field, write.overwrite) {
                let schema = self.schema.inner.clone();
                let name = &schema.fields[field].name;
                let current = &mut self.values[field];
                schema.kinds[field].fold(field, name, current, write, fold)?;
            }
        }
        Ok(())
    }

    fn into_update(self) -> JsonUpdate {
        let inputs = self.schema.inner.fields.iter().zip(self.values).enumerate();
        let writes = inputs.filter(|(_, (field, _))| field.input);
        let writes = writes.filter_map(|(index, (_, it))| {
            Some(JsonWrite::new(index, Arc::unwrap_or_clone(it.value?), false))
        });
        let writes = writes.collect();
        JsonUpdate { writes, extra: Map::new(), schema: Some(self.schema) }
    }

    fn clear(&mut self, field: usize) {
        self.values[field] = Slot::default();
    }

    fn value(&self, field: usize) -> Result<Option<Value>, FieldError> {
        Ok(self.values[field].value.as_deref().cloned())
    }

    fn set_value(&mut self, field: usize, value: Value) -> Result<(), FieldError> {
        self.schema().kinds[field].check(&self.schema().fields[field].name, &value)?;
        self.values[field] = Slot::new(value);
        Ok(())
    }

    fn copy_field(&mut self, field: usize, from: &Self) {
        self.values[field].clone_from(&from.values[field]);
    }

    fn writes(&self, update: &JsonUpdate) -> Result<Vec<FieldWrite>, FieldError> {
        let write = |write: &JsonWrite| {
            let field = self.local_index(update, write.field)?;
            Ok(write.to_field_write(&self.schema().fields[field]))
        };
        update.writes.iter().map(write).collect()
    }

    fn update_to_writes(update: &JsonUpdate) -> Result<Vec<FieldWrite>, FieldError> {
        let Some(schema) = &update.schema else { return Ok(Vec::new()) };
        let fields = &schema.inner.fields;
        Ok(update.writes.iter().map(|it| it.to_field_write(&fields[it.field])).collect())
    }

    fn update_from(&self, writes: Vec<FieldWrite>) -> Result<JsonUpdate, FieldError> {
        let mut update = JsonUpdate { schema: Some(self.schema.clone()), ..JsonUpdate::default() };
        for FieldWrite { field, value, overwrite } in writes {
            match self.schema().index.get(&field) {
                Some(index) => update.writes.push(JsonWrite::new(*index, value, overwrite)),
                None => {
                    return Err(FieldError::new(field, "the schema does not contain this field"));
                }
            }
        }
        Ok(update)
    }
}
