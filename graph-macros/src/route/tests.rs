use quote::ToTokens;

use super::{
    check::{Route, Way},
    parse::Target,
    *,
};

/// The route that the code means, and the mistakes in it.
fn route(code: &str) -> (Route, Vec<String>) {
    let mut mistakes = Mistakes::default();
    let written = parse::parse(syn::parse_str(code).unwrap(), &mut mistakes);
    let route = check::check(written, &mut mistakes);
    (route, mistakes.messages())
}

/// Checks where each variant of a correct enum leads.
#[track_caller]
fn means(variants: &str, expect: &[&str]) {
    let (route, mistakes) = route(&format!("enum Way {{ {variants} }}"));
    assert_eq!(mistakes, [""; 0]);
    let shown = |it: &Target| it.to_token_stream().to_string();
    let ways = route.variants.iter().flatten().map(|it| match &it.way {
        Way::Go(to) => format!("go {}", to.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Way::One(to, payload) => format!("send {} {}", shown(to), payload.to_token_stream()),
        Way::Each(to, payload) => format!("send {} each {}", shown(to), payload.to_token_stream()),
    });
    assert_eq!(ways.collect::<Vec<_>>(), expect);
}

/// Checks how a mistake is put, and that the code written after it is still Rust.
#[track_caller]
fn fails(code: &str, expect: &str) {
    assert_eq!(route(code).1, [expect]);
    let code = derive(syn::parse_str(code).unwrap());
    syn::parse2::<syn::File>(code).unwrap();
}

#[track_caller]
fn variant_fails(variant: &str, expect: &str) {
    fails(&format!("enum Way {{ {variant} }}"), expect);
}

#[test]
fn variants_without_payload_go_somewhere() {
    means("#[to(plan)] A", &["go plan"]);
    means("#[to(plan, END, \"name\",)] A", &["go plan, END, \"name\""]);
    means("#[to(a::b)] A(), #[to(log::<Essay>)] B {}", &["go a :: b", "go log :: < Essay >"]);
    means("", &[]);
}

#[test]
fn variants_with_payload_send_it() {
    means("#[to(write)] A(Section)", &["send write Section"]);
    means("#[to(write)] A(Option<Section>)", &["send write Option < Section >"]);
    means("#[to(write)] A(Vec<Section>)", &["send write each Section"]);
    means("#[to(\"name\")] A(std::vec::Vec<Section>)", &["send \"name\" each Section"]);
}

#[test]
fn wrong_shapes_say_what_a_route_is() {
    fails("struct Way;", "a route is an enum: one variant for each way out");
    fails("union Way { a: u8 }", "a route is an enum: one variant for each way out");
    fails(
        "enum Way<'a> { #[to(write)] A(&'a str) }",
        "a route owns its values: replace what is borrowed for `'a`",
    );
    fails("#[to(a)] enum Way { #[to(a)] A }", "`#[to(..)]` belongs on a variant");
    variant_fails("#[to(a)] A(#[to(a)] B)", "`#[to(..)]` belongs on a variant");
}

#[test]
fn wrong_targets_say_what_to_write() {
    variant_fails("A", "say where `A` leads: `#[to(node)]`");
    variant_fails("#[to] A", "say where the variant leads: `#[to(node)]`");
    variant_fails("#[to()] A", "say where the variant leads: `#[to(node)]`");
    let target = "expected a node's function, END, or a node's name in quotes";
    variant_fails("#[to(3)] A", target);
    variant_fails("#[to(|it| it)] A", target);
    let one = "write all targets into one attribute: `#[to(a, b)]`";
    variant_fails("#[to(a)] #[to(b)] A", one);
}

#[test]
fn wrong_payloads_say_what_to_write() {
    let one = "a variant carries one payload, `Variant(Payload)`: put these into a struct";
    variant_fails("#[to(a)] A(B, C)", one);
    variant_fails("#[to(a)] A { b: B }", one);
    variant_fails("#[to(a, b)] A(B)", "a payload goes to one node: add a variant for this one");
    let end = "END takes no payload: drop the variant's field, or name a node";
    variant_fails("#[to(graph_core::END)] A(B)", end);
}
