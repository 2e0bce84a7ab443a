use quote::quote;

use super::expand;

/// Returns the compile error that `#[tool]` reports for `item`.
fn error(item: proc_macro2::TokenStream) -> String {
    let expanded = expand(quote!(), item).to_string();
    assert!(expanded.contains("compile_error"), "{expanded}");
    expanded
}

#[test]
fn function_becomes_a_constructor_of_a_tool() {
    let expanded = expand(
        quote!(name = "sum", return_direct, strict),
        quote! {
            /// Adds two numbers.
            pub async fn add(
                /// First number.
                a: i64,
                b: i64,
                state: &AgentState,
            ) -> i64 {
                a + b
            }
        },
    );
    let file: syn::File = syn::parse2(expanded.clone()).unwrap();
    assert_eq!(file.items.len(), 1);
    let text = expanded.to_string();
    for part in [
        "\"sum\"", "\"Adds two numbers.\"", "runtime . state ()", "return_direct ()",
        ". strict ()", "reads_state (true)",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn invalid_functions_are_rejected() {
    assert!(error(quote! { #[doc = "x"] fn f() {} }).contains("a tool must be async"));
    assert!(error(quote! { async fn f() {} }).contains("needs a description"));
    assert!(error(quote! { #[doc = "x"] async fn f<T>(a: T) {} }).contains("cannot be generic"));
    assert!(error(quote! { #[doc = "x"] async fn f(&self) {} }).contains("cannot take `self`"));
    assert!(
        error(quote! { #[doc = "x"] async fn f((a, b): (i32, i32)) {} }).contains("needs a name")
    );
    assert!(
        error(quote! { #[doc = "x"] async fn f(a: &str) {} }).contains("cannot pass a reference")
    );
    assert!(error(quote! { struct S; }).contains("must be placed on an async function"));
}

#[test]
fn unknown_options_are_rejected() {
    let expanded =
        expand(quote!(color = "red"), quote! { #[doc = "x"] async fn f() {} }).to_string();
    assert!(expanded.contains("unknown option"), "{expanded}");
    let item = quote! { #[doc = "x"] async fn f() {} };
    let expanded = expand(quote!(retries = "two"), item.clone()).to_string();
    assert!(expanded.contains("takes an integer"), "{expanded}");
    let expanded = expand(quote!(retries), item).to_string();
    assert!(expanded.contains("unknown option"), "{expanded}");
}
