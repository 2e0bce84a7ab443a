//! What the struct means as a state, and every mistake a user can make in saying so.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident};
use syn::{
    Attribute, Expr, ExprPath, Generics, Ident, Lit, LitStr, Member, Path, Token, Type, TypeParam,
    Visibility, WherePredicate,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    parse_quote_spanned,
    spanned::Spanned,
    token,
};

use super::parse::{Body, Written, WrittenField};
use crate::{
    attribute::{Entry, Value},
    mistakes::{Mistakes, bind_all, check_lifetimes, unknown},
    syntax::{argument_of, names_a_type},
};

/// A state whose code can be written.
pub(super) struct State {
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    /// The name of the update type.
    pub(super) update: Ident,
    pub(super) generics: Generics,
    pub(super) version: Option<u32>,
    pub(super) fields: Vec<Field>,
}

pub(super) struct Field {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    /// The name in checkpoints and streams.
    pub(super) name: LitStr,
    pub(super) reducer: Reducer,
    pub(super) lifetime: Lifetime,
    pub(super) input: bool,
    pub(super) output: bool,
}

pub(super) enum Reducer {
    /// A type in `graph_core::reduce`.
    Known(Ident),
    /// A type of the user's.
    Own(Path),
    /// A function of the user's.
    With(ExprPath),
    Upsert {
        item: Box<Type>,
        key: Key,
    },
}

/// How long a written value stays: `graph_core::state::Lifetime`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lifetime {
    Kept,
    Step,
    Run,
}

/// The key of an upserted item: the way to it, and its type.
pub(super) struct Key {
    pub(super) path: TokenStream,
    pub(super) ty: Type,
}

pub(super) fn check(written: Written, mistakes: &mut Mistakes) -> State {
    let Written { vis, ident, mut generics, settings, reducers, body } = written;
    for entry in &reducers {
        mistakes.add(entry, "`#[reduce(..)]` belongs on a field");
    }
    let owned = check_lifetimes(&generics, "a state", mistakes);
    let bound = check_bounds(&generics, mistakes);
    let version = check_version(&settings, mistakes);
    let fields = check_body(body, &ident, mistakes).filter(|_| owned && bound);
    let fields = fields.unwrap_or_else(|| {
        bind_all(&mut generics);
        Vec::new()
    });
    let update = format_ident!("{}Update", ident.unraw(), span = ident.span());
    State { vis, ident, update, generics, version, fields }
}

/// Refuses type parameters without any bound: each would be dozens of errors in the code we write.
fn check_bounds(generics: &Generics, mistakes: &mut Mistakes) -> bool {
    let predicates = generics.where_clause.iter().flat_map(|it| &it.predicates);
    let bound_below: Vec<String> = predicates
        .filter_map(|it| match it {
            WherePredicate::Type(it) => Some(it.bounded_ty.to_token_stream().to_string()),
            _ => None,
        })
        .collect();
    let mut all = true;
    for TypeParam { ident, bounds, .. } in generics.type_params() {
        if bounds.is_empty() && !bound_below.contains(&ident.to_string()) {
            let needed = "Clone + Serialize + DeserializeOwned + Send + Sync + 'static";
            mistakes
                .add(ident, format_args!("say what a field's type must be: `{ident}: {needed}`"));
            all = false;
        }
    }
    all
}

fn check_body(body: Body, ident: &Ident, mistakes: &mut Mistakes) -> Option<Vec<Field>> {
    match body {
        Body::Fields(fields) => return Some(check_fields(fields, mistakes)),
        Body::Tuple(fields) => mistakes.add(
            fields,
            format_args!("a state's fields need names: `struct {ident} {{ field: Type }}`"),
        ),
        Body::Enum(token) => {
            mistakes.add(token, "a state is a struct: put the enum into a field of one");
        }
        Body::Union(token) => {
            mistakes.add(token, "a state is a struct: write `struct` instead of `union`");
        }
    }
    None
}

fn check_version(settings: &[Entry], mistakes: &mut Mistakes) -> Option<u32> {
    let mut version = None;
    for (index, entry) in settings.iter().enumerate() {
        let word = entry.word();
        match (word.as_str(), &entry.value) {
            ("version", _) if stands_before(entry, &settings[..index]) => {
                mistakes.add(entry, "`version` stands here twice: drop one of them");
            }
            ("version", Value::Is(value)) if whole_number(value).is_some() => {
                version = whole_number(value);
            }
            ("version", _) => mistakes.add(entry, "write a whole number: `version = 2`"),
            ("input" | "output" | "private" | "rename", _) => {
                mistakes.add(entry, format_args!("`{word}` belongs on a field"));
            }
            _ => {
                let help = "a struct can have `version = 2`";
                mistakes.add(&entry.path, unknown(&word, &["version"], help));
            }
        }
    }
    version
}

fn check_fields(written: Vec<WrittenField>, mistakes: &mut Mistakes) -> Vec<Field> {
    let settings: Vec<Settings> =
        written.iter().map(|it| check_settings(&it.settings, mistakes)).collect();
    let some_input = settings.iter().any(|it| it.input);
    let some_output = settings.iter().any(|it| it.output);
    let mut fields = Vec::<Field>::new();
    for (written, settings) in written.into_iter().zip(settings) {
        let WrittenField { ident, ty, docs, reducers, .. } = written;
        let own_name = || LitStr::new(&ident.unraw().to_string(), ident.span());
        let name = settings.name.unwrap_or_else(own_name);
        if fields.iter().any(|it| it.name.value() == name.value()) {
            let stored = name.value();
            mistakes.add(&name, format_args!("two fields are stored as `{stored}`: rename one"));
        }
        let (reducer, lifetime) = check_reducers(&reducers, &ty, mistakes);
        let input = !settings.private && (settings.input || !some_input);
        let output = !settings.private && (settings.output || !some_output);
        fields.push(Field { ident, ty, docs, name, reducer, lifetime, input, output });
    }
    fields
}

/// The `#[state(..)]` of a field.
#[derive(Default)]
struct Settings {
    name: Option<LitStr>,
    input: bool,
    output: bool,
    private: bool,
}

fn check_settings(entries: &[Entry], mistakes: &mut Mistakes) -> Settings {
    let mut settings = Settings::default();
    for (index, entry) in entries.iter().enumerate() {
        let word = entry.word();
        if stands_before(entry, &entries[..index]) {
            mistakes.add(entry, format_args!("`{word}` stands here twice: drop one of them"));
            continue;
        }
        match (word.as_str(), &entry.value) {
            ("input", Value::None) => settings.input = true,
            ("output", Value::None) => settings.output = true,
            ("private", Value::None) => settings.private = true,
            ("input" | "output" | "private", _) => {
                mistakes.add(entry, format_args!("write `{word}` alone"));
            }
            ("rename", Value::Is(value)) if text(value).is_some() => settings.name = text(value),
            ("rename", _) => mistakes.add(entry, "write the name in quotes: `rename = \"name\"`"),
            ("version", _) => mistakes.add(entry, "`version` belongs on the struct"),
            _ => {
                let words = ["input", "output", "private", "rename"];
                let help = "write `input`, `output`, `private` or `rename = \"name\"`";
                mistakes.add(&entry.path, unknown(&word, &words, help));
            }
        }
        if settings.private && (settings.input || settings.output) {
            mistakes
                .add(entry, "a private field is neither input nor output: drop one of the words");
        }
    }
    settings
}

/// The reducers that are one word, the types in `graph_core::reduce` that they mean, and how long a value stays.
const WORDS: [(&str, &str, Lifetime); 9] = [
    ("add", "Add", Lifetime::Kept),
    ("any", "Any", Lifetime::Step),
    ("append", "Append", Lifetime::Kept),
    ("ephemeral", "Last", Lifetime::Step),
    ("max", "Max", Lifetime::Kept),
    ("merge", "Merge", Lifetime::Kept),
    ("min", "Min", Lifetime::Kept),
    ("topic", "Topic", Lifetime::Step),
    ("untracked", "Last", Lifetime::Run),
];

const ALL_REDUCERS: &str = "write `add`, `any`, `append`, `ephemeral`, `max`, `merge`, `min`, `topic`, \
     `topic(keep)`, `untracked`, `upsert(key)`, `with = function`, or a type that implements `Reducer`";

fn check_reducers(entries: &[Entry], ty: &Type, mistakes: &mut Mistakes) -> (Reducer, Lifetime) {
    let last = (Reducer::Known(Ident::new("Last", ty.span())), Lifetime::Kept);
    let Some((entry, more)) = entries.split_first() else { return last };
    for entry in more {
        mistakes.add(entry, "a field has one reducer: drop this one or the one before");
    }
    mistakes.take(check_reducer(entry, ty)).unwrap_or(last)
}

fn check_reducer(entry: &Entry, ty: &Type) -> syn::Result<(Reducer, Lifetime)> {
    let word = entry.word();
    let mistake = |message: &str| Err(syn::Error::new_spanned(entry, message));
    let known = |name| Reducer::Known(Ident::new(name, entry.path.span()));
    match (word.as_str(), &entry.value) {
        ("topic", Value::Holds(more)) if more.to_string() == "keep" => {
            Ok((known("Append"), Lifetime::Kept))
        }
        ("topic", Value::Holds(_) | Value::Is(_)) => {
            mistake("write `topic`, or `topic(keep)` to keep the items of earlier steps")
        }
        ("upsert", Value::Holds(key)) => {
            let key = syn::parse2(key.clone())?;
            let Some(item) = argument_of(ty, "Vec") else {
                return Err(syn::Error::new_spanned(
                    ty,
                    "`upsert` needs a field of type `Vec<Item>`",
                ));
            };
            Ok((Reducer::Upsert { item: Box::new(item.clone()), key }, Lifetime::Kept))
        }
        ("upsert", _) => mistake(KEY_HELP),
        ("with", Value::Is(value)) if matches!(**value, Expr::Path(_)) => {
            Ok((Reducer::With(syn::parse2(value.to_token_stream())?), Lifetime::Kept))
        }
        ("with", _) => mistake("name a function `fn(&mut T, T)`: `with = path::to::function`"),
        (_, value) => {
            let (reducer, lifetime) = match WORDS.iter().find(|it| it.0 == word) {
                Some((_, name, lifetime)) => (known(name), *lifetime),
                None if names_a_type(&entry.path) => {
                    (Reducer::Own(entry.path.clone()), Lifetime::Kept)
                }
                None => {
                    let words = WORDS.iter().map(|it| it.0).chain(["upsert", "with"]);
                    let message = unknown(&word, &words.collect::<Vec<_>>(), ALL_REDUCERS);
                    return Err(syn::Error::new_spanned(&entry.path, message));
                }
            };
            match value {
                Value::None => Ok((reducer, lifetime)),
                _ => mistake("this reducer stands alone: drop what follows its name"),
            }
        }
    }
}

const KEY_HELP: &str = "say which key the items have: `upsert(id)` for a `String`, `upsert(id: u64)` for another \
     type, `upsert(id())` for a method";

impl Parse for Key {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let help = |error: syn::Error| syn::Error::new(error.span(), KEY_HELP);
        let mut path = TokenStream::new();
        loop {
            input.parse::<Member>().map_err(help)?.to_tokens(&mut path);
            if input.peek(token::Paren) {
                let arguments;
                let brackets = syn::parenthesized!(arguments in input);
                if !arguments.is_empty() {
                    return Err(arguments.error(KEY_HELP));
                }
                brackets.surround(&mut path, |_| {});
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

fn stands_before(entry: &Entry, before: &[Entry]) -> bool {
    before.iter().any(|it| it.word() == entry.word())
}

fn whole_number(value: &Expr) -> Option<u32> {
    match value {
        Expr::Lit(value) => match &value.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn text(value: &Expr) -> Option<LitStr> {
    match value {
        Expr::Lit(value) => match &value.lit {
            Lit::Str(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
