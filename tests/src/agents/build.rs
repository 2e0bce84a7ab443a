//! Builds agents from their descriptions in the case files.

use std::sync::Arc;

use graph_agents::{
    Agent, AgentError, AgentState, CompiledAgent, ResponseFormat, ToolErrors, ToolNode,
    message::messages_field,
    multi::{OutputMode, Supervisor, Swarm, forward_tool, handoff_tool},
    notation,
    response::{OutputErrors, ResponseSchema, Strategy},
    tool::ToolWrapper,
};
use graph_core::{
    CompiledGraph, JsonState, JsonStateSchema, MemorySaver, START, Stops, json::JsonReturn,
    json_node,
};
use serde_json::Value;

use super::{
    case::{AgentCase, AgentSpec, Kind, ResponseSpec, SchemaSpec, ToolSpec},
    custom::wrap_tool_call,
    error::{classes, has_class, is_a},
    middleware::middleware,
    program::Env,
    shared_data::SharedData,
    spec::{field_kind, state_fields},
    tool::{object_schema, provider_tool, tool},
};

/// A compiled graph of a case, with its schema.
pub(super) struct Built {
    pub(super) graph: CompiledGraph<JsonState>,
    pub(super) schema: JsonStateSchema,
}

impl From<CompiledAgent> for Built {
    fn from(agent: CompiledAgent) -> Self {
        Self { graph: agent.graph().clone(), schema: agent.schema().clone() }
    }
}

/// Builds the graph of a case.
pub(super) fn build(case: &AgentCase, shared: &Arc<SharedData>) -> Result<Built, AgentError> {
    let saver = Arc::new(MemorySaver::new());
    let has_saver = case.checkpointer != Some(false);
    match case.kind {
        Kind::ToolNode => Ok(tool_node(case, shared)),
        Kind::Agent => {
            let mut agent = agent(&case.agent, "main", shared)?;
            if has_saver {
                agent = agent.shared_checkpointer(saver);
            }
            Ok(agent.compile()?.into())
        }
        Kind::Swarm => {
            let agents = case.agents.iter().map(|it| sub_agent(it, shared));
            let agents = agents.collect::<Result<Vec<_>, _>>()?;
            let swarm = Swarm::new(agents, case.default.clone().unwrap_or_default());
            Ok(swarm.shared_checkpointer(saver).compile()?.into())
        }
        Kind::Supervisor => {
            Ok(supervisor(case, shared)?.shared_checkpointer(saver).compile()?.into())
        }
        Kind::Reduce | Kind::ToolsCondition => unreachable!("this kind has no graph"),
    }
}

fn sub_agent(spec: &AgentSpec, shared: &Arc<SharedData>) -> Result<CompiledAgent, AgentError> {
    let model =
        spec.model.clone().or_else(|| spec.name.clone()).unwrap_or_else(|| "main".to_owned());
    agent(spec, &model, shared)?.compile()
}

fn supervisor(case: &AgentCase, shared: &Arc<SharedData>) -> Result<Supervisor, AgentError> {
    let spec = &case.supervisor;
    let agents = case.agents.iter().map(|it| sub_agent(it, shared));
    let agents = agents.collect::<Result<Vec<_>, _>>()?;
    let mut supervisor =
        Supervisor::new(shared.model("supervisor"), agents).malformed_call_retries(0);
    supervisor = supervisor.tools(spec.tools.iter().map(|it| any_tool(it, shared)));
    if spec.output_mode.as_deref() == Some("full_history") {
        supervisor = supervisor.output_mode(OutputMode::FullHistory);
    }
    if let Some(add) = spec.add_handoff_messages {
        supervisor = supervisor.handoff_messages(add);
    }
    if let Some(add) = spec.add_handoff_back_messages {
        supervisor = supervisor.handoff_back_messages(add);
    }
    if let Some(prefix) = &spec.handoff_tool_prefix {
        supervisor = supervisor.handoff_tool_prefix(prefix);
    }
    if let Some(prompt) = &spec.prompt {
        supervisor = supervisor.prompt(prompt);
    }
    if let Some(name) = &spec.supervisor_name {
        supervisor = supervisor.name(name);
    }
    if spec.include_agent_name.as_deref() == Some("inline") {
        supervisor = supervisor.inline_agent_names();
    }
    Ok(supervisor)
}

fn any_tool(spec: &ToolSpec, shared: &Arc<SharedData>) -> graph_agents::Tool {
    match (&spec.handoff, &spec.forward) {
        // The recorded behaviour ends the agent at once and loses the results of other calls in the same message.
        (Some(agent), _) => handoff_tool(agent).hands_off(!shared.has_parallel_handoffs()),
        (_, Some(supervisor)) => forward_tool(supervisor),
        _ => tool(spec, shared),
    }
}

fn agent(spec: &AgentSpec, model: &str, shared: &Arc<SharedData>) -> Result<Agent, AgentError> {
    let model = spec.model.as_deref().unwrap_or(model);
    // In the recorded framework, a message with only malformed calls ends the run.
    let mut agent = Agent::with_shared_model(shared.model(model)).malformed_call_retries(0);
    for spec in &spec.tools {
        agent = match provider_tool(spec) {
            Some(tool) => agent.provider_tool(tool),
            None => agent.tools([any_tool(spec, shared)]),
        };
    }
    if let Some(prompt) = &spec.system_prompt {
        agent = agent.prompt(prompt.clone());
    }
    for spec in &spec.middleware {
        agent = agent.shared_middleware(middleware(spec, shared)?);
    }
    if let Some(format) = &spec.response_format {
        agent = agent.response_format(response_format(format));
    }
    for field in state_fields(&spec.state) {
        agent = agent.state_field(field);
    }
    if let Some(name) = &spec.name {
        agent = agent.name(name);
    }
    let stops = |names: &[String]| match names {
        [] => Stops::None,
        names => Stops::at(names.iter().cloned()),
    };
    Ok(agent.stop_before(stops(&spec.interrupt_before)).stop_after(stops(&spec.interrupt_after)))
}

fn response_format(spec: &ResponseSpec) -> ResponseFormat {
    let mut format = ResponseFormat::new(spec.schemas.iter().map(response_schema));
    format.strategy = match spec.strategy.as_deref() {
        Some("tool") => Strategy::Tool,
        Some("provider") => Strategy::Provider,
        _ => Strategy::Auto,
    };
    format.tool_message.clone_from(&spec.tool_message_content);
    format.strict = spec.strict;
    if let Some(errors) = &spec.handle_errors {
        format.errors = output_errors(errors);
    }
    format
}

fn output_errors(spec: &Value) -> OutputErrors {
    let spec = spec.clone();
    OutputErrors::retry_with(move |error| match &spec {
        Value::Bool(handles) => handles.then(|| OutputErrors::default_text(error)),
        Value::String(text) => Some(text.clone()),
        Value::Array(_) => {
            let classes = classes(&spec).unwrap_or_default();
            let covered = classes.iter().any(|it| is_a(error.name(), it));
            covered.then(|| OutputErrors::default_text(error))
        }
        function if function.get("prefix").is_some() => {
            Some(format!("{}{}", function["prefix"].as_str().unwrap_or_default(), error.name()))
        }
        class => {
            let class = class["class"].as_str().unwrap_or_default();
            is_a(error.name(), class).then(|| OutputErrors::default_text(error))
        }
    })
}

fn response_schema(spec: &SchemaSpec) -> ResponseSchema {
    let mut schema = ResponseSchema::new(&spec.name, object_schema(&spec.fields));
    let kind = spec.r#as.as_deref().unwrap_or("pydantic");
    schema.checked = kind != "json_schema";
    let order: Vec<String> = spec.fields.keys().cloned().collect();
    let name = spec.name.clone();
    match kind {
        "dataclass" => {
            schema.format =
                Arc::new(move |value| format!("{name}({})", fields(value, &order, "=", ", ")));
        }
        "pydantic" => schema.format = Arc::new(move |value| fields(value, &order, "=", " ")),
        "typeddict" => {
            schema.format = Arc::new(move |value| {
                let quoted: Vec<_> = order
                    .iter()
                    .filter_map(|it| Some(format!("'{it}': {}", notation::python(value.get(it)?))))
                    .collect();
                format!("{{{}}}", quoted.join(", "))
            });
        }
        _ => schema.format = Arc::new(notation::python),
    }
    schema
}

fn fields(value: &Value, order: &[String], equals: &str, separator: &str) -> String {
    let shown = order
        .iter()
        .filter_map(|it| Some(format!("{it}{equals}{}", notation::python(value.get(it)?))));
    shown.collect::<Vec<_>>().join(separator)
}

fn tool_errors(spec: &Value) -> ToolErrors {
    match spec {
        Value::Bool(true) => ToolErrors::answer_all(),
        Value::Bool(false) => ToolErrors::raise(),
        Value::String(text) => ToolErrors::answer_text(text),
        Value::Array(_) => {
            let classes = classes(spec).unwrap_or_default();
            ToolErrors::answer_if(move |error| has_class(error, &classes))
        }
        spec => match spec["class"].as_str() {
            Some(class) => {
                let classes = vec![class.to_owned()];
                ToolErrors::answer_if(move |error| has_class(error, &classes))
            }
            None => {
                let prefix = spec["prefix"].as_str().unwrap_or_default().to_owned();
                let class = spec["on"].as_str().unwrap_or("Exception").to_owned();
                ToolErrors::answer_with(move |error| {
                    has_class(error, std::slice::from_ref(&class))
                        .then(|| format!("{prefix}{error}"))
                })
            }
        },
    }
}

/// Builds a graph with a tool node: START → `tools`, and nodes that only a goto reaches.
fn tool_node(case: &AgentCase, shared: &Arc<SharedData>) -> Built {
    let mut node = ToolNode::new(case.tools.iter().map(|it| tool(it, shared)));
    if let Some(errors) = &case.handle_errors {
        node = node.errors(tool_errors(errors));
    }
    if let Some(program) = case.wrap.clone() {
        let shared = shared.clone();
        let wrapper: ToolWrapper = Arc::new(move |request, next| {
            let (shared, program) = (shared.clone(), program.clone());
            Box::pin(async move { wrap_tool_call("W", &program, &shared, request, next).await })
        });
        node = node.wrap(wrapper);
    }
    let fields = case.state.iter().map(|(name, kind)| {
        (
            name.clone(),
            field_kind(kind.as_str().or_else(|| kind["kind"].as_str()).unwrap_or_default()),
        )
    });
    let fields = [("messages".to_owned(), messages_field())].into_iter().chain(fields);
    let schema = JsonStateSchema::new(fields).expect("the fields have different names");
    let mut graph = schema.graph();
    let (input_as, tool_schema) = (case.input_as.clone(), schema.clone());
    graph = graph
        .node(json_node("tools", move |input, context| {
            let (node, schema, input_as) = (node.clone(), tool_schema.clone(), input_as.clone());
            async move {
                let state = AgentState::from_input(&input)?;
                let results = match input_as.as_deref() {
                    Some("list") => node.run_messages(state.messages().to_vec(), &context).await?,
                    Some("calls") => {
                        let last = state.messages().last().and_then(|it| it.as_ai());
                        let calls = last.map(|it| it.tool_calls.clone()).unwrap_or_default();
                        let state = AgentState::from_messages(Vec::new());
                        node.run_tool_calls(&calls, &state, &context).await?
                    }
                    _ => return node.run(input, context, &schema).await,
                };
                results.into_return(&schema)
            }
        }))
        .edge(START, "tools");
    for (name, program) in &case.nodes {
        let program = program.as_array().cloned().unwrap_or_default();
        let (shared, node_name) = (shared.clone(), name.clone());
        graph = graph.node(json_node(name, move |input, context| {
            let (shared, program, name) = (shared.clone(), program.clone(), node_name.clone());
            async move {
                let state = AgentState::from_input(&input)?;
                let mut env = Env::new(&shared, &name);
                env.state = Some(&state);
                env.context = Some(&context);
                let update = env.run(&program).await?.update.unwrap_or_default();
                Ok(JsonReturn::from(update.to_json()))
            }
        }));
    }
    if case.checkpointer != Some(false) {
        graph = graph.checkpointer(MemorySaver::new());
    }
    Built { graph: graph.compile().expect("the graph is valid"), schema }
}
