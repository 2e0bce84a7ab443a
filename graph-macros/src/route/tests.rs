use quote::ToTokens;

use super::{
    check::{Destination, Route},
    parse::Target,
    *,
};

/// Parses and validates an enum. Returns the route and the error messages.
fn route(code: &str) -> (Route, Vec<String>) {
    let mut diagnostics = Diagnostics::default();
    let parsed = parse::parse(syn::parse_str(code).unwrap(), &mut diagnostics);
    let route = check::check(parsed, &mut diagnostics);
    (route, diagnostics.messages())
}

/// Checks the destinations of the variants of a valid enum.
#[track_caller]
fn check_destinations(variants: &str, expect: &[&str]) {
    let (route, errors) = route(&format!("enum Next {{ {variants} }}"));
    assert_eq!(errors, [""; 0]);
    let show = |it: &Target| it.to_token_stream().to_string();
    let destinations = route.variants.iter().flatten().map(|it| match &it.destination {
        Destination::Goto(to) => {
            format!("goto {}", to.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        Destination::Send(to, payload) => {
            format!("send {} {}", show(to), payload.to_token_stream())
        }
        Destination::SendEach(to, payload) => {
            format!("send {} each {}", show(to), payload.to_token_stream())
        }
    });
    assert_eq!(destinations.collect::<Vec<_>>(), expect);
}

/// Checks that deriving reports exactly this error and still generates valid Rust code.
#[track_caller]
fn check_error(code: &str, expect: &str) {
    assert_eq!(route(code).1, [expect]);
    let code = derive(syn::parse_str(code).unwrap());
    syn::parse2::<syn::File>(code).unwrap();
}

#[track_caller]
fn check_variant_error(variant: &str, expect: &str) {
    check_error(&format!("enum Next {{ {variant} }}"), expect);
}

#[test]
fn variants_without_payload_go_to_their_targets() {
    check_destinations("#[to(plan)] A", &["goto plan"]);
    check_destinations("#[to(plan, END, \"name\",)] A", &["goto plan, END, \"name\""]);
    check_destinations(
        "#[to(a::b)] A(), #[to(log::<Essay>)] B {}",
        &["goto a :: b", "goto log :: < Essay >"],
    );
    check_destinations("", &[]);
}

#[test]
fn variants_with_payload_send_the_payload() {
    check_destinations("#[to(write)] A(Section)", &["send write Section"]);
    check_destinations("#[to(write)] A(Option<Section>)", &["send write Option < Section >"]);
    check_destinations("#[to(write)] A(Vec<Section>)", &["send write each Section"]);
    check_destinations(
        "#[to(\"name\")] A(std::vec::Vec<Section>)",
        &["send \"name\" each Section"],
    );
}

#[test]
fn unsupported_types_are_rejected() {
    let message = "`Route` can only be derived for enums; add one variant per target";
    check_error("struct Next;", message);
    check_error("union Next { a: u8 }", message);
    check_error(
        "enum Next<'a> { #[to(write)] A(&'a str) }",
        "a route cannot contain references; use owned types and remove the lifetime `'a`",
    );
    let misplaced = "`#[to(..)]` must be placed on a variant";
    check_error("#[to(a)] enum Next { #[to(a)] A }", misplaced);
    check_variant_error("#[to(a)] A(#[to(a)] B)", misplaced);
}

#[test]
fn invalid_targets_are_rejected() {
    check_variant_error("A", "variant `A` has no target; add `#[to(node)]`");
    let missing = "`#[to]` needs a target, as in `#[to(node)]`";
    check_variant_error("#[to] A", missing);
    check_variant_error("#[to()] A", missing);
    let target = "expected a node function, `END`, or a node name in quotes";
    check_variant_error("#[to(3)] A", target);
    check_variant_error("#[to(|it| it)] A", target);
    let one = "a variant can have only one `#[to(..)]`; list all targets in it: `#[to(a, b)]`";
    check_variant_error("#[to(a)] #[to(b)] A", one);
}
