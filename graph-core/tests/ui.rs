//! The error messages for code that must not compile. `tests/it/accepted` contains code that must compile.

#[test]
fn ui() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
