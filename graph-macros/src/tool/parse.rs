//! Parses and checks the function of a tool.

use proc_macro2::TokenStream;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Ident, ItemFn, Lit, LitInt, LitStr,
    Meta, MetaNameValue, Pat, Path, PathArguments, ReturnType, Token, Type, TypeParamBound,
    Visibility, parse::Parser, punctuated::Punctuated, spanned::Spanned,
};

/// The function of a tool.
pub(super) struct ToolFn {
    pub(super) visibility: Visibility,
    pub(super) function: Ident,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) docs: Vec<Attribute>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) output: ReturnType,
    pub(super) body: syn::Block,
    pub(super) options: Options,
}

/// A parameter of the function.
pub(super) struct Parameter {
    pub(super) name: Ident,
    pub(super) r#type: Type,
    /// Doc comments and serde attributes.
    pub(super) attributes: Vec<Attribute>,
    pub(super) source: Source,
}

/// The source of a parameter's value.
pub(super) enum Source {
    /// An argument that the model passes.
    Model,
    /// The whole `ToolRuntime`.
    Runtime,
    /// The agent's state.
    State,
    /// The tool call.
    Call,
    /// The context of the task.
    Context,
    /// The long-term store.
    Store,
    /// The agent's dependency of this type.
    Dependency(Box<Type>),
}

/// The options of the attribute.
#[derive(Default)]
pub(super) struct Options {
    name: Option<LitStr>,
    pub(super) return_direct: bool,
    pub(super) answer_errors: bool,
    pub(super) untrusted: bool,
    pub(super) strict: bool,
    pub(super) retries: Option<LitInt>,
    pub(super) timeout_secs: Option<LitInt>,
    pub(super) cache_secs: Option<LitInt>,
    pub(super) max_output: Option<LitInt>,
}

const OPTIONS: &str = "the options are `name = \"..\"`, `return_direct`, `retries = 2`, `timeout_secs = 30`, \
                       `cache_secs = 600`, `max_output = 10_000`, `answer_errors`, `untrusted` and `strict`";

pub(super) fn parse(options: TokenStream, item: TokenStream) -> syn::Result<ToolFn> {
    let options = parse_options(options)?;
    let function: ItemFn = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), "`#[tool]` must be placed on an async function")
    })?;
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return Err(Error::new(
            signature.fn_token.span(),
            "a tool must be async: write `async fn`",
        ));
    }
    if !signature.generics.params.is_empty() {
        let problem =
            "a tool cannot be generic, because the model needs one schema; use concrete types";
        return Err(Error::new(signature.generics.span(), problem));
    }
    let docs: Vec<_> =
        function.attrs.iter().filter(|it| it.path().is_ident("doc")).cloned().collect();
    let description = text_of(&docs);
    if description.is_empty() {
        let problem = "a tool needs a description for the model; add a doc comment: `/// Returns the weather of a city.`";
        return Err(Error::new(signature.ident.span(), problem));
    }
    if let Some(other) = function.attrs.iter().find(|it| !it.path().is_ident("doc")) {
        let problem = "`#[tool]` does not support other attributes on the same function; move this one to a function that the tool calls";
        return Err(Error::new(other.span(), problem));
    }
    let parameters = signature.inputs.iter().map(parameter).collect::<syn::Result<_>>()?;
    Ok(ToolFn {
        visibility: function.vis.clone(),
        name: options.name.as_ref().map_or_else(|| signature.ident.to_string(), LitStr::value),
        function: signature.ident.clone(),
        description,
        docs,
        parameters,
        output: signature.output.clone(),
        body: *function.block,
        options,
    })
}

fn parse_options(options: TokenStream) -> syn::Result<Options> {
    let mut parsed = Options::default();
    for meta in Punctuated::<Meta, Token![,]>::parse_terminated.parse2(options)? {
        let option = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
        match (option.as_str(), &meta) {
            ("return_direct", Meta::Path(_)) => parsed.return_direct = true,
            ("answer_errors", Meta::Path(_)) => parsed.answer_errors = true,
            ("untrusted", Meta::Path(_)) => parsed.untrusted = true,
            ("strict", Meta::Path(_)) => parsed.strict = true,
            ("name", Meta::NameValue(pair)) => match &pair.value {
                Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => parsed.name = Some(name.clone()),
                other => return Err(Error::new(other.span(), "the name must be a string")),
            },
            ("retries", Meta::NameValue(pair)) => parsed.retries = Some(number(pair)?),
            ("timeout_secs", Meta::NameValue(pair)) => parsed.timeout_secs = Some(number(pair)?),
            ("cache_secs", Meta::NameValue(pair)) => parsed.cache_secs = Some(number(pair)?),
            ("max_output", Meta::NameValue(pair)) => parsed.max_output = Some(number(pair)?),
            _ => {
                return Err(Error::new(meta.span(), format!("unknown option; {OPTIONS}")));
            }
        }
    }
    Ok(parsed)
}

/// Returns the value of an integer option.
fn number(option: &MetaNameValue) -> syn::Result<LitInt> {
    match &option.value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Ok(number.clone()),
        other => Err(Error::new(other.span(), "this option takes an integer, such as `3`")),
    }
}

fn parameter(input: &FnArg) -> syn::Result<Parameter> {
    let FnArg::Typed(input) = input else {
        let problem = "a tool cannot take `self`; make it a free function";
        return Err(Error::new(input.span(), problem));
    };
    let Pat::Ident(name) = &*input.pat else {
        let problem =
            "a parameter of a tool needs a name, which the model sees; destructure it in the body";
        return Err(Error::new(input.pat.span(), problem));
    };
    Ok(Parameter {
        name: name.ident.clone(),
        r#type: (*input.ty).clone(),
        attributes: input.attrs.clone(),
        source: source(&input.ty)?,
    })
}

fn source(r#type: &Type) -> syn::Result<Source> {
    let Type::Reference(reference) = r#type else {
        let inner = dependency(r#type).map(Box::new);
        return Ok(inner.map_or(Source::Model, Source::Dependency));
    };
    let last = match &*reference.elem {
        Type::Path(path) => last_name(&path.path),
        Type::TraitObject(object) => match object.bounds.first() {
            Some(TypeParamBound::Trait(bound)) => {
                last_name(&bound.path).map(|it| format!("dyn {it}"))
            }
            _ => None,
        },
        _ => None,
    };
    match last.as_deref() {
        Some("ToolRuntime") => Ok(Source::Runtime),
        Some("AgentState") => Ok(Source::State),
        Some("ToolCall") => Ok(Source::Call),
        Some("Context") => Ok(Source::Context),
        Some("dyn Store") => Ok(Source::Store),
        _ => Err(Error::new(
            r#type.span(),
            "the model cannot pass a reference; use an owned type such as `String`. References to `ToolRuntime`, \
             `AgentState`, `ToolCall`, `Context` and `dyn Store`, and values of type `Dep<..>`, are filled in by the agent",
        )),
    }
}

fn last_name(path: &Path) -> Option<String> {
    path.segments.last().map(|it| it.ident.to_string())
}

/// Returns `T` if the type is `Dep<T>`.
fn dependency(r#type: &Type) -> Option<Type> {
    let Type::Path(path) = r#type else { return None };
    let last = path.path.segments.last().filter(|it| it.ident == "Dep")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner.clone()),
        _ => None,
    }
}

/// Joins doc comments into a text.
fn text_of(docs: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => line.value().trim().to_owned(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    docs.iter().map(line).collect::<Vec<_>>().join("\n").trim().to_owned()
}
