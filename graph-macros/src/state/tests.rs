use quote::ToTokens;

use super::{
    check::{Reducer, State},
    *,
};

/// The state that the code means, and the mistakes in it.
fn state(code: &str) -> (State, Vec<String>) {
    let mut mistakes = Mistakes::default();
    let written = parse::parse(syn::parse_str(code).unwrap(), &mut mistakes);
    let state = check::check(written, &mut mistakes);
    (state, mistakes.messages())
}

/// Checks what each field of a correct struct means.
#[track_caller]
fn means(fields: &str, expect: &[&str]) {
    let (state, mistakes) = state(&format!("struct Essay {{ {fields} }}"));
    assert_eq!(mistakes, [""; 0]);
    let shown = state.fields.iter().map(|it| {
        let reducer = match &it.reducer {
            Reducer::Known(name) => name.to_string(),
            Reducer::Own(path) => format!("own {}", path.to_token_stream()),
            Reducer::With(path) => format!("with {}", path.to_token_stream()),
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

/// Checks how a mistake is put, and that the code written after it is still Rust.
#[track_caller]
fn fails(code: &str, expect: &[&str]) {
    assert_eq!(state(code).1, expect);
    let code = derive(syn::parse_str(code).unwrap());
    syn::parse2::<syn::File>(code).unwrap();
}

#[track_caller]
fn field_fails(field: &str, expect: &str) {
    fails(&format!("struct Essay {{ {field} }}"), &[expect]);
}

#[test]
fn every_reducer_is_understood() {
    means("a: T", &["a: Last, Kept in out"]);
    means("#[reduce(append)] a: Vec<T>", &["a: Append, Kept in out"]);
    means("#[reduce(add)] a: T", &["a: Add, Kept in out"]);
    means(
        "#[reduce(max)] a: T, #[reduce(min)] b: T",
        &["a: Max, Kept in out", "b: Min, Kept in out"],
    );
    means("#[reduce(merge)] a: T", &["a: Merge, Kept in out"]);
    means("#[reduce(any)] a: T", &["a: Any, Step in out"]);
    means("#[reduce(ephemeral)] a: T", &["a: Last, Step in out"]);
    means("#[reduce(untracked)] a: T", &["a: Last, Run in out"]);
    means("#[reduce(topic)] a: Vec<T>", &["a: Topic, Step in out"]);
    means("#[reduce(topic(keep))] a: Vec<T>", &["a: Append, Kept in out"]);
    means("#[reduce(with = path::to::f)] a: T", &["a: with path :: to :: f, Kept in out"]);
    means("#[reduce(Longest)] a: T", &["a: own Longest, Kept in out"]);
    means("#[reduce(text::longest)] a: T", &["a: own text :: longest, Kept in out"]);
    means("#[reduce(Window<3>,)] a: T", &["a: own Window < 3 >, Kept in out"]);
}

#[test]
fn every_key_is_understood() {
    let string = ":: std :: string :: String";
    means(
        "#[reduce(upsert(id))] a: std::vec::Vec<T>",
        &[&format!("a: upsert T by id: {string}, Kept in out")],
    );
    means("#[reduce(upsert(id: u64))] a: Vec<T>", &["a: upsert T by id: u64, Kept in out"]);
    means(
        "#[reduce(upsert(meta.0.id(): Id<T>))] a: Vec<T>",
        &["a: upsert T by meta . 0 . id (): Id < T >, Kept in out"],
    );
}

#[test]
fn marks_decide_what_is_seen() {
    means("#[state(private)] a: T, b: T", &["a: Last, Kept", "b: Last, Kept in out"]);
    means("#[state(input)] a: T, b: T", &["a: Last, Kept in out", "b: Last, Kept out"]);
    means(
        "#[state(input)] a: T, #[state(output)] b: T, #[state(input, output)] c: T, #[state(private)] d: T",
        &["a: Last, Kept in", "b: Last, Kept out", "c: Last, Kept in out", "d: Last, Kept"],
    );
}

#[test]
fn names_are_those_of_the_fields_unless_renamed() {
    means(
        "r#type: T, #[state(rename = \"new\")] old: T",
        &["type: Last, Kept in out", "new: Last, Kept in out"],
    );
}

#[test]
fn the_version_stands_on_the_struct() {
    assert_eq!(state("#[state(version = 3)] struct Essay;").0.version, Some(3));
    assert_eq!(state("struct Essay {}").0.version, None);
    fails("#[state(version = \"3\")] struct Essay;", &["write a whole number: `version = 2`"]);
    fails(
        "#[state(version = 1, version = 2)] struct Essay;",
        &["`version` stands here twice: drop one of them"],
    );
    fails(
        "#[state(verson = 1)] struct Essay;",
        &["`verson` is unknown (did you mean `version`?): a struct can have `version = 2`"],
    );
    field_fails("#[state(version = 1)] a: T", "`version` belongs on the struct");
}

#[test]
fn wrong_shapes_say_what_a_state_is() {
    fails("enum E { A }", &["a state is a struct: put the enum into a field of one"]);
    fails("union U { a: u8 }", &["a state is a struct: write `struct` instead of `union`"]);
    fails(
        "struct Essay(String);",
        &["a state's fields need names: `struct Essay { field: Type }`"],
    );
    fails(
        "struct Essay<'a> { a: &'a str }",
        &["a state owns its values: replace what is borrowed for `'a`"],
    );
    fails(
        "struct Essay<T> { a: T }",
        &[
            "say what a field's type must be: `T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static`",
        ],
    );
    fails("struct Essay<T: Item, U, const N: usize> where U: Item { a: T, b: U }", &[]);
    fails("#[reduce(append)] struct Essay;", &["`#[reduce(..)]` belongs on a field"]);
    fails("#[state(input)] struct Essay;", &["`input` belongs on a field"]);
}

#[test]
fn wrong_reducers_say_what_to_write() {
    let all = "write `add`, `any`, `append`, `ephemeral`, `max`, `merge`, `min`, `topic`, `topic(keep)`, \
         `untracked`, `upsert(key)`, `with = function`, or a type that implements `Reducer`";
    field_fails(
        "#[reduce(appendd)] a: T",
        &format!("`appendd` is unknown (did you mean `append`?): {all}"),
    );
    field_fails("#[reduce(frobnicate)] a: T", &format!("`frobnicate` is unknown: {all}"));
    field_fails("#[reduce] a: T", "write what is meant: `#[reduce(append)]`");
    field_fails("#[reduce()] a: T", "write what is meant: `#[reduce(append)]`");
    field_fails("#[reduce(\"add\")] a: T", "expected `word`, `word = value` or `word(..)`");
    let one = "a field has one reducer: drop this one or the one before";
    field_fails("#[reduce(add, max)] a: T", one);
    field_fails("#[reduce(add)] #[reduce(max)] a: T", one);
    let alone = "this reducer stands alone: drop what follows its name";
    field_fails("#[reduce(add(1))] a: T", alone);
    field_fails("#[reduce(Longest = 1)] a: T", alone);
    let topic = "write `topic`, or `topic(keep)` to keep the items of earlier steps";
    field_fails("#[reduce(topic(all))] a: T", topic);
    let with = "name a function `fn(&mut T, T)`: `with = path::to::function`";
    field_fails("#[reduce(with)] a: T", with);
    field_fails("#[reduce(with = |a, b| a)] a: T", with);
}

#[test]
fn wrong_keys_say_what_to_write() {
    let key = "say which key the items have: `upsert(id)` for a `String`, `upsert(id: u64)` for another \
         type, `upsert(id())` for a method";
    field_fails("#[reduce(upsert)] a: Vec<T>", key);
    field_fails("#[reduce(upsert())] a: Vec<T>", key);
    field_fails("#[reduce(upsert(id, n))] a: Vec<T>", key);
    field_fails("#[reduce(upsert(id(3)))] a: Vec<T>", key);
    field_fails("#[reduce(upsert(id))] a: T", "`upsert` needs a field of type `Vec<Item>`");
}

#[test]
fn wrong_settings_say_what_to_write() {
    let all = "write `input`, `output`, `private` or `rename = \"name\"`";
    field_fails(
        "#[state(inptu)] a: T",
        &format!("`inptu` is unknown (did you mean `input`?): {all}"),
    );
    field_fails("#[state] a: T", "write what is meant: `#[state(private)]`");
    field_fails("#[state(input = true)] a: T", "write `input` alone");
    field_fails("#[state(rename = a)] a: T", "write the name in quotes: `rename = \"name\"`");
    field_fails("#[state(input, input)] a: T", "`input` stands here twice: drop one of them");
    field_fails(
        "#[state(input)] #[state(private)] a: T",
        "a private field is neither input nor output: drop one of the words",
    );
    field_fails("a: T, #[state(rename = \"a\")] b: T", "two fields are stored as `a`: rename one");
}

#[test]
fn every_mistake_is_shown() {
    fails(
        "struct Essay { #[reduce(min, max)] a: T, #[state(input = 1)] b: T }",
        &["write `input` alone", "a field has one reducer: drop this one or the one before"],
    );
}
