//! Validation of the parsed struct.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident};
use syn::{
    Attribute, Expr, ExprLit, ExprPath, Generics, Ident, Lit, LitStr, Member, Path, Token, Type,
    TypeParam, Visibility, WherePredicate,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    parse_quote_spanned,
    spanned::Spanned,
    token,
};

use super::parse::{Body, ParsedField, ParsedStruct};
use crate::{
    attribute::{Entry, Value},
    diagnostics::{Diagnostics, add_required_bounds, check_lifetimes, unknown_name},
    syntax::{argument_of, is_named, looks_like_type},
};

/// A validated state.
pub(super) struct State {
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    /// Name of the update type.
    pub(super) update: Ident,
    pub(super) generics: Generics,
    pub(super) version: Option<u32>,
    pub(super) fields: Vec<Field>,
    /// Span of all fields. The update type has this span, so that the error for an unknown method shows the fields.
    pub(super) fields_span: Span,
}

pub(super) struct Field {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    /// Name of the field in checkpoints and streams.
    pub(super) name: LitStr,
    pub(super) reducer: Reducer,
    pub(super) lifetime: Lifetime,
    pub(super) input: bool,
    pub(super) output: bool,
}

pub(super) enum Reducer {
    /// A type in `graph_core::reduce`.
    BuiltIn(Ident),
    /// A user-defined type that implements `Reducer`.
    Custom(Path),
    /// A user-defined function, set with `with = function`.
    Function(ExprPath),
    Upsert {
        item: Box<Type>,
        key: Key,
    },
}

/// Mirrors `graph_core::state::Lifetime`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lifetime {
    Persistent,
    Step,
    Run,
}

/// The key of an upserted item: the expression that accesses the key, relative to the item, and the key's type.
pub(super) struct Key {
    pub(super) path: TokenStream,
    pub(super) ty: Type,
}

pub(super) fn check(parsed: ParsedStruct, diagnostics: &mut Diagnostics) -> State {
    let ParsedStruct { vis, ident, mut generics, settings, reducers, body, fields_span } = parsed;
    for entry in &reducers {
        diagnostics.add(entry, "`#[reduce(..)]` must be placed on a field");
    }
    let owned = check_lifetimes(&generics, "a state", diagnostics);
    let bound = check_bounds(&generics, diagnostics);
    let version = check_version(&settings, diagnostics);
    let fields = check_body(body, &ident, diagnostics).filter(|_| owned && bound);
    let fields = fields.unwrap_or_else(|| {
        add_required_bounds(&mut generics);
        Vec::new()
    });
    let update = format_ident!("{}Update", ident.unraw(), span = ident.span());
    State { vis, ident, update, generics, version, fields, fields_span }
}

/// Rejects type parameters without bounds, because each would cause dozens of errors in the generated code. Returns
/// `false` if it finds any.
fn check_bounds(generics: &Generics, diagnostics: &mut Diagnostics) -> bool {
    let predicates = generics.where_clause.iter().flat_map(|it| &it.predicates);
    let bound_in_where_clause: Vec<String> = predicates
        .filter_map(|it| match it {
            WherePredicate::Type(it) => Some(it.bounded_ty.to_token_stream().to_string()),
            _ => None,
        })
        .collect();
    let mut all = true;
    for TypeParam { ident, bounds, .. } in generics.type_params() {
        if bounds.is_empty() && !bound_in_where_clause.contains(&ident.to_string()) {
            let needed = "Clone + Serialize + DeserializeOwned + Send + Sync + 'static";
            diagnostics.add(
                ident,
                format_args!("type parameter `{ident}` needs bounds; write `{ident}: {needed}`"),
            );
            all = false;
        }
    }
    all
}

fn check_body(body: Body, ident: &Ident, diagnostics: &mut Diagnostics) -> Option<Vec<Field>> {
    match body {
        Body::Fields(fields) => return Some(check_fields(fields, diagnostics)),
        Body::Tuple(fields) => diagnostics.add(
            fields,
            format_args!("a state needs named fields; write `struct {ident} {{ field: Type }}`"),
        ),
        Body::Enum(token) => {
            let message =
                "`State` can only be derived for structs; put the enum into a field of a struct";
            diagnostics.add(token, message);
        }
        Body::Union(token) => {
            diagnostics.add(token, "`State` can only be derived for structs, not for unions");
        }
    }
    None
}

fn check_version(settings: &[Entry], diagnostics: &mut Diagnostics) -> Option<u32> {
    let mut version = None;
    for (index, entry) in settings.iter().enumerate() {
        let name = entry.name();
        match (name.as_str(), &entry.value) {
            ("version", _) if is_repeated(entry, &settings[..index]) => {
                diagnostics.add(entry, "`version` is set twice; remove one of them");
            }
            ("version", Value::Assigned(value)) if integer_literal(value).is_some() => {
                version = integer_literal(value);
            }
            ("version", _) => {
                diagnostics
                    .add(entry, "`version` must be a non-negative integer, as in `version = 2`");
            }
            ("input" | "output" | "private" | "rename", _) => {
                let message = format!("`{name}` must be placed on a field, not on the struct");
                diagnostics.add(entry, message);
            }
            _ => {
                let help = "the only option of a struct is `version = 2`";
                let message = unknown_name("option", &name, &["version"], help);
                diagnostics.add(&entry.path, message);
            }
        }
    }
    version
}

fn check_fields(parsed: Vec<ParsedField>, diagnostics: &mut Diagnostics) -> Vec<Field> {
    let settings: Vec<Settings> =
        parsed.iter().map(|it| check_settings(&it.settings, diagnostics)).collect();
    let some_input = settings.iter().any(|it| it.input);
    let some_output = settings.iter().any(|it| it.output);
    let mut fields = Vec::<Field>::new();
    for (parsed, settings) in parsed.into_iter().zip(settings) {
        let ParsedField { ident, ty, docs, reducers, .. } = parsed;
        let field_name = || LitStr::new(&ident.unraw().to_string(), ident.span());
        let name = settings.name.unwrap_or_else(field_name);
        if fields.iter().any(|it| it.name.value() == name.value()) {
            let stored = name.value();
            let message = format!("another field is already named `{stored}`; rename one of them");
            diagnostics.add(&name, message);
        }
        let (reducer, lifetime) = check_reducers(&reducers, &ty, diagnostics);
        let input = !settings.private && (settings.input || !some_input);
        let output = !settings.private && (settings.output || !some_output);
        fields.push(Field { ident, ty, docs, name, reducer, lifetime, input, output });
    }
    fields
}

/// The validated `#[state(..)]` options of a field.
#[derive(Default)]
struct Settings {
    name: Option<LitStr>,
    input: bool,
    output: bool,
    private: bool,
}

fn check_settings(entries: &[Entry], diagnostics: &mut Diagnostics) -> Settings {
    let mut settings = Settings::default();
    for (index, entry) in entries.iter().enumerate() {
        let name = entry.name();
        if is_repeated(entry, &entries[..index]) {
            diagnostics.add(entry, format_args!("`{name}` is set twice; remove one of them"));
            continue;
        }
        match (name.as_str(), &entry.value) {
            ("input", Value::None) => settings.input = true,
            ("output", Value::None) => settings.output = true,
            ("private", Value::None) => settings.private = true,
            ("input" | "output" | "private", _) => {
                diagnostics
                    .add(entry, format_args!("`{name}` takes no value; write just `{name}`"));
            }
            ("rename", Value::Assigned(value)) if string_literal(value).is_some() => {
                settings.name = string_literal(value);
            }
            ("rename", _) => {
                diagnostics.add(entry, "`rename` needs a string, as in `rename = \"name\"`");
            }
            ("version", _) => {
                diagnostics.add(entry, "`version` must be placed on the struct, not on a field");
            }
            _ => {
                let known = ["input", "output", "private", "rename"];
                let help = "the options of a field are `input`, `output`, `private` and `rename = \"name\"`";
                diagnostics.add(&entry.path, unknown_name("option", &name, &known, help));
            }
        }
        if settings.private && (settings.input || settings.output) {
            let message =
                "a private field cannot be `input` or `output`; remove one of the options";
            diagnostics.add(entry, message);
        }
    }
    settings
}

/// The built-in reducers that take no arguments. Each entry consists of the name in the attribute, the type in
/// `graph_core::reduce`, and the lifetime of a written value.
const BUILT_IN_REDUCERS: [(&str, &str, Lifetime); 9] = [
    ("add", "Add", Lifetime::Persistent),
    ("any", "Any", Lifetime::Step),
    ("append", "Append", Lifetime::Persistent),
    ("ephemeral", "Last", Lifetime::Step),
    ("max", "Max", Lifetime::Persistent),
    ("merge", "Merge", Lifetime::Persistent),
    ("min", "Min", Lifetime::Persistent),
    ("topic", "Topic", Lifetime::Step),
    ("untracked", "Last", Lifetime::Run),
];

const REDUCER_HELP: &str = "use `add`, `any`, `append`, `ephemeral`, `max`, `merge`, `min`, `topic`, \
     `topic(keep)`, `untracked`, `upsert(key)`, `with = function`, or a type that implements `Reducer`";

fn check_reducers(
    entries: &[Entry],
    ty: &Type,
    diagnostics: &mut Diagnostics,
) -> (Reducer, Lifetime) {
    let last = (Reducer::BuiltIn(Ident::new("Last", ty.span())), Lifetime::Persistent);
    let Some((entry, more)) = entries.split_first() else { return last };
    for entry in more {
        let message = "a field can have only one reducer; remove this one or the previous one";
        diagnostics.add(entry, message);
    }
    diagnostics.ok(check_reducer(entry, ty)).unwrap_or(last)
}

fn check_reducer(entry: &Entry, ty: &Type) -> syn::Result<(Reducer, Lifetime)> {
    let name = entry.name();
    let error = |message: &str| Err(syn::Error::new_spanned(entry, message));
    let built_in = |name| Reducer::BuiltIn(Ident::new(name, entry.path.span()));
    match (name.as_str(), &entry.value) {
        ("add", _) if is_named(ty, &["Vec", "VecDeque"]) => {
            error("`add` needs a number; to extend a list, write `#[reduce(append)]`")
        }
        ("add", _) if is_named(ty, &["String"]) => {
            error("`add` needs a number; to append to a string, write `#[reduce(append)]`")
        }
        ("topic", Value::Nested(argument)) if argument.to_string() == "keep" => {
            Ok((built_in("Append"), Lifetime::Persistent))
        }
        ("topic", Value::Nested(_) | Value::Assigned(_)) => error(
            "invalid argument of `topic`; write `topic`, or `topic(keep)` to keep the items of earlier steps",
        ),
        ("upsert", Value::Nested(key)) => {
            let key = syn::parse2(key.clone())?;
            let Some(item) = argument_of(ty, "Vec") else {
                return Err(syn::Error::new_spanned(
                    ty, "`upsert` needs a field of type `Vec<Item>`",
                ));
            };
            Ok((Reducer::Upsert { item: Box::new(item.clone()), key }, Lifetime::Persistent))
        }
        ("upsert", _) => error(KEY_HELP),
        ("with", Value::Assigned(value)) if matches!(**value, Expr::Path(_)) => {
            Ok((Reducer::Function(syn::parse2(value.to_token_stream())?), Lifetime::Persistent))
        }
        ("with", _) => {
            error("`with` needs a function `fn(&mut T, T)`, as in `with = path::to::function`")
        }
        (_, value) => {
            let (reducer, lifetime) = match BUILT_IN_REDUCERS.iter().find(|it| it.0 == name) {
                Some((_, type_name, lifetime)) => (built_in(type_name), *lifetime),
                None if looks_like_type(&entry.path) => {
                    (Reducer::Custom(entry.path.clone()), Lifetime::Persistent)
                }
                None => {
                    let known = BUILT_IN_REDUCERS.iter().map(|it| it.0).chain(["upsert", "with"]);
                    let known = known.collect::<Vec<_>>();
                    let help = format!("{REDUCER_HELP}; for a function, write `with = {name}`");
                    let message = unknown_name("reducer", &name, &known, &help);
                    return Err(syn::Error::new_spanned(&entry.path, message));
                }
            };
            match value {
                Value::None => Ok((reducer, lifetime)),
                _ => error(&format!("reducer `{name}` takes no arguments; write just `{name}`")),
            }
        }
    }
}

const KEY_HELP: &str = "`upsert` needs the key of the items: `upsert(id)` for a field of type `String`, \
     `upsert(id: u64)` for another type, `upsert(id())` for a method";

impl Parse for Key {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let help = |error: syn::Error| syn::Error::new(error.span(), KEY_HELP);
        let mut path = TokenStream::new();
        loop {
            input.parse::<Member>().map_err(help)?.to_tokens(&mut path);
            if input.peek(token::Paren) {
                let arguments;
                let parentheses = syn::parenthesized!(arguments in input);
                if !arguments.is_empty() {
                    return Err(arguments.error(KEY_HELP));
                }
                parentheses.surround(&mut path, |_| {});
            }
            let Some(dot) = input.parse::<Option<Token![.]>>()? else { break };
            dot.to_tokens(&mut path);
        }
        let ty = match input.parse::<Option<Token![:]>>()? {
            Some(_) => input.parse().map_err(help)?,
            None => parse_quote_spanned!(path.span()=> ::std::string::String),
        };
        if !input.is_empty() {
            return Err(input.error(KEY_HELP));
        }
        Ok(Self { path, ty })
    }
}

/// Returns whether an earlier entry has the same name.
fn is_repeated(entry: &Entry, earlier: &[Entry]) -> bool {
    earlier.iter().any(|it| it.name() == entry.name())
}

fn integer_literal(value: &Expr) -> Option<u32> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    }
}

fn string_literal(value: &Expr) -> Option<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => Some(literal.clone()),
        _ => None,
    }
}
