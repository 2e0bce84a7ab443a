//! Compiles an agent to a graph.

use std::sync::Arc;

use graph_core::{
    JsonFieldKind, JsonState, JsonStateSchema, StateGraph, json_node, state::FieldError,
};

use super::{
    builder::Agent,
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
    message::messages_field,
    middleware::{Middleware, model_wrapper},
    model::RequestTool,
    response::Strategy,
    state::{JUMP_TO, MALFORMED_CALLS, MESSAGES, STRUCTURED_RESPONSE, StateField},
    tool::{Tool, ToolErrors, ToolWrapper},
    tool_node::{ToolNode, unique},
};

impl Agent {
    /// Compiles the agent.
    pub fn compile(self) -> Result<CompiledAgent, AgentError> {
        let (name, (graph, schema)) = (self.name.clone(), self.into_graph()?);
        let graph = graph.compile().map_err(|error| AgentError::value(error.to_string()))?;
        Ok(CompiledAgent::new(graph, schema, name))
    }

    /// Returns the graph of the agent before it is compiled, to set further options.
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

    /// Lets middleware, such as a budget, wrap the models that other middleware calls directly.
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
            // The count is not stored, so it starts at zero in each run.
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
