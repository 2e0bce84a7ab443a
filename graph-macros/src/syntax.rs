//! Syntactic helpers. A derive macro sees only tokens, so types are recognised by name.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::{GenericArgument, Path, PathArguments, PathSegment, Type, spanned::Spanned};

/// Returns `T` if the type is `name<T>`, with or without a path before the name.
pub(crate) fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let segment = last_segment(ty).filter(|it| it.ident == name)?;
    match &segment.arguments {
        PathArguments::AngleBracketed(list) if list.args.len() == 1 => match &list.args[0] {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether the type has one of these names, regardless of its path and arguments.
pub(crate) fn is_named(ty: &Type, names: &[&str]) -> bool {
    last_segment(ty).is_some_and(|it| names.iter().any(|name| it.ident == name))
}

/// Returns whether a path looks like a type. Such a path has several segments or a leading `::`, or its last segment
/// starts with a capital letter.
pub(crate) fn looks_like_type(path: &Path) -> bool {
    let last = path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default();
    path.segments.len() > 1
        || path.leading_colon.is_some()
        || last.starts_with(|it: char| it.is_uppercase())
}

/// Replaces every `Self` with the struct's name, because `Self` would mean another type in the generated code.
pub(crate) fn replace_self(tokens: TokenStream, name: &TokenStream) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(ident) if ident == "Self" => name.clone(),
        TokenTree::Group(group) => {
            let mut new = Group::new(group.delimiter(), replace_self(group.stream(), name));
            new.set_span(group.span());
            TokenTree::Group(new).into()
        }
        token => token.into(),
    };
    tokens.into_iter().flat_map(replace).collect()
}

/// Returns a span for generated code whose errors should point to `code`, which is the user's code.
///
/// Names in the generated code are still resolved at the derive's call site. Otherwise they would be resolved in
/// another scope if `code` was passed through a `macro_rules!` macro.
pub(crate) fn span_of(code: &impl Spanned) -> Span {
    code.span().resolved_at(Span::call_site())
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(ty) => ty.path.segments.last(),
        // `macro_rules!` puts an invisible group around each type that it passes on.
        Type::Group(ty) => last_segment(&ty.elem),
        Type::Paren(ty) => last_segment(&ty.elem),
        _ => None,
    }
}
