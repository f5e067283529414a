//! What fills a `${…}`, and what cannot.

mod common;

use common::{json, json_with, problem, problems, resolve};

#[test]
fn a_substitution_takes_a_key_of_the_document_wherever_it_stands() {
    assert_eq!(
        json("a = ${b}, b = 1, c = ${d.e}, d.e = [x]"),
        r#"{"a":1,"b":1,"c":["x"],"d":{"e":["x"]}}"#
    );
    assert_eq!(json("a = ${\"b.c\".d}, \"b.c\" { d = null }"), r#"{"a":null,"b.c":{"d":null}}"#);
    assert_eq!(json("n = 1.50, m = ${n}, t = ${n}s"), r#"{"n":1.50,"m":1.50,"t":"1.50s"}"#);
    assert_eq!(json("l = [${ a }, ${a}${a}, ${a} 2], a = 1"), r#"{"l":[1,"11","1 2"],"a":1}"#);
}

#[test]
fn else_it_takes_a_variable_by_its_whole_name() {
    let variables = [("INPUT", "/in"), ("a.b", "dotted"), ("UNUSED", "u")];
    let resolved = resolve("x = ${INPUT}\"/y\", z = ${a.b}", &variables).expect("valid");
    assert_eq!(resolved.root.to_json(), r#"{"x":"/in/y","z":"dotted"}"#);
    assert_eq!(resolved.used.iter().collect::<Vec<_>>(), ["INPUT", "a.b"]);

    let resolved = resolve("INPUT = own, x = ${INPUT}", &variables).expect("valid");
    assert_eq!(resolved.root.to_json(), r#"{"INPUT":"own","x":"own"}"#);
    assert!(resolved.used.is_empty(), "the document's own key goes first");
}

#[test]
fn a_variable_is_text_and_is_not_parsed() {
    assert_eq!(
        json_with("a = ${V}, b = x${V}", &[("V", "{\"x\": ${y}}\n#")]),
        "{\"a\":\"{\\\"x\\\": ${y}}\\n#\",\"b\":\"x{\\\"x\\\": ${y}}\\n#\"}"
    );
}

#[test]
fn the_environment_is_not_asked() {
    assert!(
        problem("a = ${PATH}")
            .starts_with("line 1, column 5: a: nothing to put in place of ${PATH}")
    );
}

#[test]
fn all_missing_substitutions_come_back_in_one_answer() {
    let said = problems(
        "p = [{ t = [\n  { c = [x, ${IN}] }, ${OUT}] }]\nq.r = ${b.c}\"x\"\nb = 1\ns = ${q.r}",
    );
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(
        said[0].starts_with("line 2, column 13: p[0].t[0].c[1]: nothing to put in place of ${IN}:")
    );
    assert!(
        said[1].starts_with("line 2, column 23: p[0].t[1]: nothing to put in place of ${OUT}:")
    );
    assert!(said[2].starts_with("line 3, column 7: q.r: nothing to put in place of ${b.c}:"));
}

#[test]
fn an_optional_substitution_without_a_value_is_nothing() {
    assert_eq!(json("a = ${?X}, b = 1"), r#"{"b":1}"#);
    assert_eq!(json("a = 1, a = ${?X}"), r#"{"a":1}"#);
    assert_eq!(json("a = [${?X}, 1]"), r#"{"a":[1]}"#);
    assert_eq!(
        json("a = ${?X}y, b = x ${?X}, c = ${?X}${?Y}, d = ${?X} ${?Y}"),
        r#"{"a":"y","b":"x "}"#
    );
    assert_eq!(json("a = [1]${?X}, b = ${?X} {c = 2}"), r#"{"a":[1],"b":{"c":2}}"#);
    assert_eq!(json_with("a = ${?X}", &[("X", "")]), r#"{"a":""}"#);
}

#[test]
fn what_a_later_value_hides_is_not_asked_for() {
    assert_eq!(json("a = ${X}, a = 1"), r#"{"a":1}"#);
    assert_eq!(json("a = {b = ${X}}, a = {b = 1}"), r#"{"a":{"b":1}}"#);
    assert_eq!(json("bar = ${foo}, foo = ${bar}, foo = 2"), r#"{"bar":2,"foo":2}"#);
}

#[test]
fn a_key_looks_back_at_what_it_held() {
    assert_eq!(json("p = /bin\np = ${p}\":/usr\"\np = ${p}\":x\""), r#"{"p":"/bin:/usr:x"}"#);
    assert_eq!(json("l = [1]\nl = [0] ${l}\nl += 2"), r#"{"l":[0,1,2]}"#);
    assert_eq!(json("a = ${?a}x"), r#"{"a":"x"}"#);
    assert_eq!(json("a { b = 1 }\na.b = ${a.b}2\na { b = ${a.b}3 }"), r#"{"a":{"b":"123"}}"#);
    assert_eq!(
        json("foo { a { c = 1 } }\nfoo = ${foo.a}\nfoo { a = 2 }"),
        r#"{"foo":{"a":2,"c":1}}"#
    );
    assert_eq!(json("a = {x = 1}\na = {y = 1} ${a} {x = 5}"), r#"{"a":{"y":1,"x":5}}"#);
    assert_eq!(json_with("HOME = ${HOME}/x", &[("HOME", "/h")]), r#"{"HOME":"/h/x"}"#);
    assert!(problem("a = ${a}").contains("nothing to put in place of ${a}"));
}

#[test]
fn objects_merge_with_what_a_substitution_brings() {
    let base = "base { l = [1], x = 1, o { p = 1 } }\n";
    let cases = [
        ("a = ${base}\na { x = 2, o.q = 3 }", r#"{"l":[1],"x":2,"o":{"p":1,"q":3}}"#),
        ("a = ${base} { x = 2 }", r#"{"l":[1],"x":2,"o":{"p":1}}"#),
        ("a = { x = 2 } ${base}", r#"{"x":1,"l":[1],"o":{"p":1}}"#),
        ("a = ${base}\na { l += 2 }", r#"{"l":[1,2],"x":1,"o":{"p":1}}"#),
        ("a = ${base} { l += 2, y = ${a.x} }", r#"{"l":[1,2],"x":1,"o":{"p":1},"y":1}"#),
        ("a = ${base}\na { x = ${a.x}b }", r#"{"l":[1],"x":"1b","o":{"p":1}}"#),
        ("a = {z = 0}\na = ${n}\na { x = 1 }\nn = 5", r#"{"x":1}"#),
        ("a = ${base} { l += 2 } { l = ${a.l} [3] }", r#"{"l":[1,2,3],"x":1,"o":{"p":1}}"#),
    ];
    for (text, expected) in cases {
        let resolved = resolve(&format!("{base}{text}"), &[]).expect(text);
        assert_eq!(resolved.root.get("a").expect(text).to_json(), expected, "{text}");
    }
}

#[test]
fn a_variable_in_the_place_of_an_object_hides_it() {
    let text = "a = {x = 1}\na = ${V}\nb = ${?a.x}";
    assert_eq!(json_with(text, &[("V", "text")]), r#"{"a":"text"}"#);
}

#[test]
fn keys_of_one_object_may_refer_to_each_other() {
    assert_eq!(
        json("bar { foo = 42, baz = ${bar.foo} }\nbar { foo = 43 }"),
        r#"{"bar":{"foo":43,"baz":43}}"#
    );
    assert_eq!(
        json("bar { a = ${foo.d}, b = 1 }\nbar.b = 3\nfoo { c = ${bar.b}, d = 2 }\nfoo.d = 4"),
        r#"{"bar":{"a":4,"b":3},"foo":{"c":3,"d":4}}"#
    );
}

#[test]
fn cycles_are_refused_once_each() {
    let cycle = "this substitution leads back to itself: ";
    assert_eq!(
        problem("a = ${b}\nb = ${c}\nc = ${a}"),
        format!("line 1, column 5: {cycle}${{b}} → ${{c}} → ${{a}} → ${{b}}")
    );
    assert_eq!(problem("a = [${a}]"), format!("line 1, column 6: {cycle}${{a}} → ${{a}}"));
    assert_eq!(problem("a { b = ${a} }"), format!("line 1, column 9: {cycle}${{a}} → ${{a}}"));
    assert_eq!(problem("a { b = ${?a} }"), format!("line 1, column 9: {cycle}${{a}} → ${{a}}"));
    assert!(
        problem("a = 1, b = 2, a = ${b}, b = ${a}").contains(cycle),
        "only an order would decide"
    );
    assert_eq!(problems("a = ${b}, b = ${a}, c = [${c}]").len(), 2);
    // A path that grows with every turn is no return to the same place, but does not run on either.
    assert!(problem("a = ${b.x}, b = ${a.x}").contains("too deep to follow"));
}

#[test]
fn what_cannot_be_joined_is_said_once_and_where_it_stands() {
    assert_eq!(
        problem("a = ${b} {x = 1}\nb = 5"),
        "line 1, column 10: a: an object cannot be joined to a number"
    );
    assert_eq!(
        problem("b = [1], a = x${b}, c = ${a}"),
        "line 1, column 15: a: a list cannot be joined to a string"
    );
    assert_eq!(problem("a += 1, b = [${V}[]], V = x, a = 1").lines().count(), 1);
}

#[test]
fn a_substituted_value_stands_where_it_is_used() {
    let resolved = resolve("a = 1\nb = ${a}\nc = ${V}", &[("V", "x")]).expect("valid");
    let places: Vec<_> =
        resolved.root.iter().map(|(_, _, value)| (value.at.line, value.substituted)).collect();
    assert_eq!(places, [(1, false), (2, false), (3, true)]);
}
