//! The agent builder.

use std::sync::Arc;

use graph_core::{
    Checkpointer, IntoShared, JsonFieldKind, JsonState, JsonStateSchema, StateGraph, Stops,
    json_node, state::FieldError, store::Store,
};
use llm::ProviderTool;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::{
    compiled::CompiledAgent,
    handoff_node::run_handoff,
    hook_node::{Hook, run_hook},
    model_call::ModelCall,
    model_node::ModelNode,
    route::HANDOFF,
    shape::{Shape, handoffs},
};
use crate::{
    AgentError,
    dependencies::Dependencies,
    message::{Content, messages_field},
    middleware::{Middleware, model_wrapper},
    model::{ChatModel, RequestTool, SharedModel},
    response::{ResponseFormat, Strategy},
    state::{JUMP_TO, MALFORMED_CALLS, MESSAGES, STRUCTURED_RESPONSE, StateField},
    tool::{Tool, ToolErrors, ToolWrapper},
    tool_node::{ToolNode, unique},
};

/// Builder of an agent: a model that calls tools in a loop until it answers.
///
/// The agent compiles to an ordinary graph with a JSON state, so it can be drawn, streamed, checkpointed, and used as a
/// subgraph.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, Tool, ToolCall};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([
///     AiMessage::new("").tool_call(ToolCall::new("weather", json!({}), "call-1")),
///     AiMessage::new("It rains."),
/// ]);
/// let weather = Tool::dynamic("weather", "Returns the weather.", json!({}), |_, _| async { "rain" });
/// let agent = Agent::new(model).tools([weather]).prompt("Be brief.").compile()?;
/// let answer = agent.run("How is the weather?").await?;
/// assert_eq!(answer.text(), "It rains.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Agent {
    model: SharedModel,
    name: Option<String>,
    tools: Vec<Tool>,
    pub(super) provider_tools: Vec<ProviderTool>,
    prompt: Option<Content>,
    middleware: Vec<Arc<dyn Middleware>>,
    response: Option<ResponseFormat>,
    fields: Vec<StateField>,
    stop_before: Stops,
    stop_after: Stops,
    checkpointer: Option<Arc<dyn Checkpointer>>,
    store: Option<Arc<dyn Store>>,
    dependencies: Dependencies,
    pub(super) settings: Map<String, Value>,
    pub(super) malformed_call_retries: usize,
}

impl Agent {
    /// Creates an agent with a model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self::with_shared_model(Arc::new(model))
    }

    /// Creates an agent with a model that other agents may share.
    pub fn with_shared_model(model: SharedModel) -> Self {
        Self {
            model,
            name: None,
            tools: Vec::new(),
            provider_tools: Vec::new(),
            prompt: None,
            middleware: Vec::new(),
            response: None,
            fields: Vec::new(),
            stop_before: Stops::None,
            stop_after: Stops::None,
            checkpointer: None,
            store: None,
            dependencies: Dependencies::default(),
            settings: Map::new(),
            malformed_call_retries: Self::MALFORMED_CALL_RETRIES,
        }
    }

    /// Sets the name of the agent, which its messages also carry.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the name.
    pub fn agent_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets the system prompt. It precedes the messages of each model call and is not part of the state.
    pub fn prompt(mut self, prompt: impl Into<Content>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Adds middleware. The first one added is the outermost.
    pub fn middleware(self, middleware: impl Middleware + 'static) -> Self {
        self.shared_middleware(Arc::new(middleware))
    }

    /// Adds middleware that other agents may share. The first one added is the outermost.
    pub fn shared_middleware(mut self, middleware: Arc<dyn Middleware>) -> Self {
        self.middleware.push(middleware);
        self
    }

    /// Requests a structured response of type `T`.
    pub fn response<T: JsonSchema>(self) -> Self {
        self.response_format(ResponseFormat::of::<T>())
    }

    /// Requests a structured response.
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.response = Some(format);
        self
    }

    /// Adds a value that tools and middleware can use. It replaces a value of the same type. A tool declares a
    /// parameter of type [`Dep<T>`](crate::Dep); middleware finds the values in its requests.
    pub fn dependency<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.dependencies = self.dependencies.with(value);
        self
    }

    /// Adds the dependencies of another agent, except those of a type that this agent already has.
    pub(crate) fn inherit_dependencies(mut self, from: &Self) -> Self {
        self.dependencies = self.dependencies.or(&from.dependencies);
        self
    }

    /// Replaces the model with the model that `wrap` returns.
    pub(crate) fn map_model(mut self, wrap: impl FnOnce(SharedModel) -> SharedModel) -> Self {
        self.model = wrap(self.model);
        self
    }

    /// Adds a field to the state, replacing a field with the same name.
    pub fn state_field(mut self, field: StateField) -> Self {
        self.fields.push(field);
        self
    }

    /// Stops runs before these nodes.
    pub fn stop_before(mut self, stops: Stops) -> Self {
        self.stop_before = stops;
        self
    }

    /// Stops runs after these nodes.
    pub fn stop_after(mut self, stops: Stops) -> Self {
        self.stop_after = stops;
        self
    }

    /// Sets the checkpointer that stores the agent's threads: a value, an `Arc` of it, or an `Arc<dyn Checkpointer>`.
    pub fn checkpointer<M>(self, checkpointer: impl IntoShared<dyn Checkpointer, M>) -> Self {
        self.shared_checkpointer(checkpointer.into_shared())
    }

    /// Like [`checkpointer`](Self::checkpointer), with a parameter type that helps type inference.
    pub fn shared_checkpointer(mut self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.checkpointer = Some(checkpointer);
        self
    }

    /// Sets the long-term store: a value, an `Arc` of it, or an `Arc<dyn Store>`. Tools access it with
    /// [`ToolRuntime::store`](crate::ToolRuntime::store).
    pub fn store<M>(mut self, store: impl IntoShared<dyn Store, M>) -> Self {
        self.store = Some(store.into_shared());
        self
    }

    /// Compiles the agent.
    pub fn compile(self) -> Result<CompiledAgent, AgentError> {
        let (name, (graph, schema)) = (self.name.clone(), self.into_graph()?);
        let graph = graph.compile().map_err(|error| AgentError::value(error.to_string()))?;
        Ok(CompiledAgent::new(graph, schema, name))
    }

    /// Returns the agent's graph before it is compiled, to add a store or to set further options.
    pub fn into_graph(mut self) -> Result<(StateGraph<JsonState>, JsonStateSchema), AgentError> {
        self.check_middleware_names()?;
        self.wrap_models_of_middleware();
        let schema = self.schema().map_err(|error| AgentError::value(error.to_string()))?;
        let client_tools: Arc<[Tool]> = unique(self.all_tools()).into();
        client_tools.iter().try_for_each(|it| it.check_dependencies(&self.dependencies))?;
        let wrappers = self.tool_wrappers();
        let has_tools = !client_tools.is_empty() || !wrappers.is_empty();
        let shape = Shape::new(
            &self.middleware,
            &client_tools,
            has_tools,
            self.response.is_some(),
            self.response_tools(),
            self.malformed_call_retries,
        );
        let mut graph = schema.graph();
        if let Some(name) = &self.name {
            graph = graph.name(name.clone());
        }
        graph = self.add_model_node(graph, &schema, &client_tools);
        if has_tools {
            let node = ToolNode::build(client_tools, ToolErrors::default(), wrappers)
                .dependencies(self.dependencies.clone());
            let handoffs = handoffs(node.tools());
            if !handoffs.is_empty() {
                graph = add_handoff_node(graph, node.clone(), handoffs, &schema);
            }
            graph = add_tool_node(graph, node, &schema);
        }
        for middleware in &self.middleware {
            graph = add_hook_nodes(graph, middleware, &schema);
        }
        graph = shape.add_edges(graph).stop_before(self.stop_before).stop_after(self.stop_after);
        if let Some(checkpointer) = self.checkpointer {
            graph = graph.shared_checkpointer(checkpointer);
        }
        if let Some(store) = self.store {
            graph = graph.store(store);
        }
        Ok((graph, schema))
    }

    fn check_middleware_names(&self) -> Result<(), AgentError> {
        let names: Vec<_> = self.middleware.iter().map(|it| it.name()).collect();
        let is_twice = |(index, name): (usize, &String)| names[..index].contains(name);
        match names.iter().enumerate().any(is_twice) {
            true => Err(AgentError::named(
                "AssertionError",
                "Please remove duplicate middleware instances.",
            )),
            false => Ok(()),
        }
    }

    /// Lets middleware such as a budget wrap the models that other middleware calls itself.
    fn wrap_models_of_middleware(&mut self) {
        let Some(wrap) = model_wrapper(&self.middleware) else { return };
        for middleware in &mut self.middleware {
            if let Some(wrapped) = middleware.with_wrapped_models(&wrap) {
                *middleware = wrapped;
            }
        }
    }

    fn schema(&self) -> Result<JsonStateSchema, FieldError> {
        let mut fields = vec![
            StateField::new(MESSAGES, messages_field()),
            StateField::private(JUMP_TO, JsonFieldKind::Ephemeral),
            StateField::new(STRUCTURED_RESPONSE, JsonFieldKind::Last).visible(false, true),
        ];
        if self.retries_malformed_calls() {
            // Not stored, so each run starts at zero.
            fields.push(StateField::private(MALFORMED_CALLS, JsonFieldKind::Untracked));
        }
        let added = self.middleware.iter().flat_map(|it| it.state_fields());
        for field in added.chain(self.fields.iter().cloned()) {
            match fields.iter_mut().find(|it| it.name == field.name) {
                Some(earlier) => *earlier = field,
                None => fields.push(field),
            }
        }
        let names = |show: fn(&StateField) -> bool| -> Vec<String> {
            fields.iter().filter(|it| show(it)).map(|it| it.name.clone()).collect()
        };
        JsonStateSchema::new(fields.iter().map(|it| (it.name.clone(), it.kind.clone())))?
            .with_input(names(|it| it.input))?
            .with_output(names(|it| it.output))
    }

    /// Returns the tools that the agent executes: those of the middleware, then those added with `tools`.
    fn all_tools(&self) -> Vec<Tool> {
        let added = self.middleware.iter().flat_map(|it| it.tools());
        added.chain(self.tools.iter().cloned()).collect()
    }

    /// Returns the names of the structured-output tools, through whose arguments the model returns a structured
    /// response.
    fn response_tools(&self) -> Vec<String> {
        let native = self.model.profile().structured_output;
        match &self.response {
            Some(format) if format.resolve(native) == Strategy::Tool => {
                format.schemas.iter().map(|it| it.name.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether the model is called again after a message in which all tool calls are malformed.
    fn retries_malformed_calls(&self) -> bool {
        self.malformed_call_retries > 0
    }

    fn tool_wrappers(&self) -> Vec<ToolWrapper> {
        let wrapping = self.middleware.iter().filter(|it| it.hooks().wraps_tools);
        let wrapper = |middleware: &Arc<dyn Middleware>| {
            let middleware = middleware.clone();
            let wrapper: ToolWrapper = Arc::new(move |request, next| {
                let middleware = middleware.clone();
                Box::pin(async move { middleware.wrap_tool_call(request, next).await })
            });
            wrapper
        };
        wrapping.map(wrapper).collect()
    }

    fn add_model_node(
        &self,
        graph: StateGraph<JsonState>,
        schema: &JsonStateSchema,
        client_tools: &[Tool],
    ) -> StateGraph<JsonState> {
        let tools = client_tools.iter().cloned().map(RequestTool::Client);
        let provider_tools = self.provider_tools.iter().cloned().map(RequestTool::Provider);
        let has_tool_wrapper = self.middleware.iter().any(|it| it.hooks().wraps_tools);
        let call = ModelCall {
            name: self.name.clone(),
            registered: client_tools.iter().map(|it| it.name().to_owned()).collect(),
            checks_tools: !has_tool_wrapper,
            identifies_malformed_calls: self.retries_malformed_calls(),
        };
        let node = Arc::new(ModelNode {
            model: self.model.clone(),
            system: self.prompt.clone(),
            tools: tools.chain(provider_tools).collect(),
            response: self.response.clone(),
            handler: call.into_handler(&self.middleware),
            schema: schema.clone(),
            dependencies: self.dependencies.clone(),
            settings: self.settings.clone(),
            counts_malformed_calls: self.retries_malformed_calls(),
        });
        graph.node(json_node("model", move |input, context| {
            let node = node.clone();
            async move { node.run(&input, context).await }
        }))
    }
}

fn add_tool_node(
    graph: StateGraph<JsonState>,
    node: ToolNode,
    schema: &JsonStateSchema,
) -> StateGraph<JsonState> {
    let schema = schema.clone();
    graph.node(json_node("tools", move |input, context| {
        let (node, schema) = (node.clone(), schema.clone());
        async move { node.run(input, context, &schema).await }
    }))
}

fn add_handoff_node(
    graph: StateGraph<JsonState>,
    node: ToolNode,
    handoffs: Vec<String>,
    schema: &JsonStateSchema,
) -> StateGraph<JsonState> {
    let tools = node.tools().iter().filter(|it| it.is_handoff());
    let destinations: Option<Vec<_>> =
        tools.map(|it| it.destination().map(str::to_owned)).collect();
    let (schema, handoffs) = (schema.clone(), Arc::new(handoffs));
    let run = json_node(HANDOFF, move |input, context| {
        let (node, handoffs, schema) = (node.clone(), handoffs.clone(), schema.clone());
        async move { run_handoff(&node, &handoffs, &input, &context, &schema).await }
    });
    graph.node(match destinations {
        Some(destinations) => run.parent_destinations(destinations),
        None => run,
    })
}

fn add_hook_nodes(
    mut graph: StateGraph<JsonState>,
    middleware: &Arc<dyn Middleware>,
    schema: &JsonStateSchema,
) -> StateGraph<JsonState> {
    for hook in Hook::ALL {
        if hook.jumps(&middleware.hooks()).is_some() {
            let (middleware, schema) = (middleware.clone(), schema.clone());
            let name = hook.node_name(&middleware.name());
            graph = graph.node(json_node(name, move |input, context| {
                let (middleware, schema) = (middleware.clone(), schema.clone());
                async move { run_hook(&*middleware, hook, &input, &context, &schema).await }
            }));
        }
    }
    graph
}
