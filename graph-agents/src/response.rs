//! Structured output: how an agent's response is obtained and checked.

mod parse;

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde_json::{Map, Value};

pub(crate) use parse::{parse_text, parse_value};

use crate::{AgentError, model::OutputSchema};

/// How an agent obtains a structured response.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ResponseFormat, ScriptedModel, ToolCall};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
/// struct Forecast {
///     city: String,
///     degrees: i32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Without native support, the model answers by calling a tool with the name of the type.
/// let call = ToolCall::new("Forecast", json!({"city": "Rome", "degrees": 21}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call)]);
/// let agent = Agent::new(model).response_format(ResponseFormat::of::<Forecast>()).compile()?;
/// let outcome = agent.run("How is the weather in Rome?").await?;
/// let forecast = Forecast { city: "Rome".into(), degrees: 21 };
/// assert_eq!(outcome.response::<Forecast>(), Some(forecast));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ResponseFormat {
    /// Alternative schemas. `Strategy::Provider` uses only the first one.
    pub schemas: Vec<ResponseSchema>,
    /// Whether the response is obtained through the provider or through a tool call.
    pub strategy: Strategy,
    /// Handling of data that does not match the schema. Applies only to `Strategy::Tool`.
    pub errors: OutputErrors,
    /// Text of the tool message that confirms a response. `None`: a text that contains the response. Applies only to
    /// `Strategy::Tool`.
    pub tool_message: Option<String>,
    /// Whether the provider must restrict the response to the schema: with `true`, a call fails if it cannot. Applies
    /// only to `Strategy::Provider`; see [`Request::strict_schema`](llm::Request::strict_schema).
    pub strict: Option<bool>,
}

/// How a structured response is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// `Provider` if the model supports it, otherwise `Tool`.
    #[default]
    Auto,
    /// The provider restricts the response to the schema.
    Provider,
    /// The model calls a tool whose arguments are the response.
    Tool,
}

/// A schema of a structured response.
#[derive(Clone)]
pub struct ResponseSchema {
    /// Name of the schema. A structured-output tool has the same name.
    pub name: String,
    /// Description of the schema for the model.
    pub description: String,
    /// The JSON Schema.
    pub schema: Value,
    /// Whether the model's data is validated against the schema and converted to its types.
    pub checked: bool,
    /// Formats a response for the message that confirms it.
    pub format: Arc<dyn Fn(&Value) -> String + Send + Sync>,
}

/// Handling of data that does not match the schema, and of several responses to one request.
#[derive(Clone)]
pub struct OutputErrors(Arc<dyn Fn(&AgentError) -> Option<String> + Send + Sync>);

impl OutputErrors {
    /// Sends the model the text that the function returns, so that it tries again. If the function returns `None`, the
    /// run fails.
    pub fn retry_with(
        answer: impl Fn(&AgentError) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(answer))
    }

    /// Fails the run.
    pub fn raise() -> Self {
        Self::retry_with(|_| None)
    }

    /// Returns the text that is sent to the model by default.
    pub fn default_text(error: &AgentError) -> String {
        format!("Error: {error}\n Please fix your mistakes.")
    }

    pub(crate) fn answer(&self, error: &AgentError) -> Option<String> {
        (self.0)(error)
    }
}

impl Default for OutputErrors {
    fn default() -> Self {
        Self::retry_with(|error| Some(Self::default_text(error)))
    }
}

impl fmt::Debug for OutputErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutputErrors")
    }
}

impl ResponseFormat {
    /// Creates a format for responses of type `T`.
    pub fn of<T: JsonSchema>() -> Self {
        Self::new([ResponseSchema::of::<T>()])
    }

    /// Creates a format with alternatives.
    pub fn new(schemas: impl IntoIterator<Item = ResponseSchema>) -> Self {
        Self {
            schemas: schemas.into_iter().collect(),
            strategy: Strategy::Auto,
            errors: OutputErrors::default(),
            tool_message: None,
            strict: None,
        }
    }

    /// Sets the strategy.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Returns the strategy to use. `native`: whether the model's provider can restrict responses to a schema.
    pub(crate) fn resolve(&self, native: bool) -> Strategy {
        match self.strategy {
            Strategy::Auto if native => Strategy::Provider,
            Strategy::Auto => Strategy::Tool,
            chosen => chosen,
        }
    }

    pub(crate) fn schema(&self, name: &str) -> Option<&ResponseSchema> {
        self.schemas.iter().find(|it| it.name == name)
    }

    pub(crate) fn output_schema(&self) -> Option<OutputSchema> {
        self.schemas.first().map(|it| OutputSchema {
            name: it.name.clone(),
            schema: it.schema.clone(),
            strict: self.strict,
        })
    }
}

impl ResponseSchema {
    /// Creates the schema of `T`.
    pub fn of<T: JsonSchema>() -> Self {
        let schema = schemars::schema_for!(T).to_value();
        let description = schema["description"].as_str().unwrap_or_default().to_owned();
        Self { description, ..Self::new(T::schema_name(), schema) }
    }

    /// Creates a schema from a JSON Schema.
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        let order = parse::field_order(&schema);
        let format = move |value: &Value| match value {
            Value::Object(object) => parse::format_fields(object, &order),
            other => crate::notation::python(other),
        };
        Self {
            name: name.into(),
            description: String::new(),
            schema,
            checked: true,
            format: Arc::new(format),
        }
    }

    /// Validates data and converts it to the schema's types.
    pub(crate) fn check(&self, data: &Map<String, Value>) -> Result<Value, AgentError> {
        parse_value(self.checked, &self.name, &self.schema, data)
    }
}

impl fmt::Debug for ResponseSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseSchema")
            .field("name", &self.name)
            .field("schema", &self.schema)
            .field("checked", &self.checked)
            .finish_non_exhaustive()
    }
}
