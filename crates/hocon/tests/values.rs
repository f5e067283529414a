//! What a well-formed document means, without substitutions.

mod common;

use common::{json, problem, resolve};
use steadfast_hocon::{Kind, Position};

#[test]
fn json_is_a_subset() {
    let text = r#"{"a":[1,2.50,-3e+5,true,false,null,"é\"\\/\n"],"b":{"c":{}},"":""}"#;
    assert_eq!(json(text), text);
    assert_eq!(json(r#"{"a":"\ud83d\ude00\u00e9\/\b\f"}"#), "{\"a\":\"😀é/\\u0008\\u000c\"}");
    assert_eq!(json("{\r\n\"a\" : [\r\n1\r\n]\r\n}\r\n"), r#"{"a":[1]}"#);
}

#[test]
fn numbers_keep_their_text_and_other_spellings_are_strings() {
    for number in
        ["0", "-0", "10", "1.50", "1e5", "1E+5", "-2.5e-3", "123456789012345678901234567890"]
    {
        assert_eq!(json(&format!("a = {number}")), format!("{{\"a\":{number}}}"));
    }
    for string in
        ["01", "-01", ".5", "1.", "-", "1e", "1.2.3", "5s", "1-2", "-x", "truely", "yes", "NaN"]
    {
        assert_eq!(json(&format!("a = {string}")), format!("{{\"a\":\"{string}\"}}"));
    }
}

#[test]
fn words_side_by_side_are_one_string() {
    let document = "a = hello  big\tworld  # comment\nb = foo \"bar  baz\" 1.0 // x\nc = 10 foo\nd = true false\ne = x\"\"\ng = c#d\nh = /x/y";
    assert_eq!(
        json(document),
        r#"{"a":"hello  big\tworld","b":"foo bar  baz 1.0","c":"10 foo","d":"true false","e":"x","g":"c","h":"/x/y"}"#
    );
}

#[test]
fn triple_quotes_are_raw() {
    assert_eq!(
        json("a = \"\"\"x\\n\n \"y\" \"\"\"\"\nb = \"\"\"\"\"\"\nc = \"\""),
        r#"{"a":"x\\n\n \"y\" \"","b":"","c":""}"#
    );
}

#[test]
fn keys_may_be_paths_quoted_or_words() {
    assert_eq!(
        json(
            "a.\"b.c\".d = 1\n\"x y\" : 2\nü = 3\nmember-tags { zone = a }\nk l = 4\n1.2 = 5\n\"\".x = 6"
        ),
        r#"{"a":{"b.c":{"d":1}},"x y":2,"ü":3,"member-tags":{"zone":"a"},"k l":4,"1":{"2":5},"":{"x":6}}"#
    );
}

#[test]
fn a_value_may_stand_on_the_next_line() {
    assert_eq!(json("a =\n 1\nb\n= 2\nc\n{ x = 1 }"), r#"{"a":1,"b":2,"c":{"x":1}}"#);
}

#[test]
fn objects_under_one_key_merge_and_anything_else_replaces() {
    assert_eq!(
        json("a {x = 1, y = 2}\na {z = 3, x = 4}\na.y = {q = 5}"),
        r#"{"a":{"x":4,"y":{"q":5},"z":3}}"#
    );
    assert_eq!(json("a {x = 1}\na = null\na {y = 2}"), r#"{"a":{"y":2}}"#);
    assert_eq!(json("a = 1\na {y = 2}\na = [3]"), r#"{"a":[3]}"#);
}

#[test]
fn lists_and_objects_side_by_side_join() {
    assert_eq!(
        json("a = [1] [2, 3]\nb = {x = 1} {y = 2, x = 3}"),
        r#"{"a":[1,2,3],"b":{"x":3,"y":2}}"#
    );
    assert_eq!(
        problem("a = [1] {x = 1}"),
        "line 1, column 9: a: an object cannot be joined to a list"
    );
    assert_eq!(problem("a = x [1]"), "line 1, column 7: a: a list cannot be joined to a text");
    // Also where a later value would hide it.
    assert_eq!(
        problem("a = {} x\na = 1"),
        "line 1, column 8: a: a text cannot be joined to an object"
    );
}

#[test]
fn append_extends() {
    assert_eq!(json("a = [1]\na += 2\na += [3]"), r#"{"a":[1,2,[3]]}"#);
    assert_eq!(json("a.b += x\na { b += y }"), r#"{"a":{"b":["x","y"]}}"#);
    assert_eq!(json("t = [{c = [a], c += b}]"), r#"{"t":[{"c":["a","b"]}]}"#);
    assert_eq!(
        problem("a = 1\na += 2"),
        "line 2, column 6: a: a list cannot be joined to a number"
    );
    assert!(problem("t = [{c += b}]").starts_with("line 1, column 12: t[0].c: `+=` inside a list"));
}

#[test]
fn order_and_places_are_kept() {
    let resolved = resolve("{\n  b = 1, a\t{ é.c = [x,\r\n y] }\n  b = 2\n}", &[]).expect("valid");
    let root: Vec<_> = resolved.root.iter().map(|(key, at, value)| (key, at, value.at)).collect();
    let at = |line, column| Position { line, column };
    assert_eq!(root, [("b", at(4, 3), at(4, 7)), ("a", at(2, 10), at(2, 12))]);
    let list = resolved.root.get_path("a.é.c").expect("is there");
    assert_eq!(list.at, at(2, 20));
    let elements: Vec<_> = list.as_array().expect("a list").iter().map(|value| value.at).collect();
    assert_eq!(elements, [at(2, 21), at(3, 2)]);
}

#[test]
fn a_byte_order_mark_takes_no_column() {
    let resolved = resolve("\u{feff}a = 1", &[]).expect("valid");
    assert_eq!(resolved.root.iter().next().map(|(_, at, _)| at), Some(Position::START));
}

#[test]
fn readers_do_not_convert_what_the_file_says() {
    let resolved =
        resolve("n = 4, f = 4.0, b = true, s = \"4\", t = \"true\", z = null", &[("X", "4")]);
    let root = resolved.expect("valid").root;
    let get = |key: &str| root.get(key).expect("is there");
    assert_eq!(
        (get("n").as_i64(), get("n").as_f64(), get("n").as_str()),
        (Some(4), Some(4.0), None)
    );
    assert_eq!((get("f").as_i64(), get("f").as_f64()), (None, Some(4.0)));
    assert_eq!((get("b").as_bool(), get("t").as_bool()), (Some(true), None));
    assert_eq!((get("s").as_i64(), get("s").as_str()), (None, Some("4")));
    assert_eq!(get("z").kind, Kind::Null);
    assert!(root.get_path("n.x").is_none() && root.get_path("").is_none());
}

#[test]
fn a_variable_is_read_as_the_type_that_its_key_needs() {
    let text =
        "n = ${N}, t = ${T}, j = ${N}0, copy = ${n}, own = \"4\", copied = ${own}, word = ${W}";
    let resolved = resolve(text, &[("N", "4"), ("T", "true"), ("W", "0x4")]).expect("valid");
    let get = |key: &str| resolved.root.get(key).expect("is there");
    assert_eq!((get("n").as_i64(), get("n").as_str()), (Some(4), Some("4")));
    assert_eq!(get("n").as_f64(), Some(4.0));
    assert_eq!(get("t").as_bool(), Some(true));
    assert_eq!((get("j").as_i64(), get("copy").as_i64()), (Some(40), Some(4)));
    assert_eq!(get("copied").as_i64(), None, "it came out of the document");
    assert_eq!(get("word").as_i64(), None);
}
