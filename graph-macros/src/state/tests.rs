use quote::ToTokens;

use super::{
    check::{Reducer, State},
    *,
};

/// Parses and validates a struct. Returns the state and the error messages.
fn state(code: &str) -> (State, Vec<String>) {
    let mut diagnostics = Diagnostics::default();
    let parsed = parse::parse(syn::parse_str(code).unwrap(), &mut diagnostics);
    let state = check::check(parsed, &mut diagnostics);
    (state, diagnostics.messages())
}

/// Checks the fields of a valid struct.
#[track_caller]
fn check_fields(fields: &str, expect: &[&str]) {
    let (state, errors) = state(&format!("struct Essay {{ {fields} }}"));
    assert_eq!(errors, [""; 0]);
    let shown = state.fields.iter().map(|it| {
        let reducer = match &it.reducer {
            Reducer::BuiltIn(name) => name.to_string(),
            Reducer::Custom(path) => format!("custom {}", path.to_token_stream()),
            Reducer::Function(path) => format!("with {}", path.to_token_stream()),
            Reducer::Upsert { item, key } => {
                let (item, ty) = (item.to_token_stream(), key.ty.to_token_stream());
                format!("upsert {item} by {}: {ty}", key.path)
            }
        };
        let input = if it.input { " in" } else { "" };
        let output = if it.output { " out" } else { "" };
        format!("{}: {reducer}, {:?}{input}{output}", it.name.value(), it.lifetime)
    });
    assert_eq!(shown.collect::<Vec<_>>(), expect);
}

/// Checks that deriving reports exactly these errors and still generates valid Rust code.
#[track_caller]
fn check_errors(code: &str, expect: &[&str]) {
    assert_eq!(state(code).1, expect);
    let code = derive(syn::parse_str(code).unwrap());
    syn::parse2::<syn::File>(code).unwrap();
}

#[track_caller]
fn check_field_error(field: &str, expect: &str) {
    check_errors(&format!("struct Essay {{ {field} }}"), &[expect]);
}

#[test]
fn all_reducers_are_parsed() {
    check_fields("a: T", &["a: Last, Persistent in out"]);
    check_fields("#[reduce(append)] a: Vec<T>", &["a: Append, Persistent in out"]);
    check_fields("#[reduce(add)] a: T", &["a: Add, Persistent in out"]);
    check_fields(
        "#[reduce(max)] a: T, #[reduce(min)] b: T",
        &["a: Max, Persistent in out", "b: Min, Persistent in out"],
    );
    check_fields("#[reduce(merge)] a: T", &["a: Merge, Persistent in out"]);
    check_fields("#[reduce(any)] a: T", &["a: Any, Step in out"]);
    check_fields("#[reduce(ephemeral)] a: T", &["a: Last, Step in out"]);
    check_fields("#[reduce(untracked)] a: T", &["a: Last, Run in out"]);
    check_fields("#[reduce(topic)] a: Vec<T>", &["a: Topic, Step in out"]);
    check_fields("#[reduce(topic(keep))] a: Vec<T>", &["a: Append, Persistent in out"]);
    check_fields(
        "#[reduce(with = path::to::f)] a: T",
        &["a: with path :: to :: f, Persistent in out"],
    );
    check_fields("#[reduce(Longest)] a: T", &["a: custom Longest, Persistent in out"]);
    check_fields(
        "#[reduce(text::longest)] a: T",
        &["a: custom text :: longest, Persistent in out"],
    );
    check_fields("#[reduce(Window<3>,)] a: T", &["a: custom Window < 3 >, Persistent in out"]);
}

#[test]
fn all_kinds_of_keys_are_parsed() {
    let string = ":: std :: string :: String";
    check_fields(
        "#[reduce(upsert(id))] a: std::vec::Vec<T>",
        &[&format!("a: upsert T by id: {string}, Persistent in out")],
    );
    check_fields(
        "#[reduce(upsert(id: u64))] a: Vec<T>",
        &["a: upsert T by id: u64, Persistent in out"],
    );
    check_fields(
        "#[reduce(upsert(meta.0.id(): Id<T>))] a: Vec<T>",
        &["a: upsert T by meta . 0 . id (): Id < T >, Persistent in out"],
    );
}

#[test]
fn options_determine_input_and_output() {
    check_fields(
        "#[state(private)] a: T, b: T",
        &["a: Last, Persistent", "b: Last, Persistent in out"],
    );
    check_fields(
        "#[state(input)] a: T, b: T",
        &["a: Last, Persistent in out", "b: Last, Persistent out"],
    );
    check_fields(
        "#[state(input)] a: T, #[state(output)] b: T, #[state(input, output)] c: T, #[state(private)] d: T",
        &[
            "a: Last, Persistent in", "b: Last, Persistent out", "c: Last, Persistent in out",
            "d: Last, Persistent",
        ],
    );
}

#[test]
fn rename_overrides_the_field_name() {
    check_fields(
        "r#type: T, #[state(rename = \"new\")] old: T",
        &["type: Last, Persistent in out", "new: Last, Persistent in out"],
    );
}

#[test]
fn version_is_an_option_of_the_struct() {
    assert_eq!(state("#[state(version = 3)] struct Essay;").0.version, Some(3));
    assert_eq!(state("struct Essay {}").0.version, None);
    check_errors(
        "#[state(version = \"3\")] struct Essay;",
        &["`version` must be a non-negative integer, as in `version = 2`"],
    );
    check_errors(
        "#[state(version = 1, version = 2)] struct Essay;",
        &["`version` is set twice; remove one of them"],
    );
    check_errors(
        "#[state(verson = 1)] struct Essay;",
        &[
            "unknown option `verson` (did you mean `version`?); the only option of a struct is `version = 2`",
        ],
    );
    check_field_error(
        "#[state(version = 1)] a: T",
        "`version` must be placed on the struct, not on a field",
    );
}

#[test]
fn unsupported_types_are_rejected() {
    check_errors(
        "enum E { A }",
        &["`State` can only be derived for structs; put the enum into a field of a struct"],
    );
    check_errors("union U { a: u8 }", &["`State` can only be derived for structs, not for unions"]);
    check_errors(
        "struct Essay(String);",
        &["a state needs named fields; write `struct Essay { field: Type }`"],
    );
    check_errors(
        "struct Essay<'a> { a: &'a str }",
        &["a state cannot contain references; use owned types and remove the lifetime `'a`"],
    );
    check_errors(
        "struct Essay<T> { a: T }",
        &[
            "type parameter `T` needs bounds; write `T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static`",
        ],
    );
    check_errors("struct Essay<T: Item, U, const N: usize> where U: Item { a: T, b: U }", &[]);
    check_errors("#[reduce(append)] struct Essay;", &["`#[reduce(..)]` must be placed on a field"]);
    check_errors(
        "#[state(input)] struct Essay;",
        &["`input` must be placed on a field, not on the struct"],
    );
}

#[test]
fn invalid_reducers_are_rejected() {
    let all = "use `add`, `any`, `append`, `ephemeral`, `max`, `merge`, `min`, `topic`, `topic(keep)`, \
         `untracked`, `upsert(key)`, `with = function`, or a type that implements `Reducer`";
    check_field_error(
        "#[reduce(appendd)] a: T",
        &format!(
            "unknown reducer `appendd` (did you mean `append`?); {all}; for a function, write `with = appendd`"
        ),
    );
    check_field_error(
        "#[reduce(frobnicate)] a: T",
        &format!("unknown reducer `frobnicate`; {all}; for a function, write `with = frobnicate`"),
    );
    check_field_error(
        "#[reduce(add)] a: String",
        "`add` needs a number; to append to a string, write `#[reduce(append)]`",
    );
    let missing = "`#[reduce]` needs an argument, as in `#[reduce(append)]`";
    check_field_error("#[reduce] a: T", missing);
    check_field_error("#[reduce()] a: T", missing);
    check_field_error("#[reduce(\"add\")] a: T", "expected `name`, `name = value` or `name(..)`");
    let one = "a field can have only one reducer; remove this one or the previous one";
    check_field_error("#[reduce(add, max)] a: T", one);
    check_field_error("#[reduce(add)] #[reduce(max)] a: T", one);
    check_field_error(
        "#[reduce(add(1))] a: T",
        "reducer `add` takes no arguments; write just `add`",
    );
    check_field_error(
        "#[reduce(Longest = 1)] a: T",
        "reducer `Longest` takes no arguments; write just `Longest`",
    );
    let topic = "invalid argument of `topic`; write `topic`, or `topic(keep)` to keep the items of earlier steps";
    check_field_error("#[reduce(topic(all))] a: T", topic);
    let with = "`with` needs a function `fn(&mut T, T)`, as in `with = path::to::function`";
    check_field_error("#[reduce(with)] a: T", with);
    check_field_error("#[reduce(with = |a, b| a)] a: T", with);
}

#[test]
fn invalid_keys_are_rejected() {
    let key = "`upsert` needs the key of the items: `upsert(id)` for a field of type `String`, \
         `upsert(id: u64)` for another type, `upsert(id())` for a method";
    check_field_error("#[reduce(upsert)] a: Vec<T>", key);
    check_field_error("#[reduce(upsert())] a: Vec<T>", key);
    check_field_error("#[reduce(upsert(id, n))] a: Vec<T>", key);
    check_field_error("#[reduce(upsert(id(3)))] a: Vec<T>", key);
    check_field_error("#[reduce(upsert(id))] a: T", "`upsert` needs a field of type `Vec<Item>`");
}

#[test]
fn invalid_options_are_rejected() {
    let all = "the options of a field are `input`, `output`, `private` and `rename = \"name\"`";
    check_field_error(
        "#[state(inptu)] a: T",
        &format!("unknown option `inptu` (did you mean `input`?); {all}"),
    );
    check_field_error("#[state] a: T", "`#[state]` needs an argument, as in `#[state(private)]`");
    check_field_error("#[state(input = true)] a: T", "`input` takes no value; write just `input`");
    check_field_error(
        "#[state(rename = a)] a: T",
        "`rename` needs a string, as in `rename = \"name\"`",
    );
    check_field_error("#[state(input, input)] a: T", "`input` is set twice; remove one of them");
    check_field_error(
        "#[state(input)] #[state(private)] a: T",
        "a private field cannot be `input` or `output`; remove one of the options",
    );
    check_field_error(
        "a: T, #[state(rename = \"a\")] b: T",
        "another field is already named `a`; rename one of them",
    );
}

#[test]
fn all_errors_are_reported() {
    check_errors(
        "struct Essay { #[reduce(min, max)] a: T, #[state(input = 1)] b: T }",
        &[
            "`input` takes no value; write just `input`",
            "a field can have only one reducer; remove this one or the previous one",
        ],
    );
}
