//! Generates the function that creates a tool.

use proc_macro2::TokenStream;
use quote::quote;

use super::parse::{Parameter, Source, ToolFn};

pub(super) fn expand(tool: &ToolFn) -> TokenStream {
    let ToolFn { visibility, function, name, description, docs, output, body, .. } = tool;
    let arguments = tool.parameters.iter().filter(|it| it.source == Source::Model);
    let fields = arguments.map(|Parameter { name, r#type, attributes, .. }| {
        quote! { #(#attributes)* #name: #r#type }
    });
    let inputs =
        tool.parameters.iter().map(|Parameter { name, r#type, .. }| quote! { #name: #r#type });
    let values = tool.parameters.iter().map(|Parameter { name, source, .. }| match source {
        Source::Model => quote! { arguments.#name },
        Source::Runtime => quote! { &runtime },
        Source::State => quote! { runtime.state() },
        Source::Call => quote! { runtime.call() },
        Source::Context => quote! { runtime.context() },
    });
    let reads_state =
        tool.parameters.iter().any(|it| matches!(it.source, Source::State | Source::Runtime));
    let return_direct = tool.return_direct.then(|| quote! { .return_direct() });
    quote! {
        #(#docs)*
        #visibility fn #function() -> ::graph_agents::Tool {
            #[derive(
                ::graph_agents::derive::serde::Deserialize,
                ::graph_agents::derive::schemars::JsonSchema,
            )]
            #[serde(crate = "::graph_agents::derive::serde")]
            #[schemars(crate = "::graph_agents::derive::schemars")]
            struct Arguments {
                #(#fields,)*
            }

            async fn call(#(#inputs),*) #output #body

            ::graph_agents::Tool::new(
                #name,
                #description,
                |arguments: Arguments, runtime: ::graph_agents::ToolRuntime| async move {
                    let _ = (&arguments, &runtime);
                    call(#(#values),*).await
                },
            )
            .reads_state(#reads_state)
            #return_direct
        }
    }
}
