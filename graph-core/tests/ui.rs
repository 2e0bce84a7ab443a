//! The error messages for code that must not compile. `tests/it/accepted` contains code that must compile.

#[test]
fn invalid_code_causes_the_expected_errors() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
