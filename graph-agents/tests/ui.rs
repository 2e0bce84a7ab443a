//! Compile-time tests of `#[tool]`: code that must compile, and the error messages for code that must not compile.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
