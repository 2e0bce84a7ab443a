//! What can be seen of the user's code without knowing what its names mean.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::{GenericArgument, Path, PathArguments, PathSegment, Type, spanned::Spanned};

/// `T` of `Name<T>`, whatever path leads to `Name`.
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

/// Whether a type goes by one of these names, whatever its path and its arguments are.
pub(crate) fn is_called(ty: &Type, names: &[&str]) -> bool {
    last_segment(ty).is_some_and(|it| names.iter().any(|name| it.ident == name))
}

/// Whether a path has the look of a type's: several segments, or a capital letter.
pub(crate) fn names_a_type(path: &Path) -> bool {
    let last = path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default();
    path.segments.len() > 1
        || path.leading_colon.is_some()
        || last.starts_with(|it: char| it.is_uppercase())
}

/// Puts a name in the place of every `Self`, which would mean another type in the code we write.
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

/// Where the user's code stands, for code of ours that is to be blamed on it.
///
/// Our names keep our own scope: what a `macro_rules!` macro was given has another one.
pub(crate) fn place_of(code: &impl Spanned) -> Span {
    code.span().resolved_at(Span::call_site())
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(ty) => ty.path.segments.last(),
        // A type that a `macro_rules!` macro was given stands in an invisible group.
        Type::Group(ty) => last_segment(&ty.elem),
        Type::Paren(ty) => last_segment(&ty.elem),
        _ => None,
    }
}
