//! Scripted tools.

use std::sync::Arc;

use graph_agents::{ExceptionAnswer, ProviderTool, Tool, ToolOutput};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{case::ToolSpec, program::Env, shared_data::SharedData};

/// Converts a type in the notation of the case files to a JSON Schema.
fn type_schema(kind: &Value) -> Value {
    let Some(name) = kind.as_str() else {
        let mut schema = type_schema(&kind["type"]);
        if let Some(default) = kind.get("default") {
            schema["default"] = default.clone();
        }
        return schema;
    };
    match name {
        "str" => json!({"type": "string"}),
        "int" => json!({"type": "integer"}),
        "float" => json!({"type": "number"}),
        "bool" => json!({"type": "boolean"}),
        "list" => json!({"type": "array"}),
        "dict" => json!({"type": "object"}),
        "list[str]" => json!({"type": "array", "items": {"type": "string"}}),
        "list[int]" => json!({"type": "array", "items": {"type": "integer"}}),
        _ => json!({}),
    }
}

/// Returns the JSON Schema of an object with these fields.
pub(super) fn object_schema(fields: &IndexMap<String, Value>) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, kind)| (name.clone(), type_schema(kind))).collect();
    let required = fields.iter().filter(|(_, kind)| kind.get("default").is_none());
    let required: Vec<_> = required.map(|it| it.0).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// Creates a tool that the model's provider executes. Returns `None` if the description is for another kind of tool.
pub(super) fn provider_tool(spec: &ToolSpec) -> Option<ProviderTool> {
    let kind = spec.provider.as_ref()?;
    let definition = json!({"type": kind, "name": spec.name});
    Some(ProviderTool::Custom(definition))
}

/// Creates a scripted tool.
pub(super) fn tool(spec: &ToolSpec, shared: &Arc<SharedData>) -> Tool {
    let description = spec.description.clone().unwrap_or_else(|| format!("The tool {}", spec.name));
    let (program, shared, name) = (spec.clone(), shared.clone(), spec.name.clone());
    let mut tool =
        Tool::dynamic(&spec.name, description, object_schema(&spec.args), move |args, runtime| {
            let (program, shared, name) = (program.clone(), shared.clone(), name.clone());
            async move {
                let mut shown = args.clone();
                shown.retain(|arg, _| !program.inject.contains_key(arg));
                shared.log().tool_runs.push(json!({"tool": name, "args": shown}));
                let mut env = Env::new(&shared, &name);
                env.args = args;
                env.state = Some(runtime.state());
                env.call_id = runtime.call().id().to_owned();
                env.context = Some(runtime.context());
                let returned = env.run(&program.r#do).await?.returned;
                Ok::<_, graph_core::NodeError>(with_artifact(
                    returned,
                    program.response_format.as_deref(),
                ))
            }
        });
    for (arg, from) in &spec.inject {
        let (from, is_optional) = match from {
            Value::Object(it) => (&it["from"], true),
            from => (from, false),
        };
        let field = from.as_str().and_then(|it| it.strip_prefix("state.")).unwrap_or_default();
        tool = if is_optional {
            tool.inject_or(arg, field, Value::Null)
        } else {
            tool.inject(arg, field)
        };
    }
    if spec.return_direct {
        tool = tool.return_direct();
    }
    match &spec.handle_error {
        Some(Value::String(text)) => tool.handle_exceptions(ExceptionAnswer::Text(text.clone())),
        Some(Value::Bool(true)) => tool.handle_exceptions(ExceptionAnswer::Message),
        _ => tool,
    }
}

fn with_artifact(returned: Option<ToolOutput>, format: Option<&str>) -> ToolOutput {
    match (returned, format) {
        (Some(ToolOutput::Value(Value::Array(pair))), Some("content_and_artifact")) => {
            let part = |index: usize| pair.get(index).cloned().unwrap_or_default();
            ToolOutput::WithArtifact { content: part(0), artifact: part(1) }
        }
        (Some(output), _) => output,
        (None, _) => ToolOutput::Value(Value::Null),
    }
}
