//! Generates the function that creates a tool.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Meta, ReturnType, spanned::Spanned as _};

use super::parse::{Options, Parameter, Source, ToolFn};
use crate::syntax::span_of;

pub(super) fn expand(tool: &ToolFn) -> TokenStream {
    let ToolFn { visibility, function, name, description, docs, output, body, .. } = tool;
    let is_argument = |it: &&Parameter| matches!(it.source, Source::Model);
    let fields = tool.parameters.iter().filter(is_argument).map(argument);
    let inputs =
        tool.parameters.iter().map(|Parameter { name, r#type, .. }| quote! { #name: #r#type });
    let values = tool.parameters.iter().map(|Parameter { name, source, .. }| match source {
        Source::Model => quote! { arguments.#name },
        Source::Runtime => quote! { &runtime },
        Source::State => quote! { runtime.state() },
        Source::Call => quote! { runtime.call() },
        Source::Context => quote! { runtime.context() },
        Source::Store => quote! { ::graph_agents::derive::store(&runtime)? },
        Source::Dependency(inner) => quote! { runtime.dependency::<#inner>()? },
    });
    let dependencies = tool.parameters.iter().filter_map(|it| match &it.source {
        Source::Dependency(inner) => Some(inner),
        _ => None,
    });
    let result = match output {
        ReturnType::Type(_, r#type) => r#type.to_token_stream(),
        ReturnType::Default => quote! { () },
    };
    // Errors about the future, for example that it is not `Send`, point to the function's name.
    let create = quote_spanned! { span_of(function)=>
        create::<#result, _, _, _>(|arguments, runtime| async move {
            let _ = (&arguments, &runtime);
            ::std::result::Result::Ok(call(#(#values),*).await)
        })
    };
    let reads_state =
        tool.parameters.iter().any(|it| matches!(it.source, Source::State | Source::Runtime));
    let options = options(&tool.options);
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

            // This function is generic over the return type, so the compiler checks the return type only at the call.
            fn create<Output, Kind, Handler, Answer>(
                handler: Handler,
            ) -> ::graph_agents::Tool
            where
                Output: ::graph_agents::derive::IntoToolOutput<Kind>,
                Handler: ::std::ops::Fn(Arguments, ::graph_agents::ToolRuntime) -> Answer
                    + ::std::marker::Send
                    + ::std::marker::Sync
                    + 'static,
                Answer: ::std::future::Future<
                        Output = ::std::result::Result<Output, ::graph_agents::derive::NodeError>,
                    > + ::std::marker::Send
                    + 'static,
            {
                ::graph_agents::Tool::new(#name, #description, handler)
            }

            #create
                .reads_state(#reads_state)
                #(.requires::<#dependencies>())*
                #options
        }
    }
}

/// Generates the field of the arguments' struct for a parameter.
///
/// A constant checks the parameter's type, so that an invalid type does not cause another error in each derived
/// implementation.
fn argument(Parameter { name, r#type, attributes, .. }: &Parameter) -> TokenStream {
    if attributes.iter().any(replaces_conversion) {
        return quote! { #(#attributes)* #name: #r#type };
    }
    let checked = quote_spanned! { r#type.span()=>
        <::graph_agents::derive::Checked<
            { ::graph_agents::derive::argument::<#r#type>() }
        > as ::graph_agents::derive::Then<#r#type>>::Type
    };
    quote! { #(#attributes)* #name: #checked }
}

/// Returns whether an attribute, such as `#[serde(with = "module")]`, allows a type that serde does not support.
fn replaces_conversion(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("cfg_attr") {
        // A `cfg_attr` may contain an attribute that replaces the conversion.
        return true;
    }
    let Meta::List(list) = &attribute.meta else { return false };
    let options = list.tokens.clone().into_iter();
    options
        .filter_map(|it| match it {
            TokenTree::Ident(option) => Some(option.to_string()),
            _ => None,
        })
        .any(|it| it.ends_with("with") || it.starts_with("skip"))
}

/// Generates the calls that set the options of the attribute.
fn options(options: &Options) -> TokenStream {
    let return_direct = options.return_direct.then(|| quote! { .return_direct() });
    let untrusted = options.untrusted.then(|| quote! { .untrusted() });
    let strict = options.strict.then(|| quote! { .strict() });
    let errors =
        options.answer_errors.then(|| quote! { .errors(::graph_agents::ToolErrors::answer_all()) });
    let retries = options.retries.iter();
    let timeout = options.timeout_secs.iter();
    let cache = options.cache_secs.iter();
    let max_output = options.max_output.iter();
    quote! {
        #return_direct
        #untrusted
        #strict
        #errors
        #(.retry(::graph_agents::middleware::RetryOptions {
            max_retries: #retries,
            ..::std::default::Default::default()
        }))*
        #(.timeout(::std::time::Duration::from_secs(#timeout)))*
        #(.cache(::graph_agents::ToolCache::new().ttl(::std::time::Duration::from_secs(#cache))))*
        #(.max_output(#max_output))*
    }
}
