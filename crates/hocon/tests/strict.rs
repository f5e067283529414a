//! Every byte counts: what is refused, where it is said to be, and in which words.

mod common;

use common::{json, problem, problems};
use steadfast_hocon::{Position, Problem, parse};

fn refused(bytes: &[u8]) -> Problem {
    let mut problems = parse(bytes).expect_err("has to be refused");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

#[test]
fn an_empty_file_is_refused_and_an_empty_document_is_not() {
    for empty in ["", " ", "\n\t\r\n  \n", "\u{feff}", "\u{feff} \n"] {
        assert_eq!(problem(empty), "line 1, column 1: the file is empty", "{empty:?}");
    }
    for document in ["{}", "# nothing is set\n", "{\n}\n// end", "\u{feff}{}"] {
        assert_eq!(json(document), "{}", "{document:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_stand() {
    let nul = refused(b"a = 1\nb = x\0y");
    assert_eq!(nul.at, Position { line: 2, column: 6 });
    assert!(nul.message.contains("NUL"), "{nul}");

    let broken = refused(b"a = \"\xc3\xa9\xff\"");
    assert_eq!(broken.at, Position { line: 1, column: 7 });
    assert!(broken.message.contains("not UTF-8"), "{broken}");

    let cut = refused(b"a = \xe2\x82");
    assert_eq!(cut.at, Position { line: 1, column: 5 });

    assert_eq!(
        problem("a = \u{1b}[0m"),
        "line 1, column 5: a control character: write it as \\u001b inside double quotes"
    );
    assert!(problem("a = 1\rb = 2").starts_with("line 1, column 6: a carriage return without"));
    assert!(problem("a = 1\n\u{feff}b = 2").starts_with("line 2, column 1: a byte order mark"));
}

#[test]
fn a_missing_closer_names_its_opener() {
    let cases = [
        ("a {\n  b = 1\n", "line 1, column 3: this `{` is not closed before the end of the text"),
        ("{\n  b = 1\n", "line 1, column 1: this `{` is not closed before the end of the text"),
        ("a = [1,\n2", "line 1, column 5: this `[` is not closed before the end of the text"),
        ("x = 1\na = \"b\nc = 2", "line 2, column 5: this `\"` is not closed on its line"),
        ("a = \"b", "line 1, column 5: this `\"` is not closed on its line"),
        (
            "a = \"\"\"b\n\"\"",
            "line 1, column 5: this `\"\"\"` is not closed before the end of the text",
        ),
        ("a = ${b\n}", "line 1, column 5: this `${` is not closed by a `}` on its line"),
        ("a = ${b", "line 1, column 5: this `${` is not closed by a `}` on its line"),
    ];
    for (text, expected) in cases {
        assert_eq!(problem(text), expected, "{text:?}");
    }
    let both = problems("a {\n  b = [1\n");
    assert_eq!(
        both,
        [
            "line 1, column 3: this `{` is not closed before the end of the text",
            "line 2, column 7: this `[` is not closed before the end of the text",
        ]
    );
}

#[test]
fn a_closer_has_to_match_its_opener() {
    assert_eq!(problem("a = 1}"), "line 1, column 6: `}` closes nothing");
    assert_eq!(
        problem("a {\n b = [1}\n]"),
        "line 2, column 8: `}` does not close the `[` of line 2, column 6"
    );
    assert_eq!(problem("{a = 1}\n]"), "line 2, column 1: `]` closes nothing");
}

#[test]
fn nothing_may_follow_the_closing_brace_of_the_document() {
    assert_eq!(
        problem("{a = 1}\nb = 2"),
        "line 2, column 1: expected nothing after the document's closing `}`, found `b`"
    );
    assert!(problem("{a = 1} {b = 2}").starts_with("line 1, column 9: expected nothing after"));
    assert_eq!(json("{a = 1} # end\n// end\n"), r#"{"a":1}"#);
}

#[test]
fn a_document_is_an_object() {
    assert_eq!(problem("[1, 2]"), "line 1, column 1: a document is an object, not a list");
    assert!(
        problem("justaword").starts_with("line 1, column 10: justaword: expected `=`, `:` or `{`")
    );
    assert!(
        problem("\"quoted\"").starts_with("line 1, column 9: quoted: expected `=`, `:` or `{`")
    );
}

#[test]
fn entries_need_one_separator() {
    let cases = [
        ("a = 1 b = 2", "line 1, column 9: a: expected a comma or a new line (put"),
        ("a = http://x", "line 1, column 9: a: expected a comma or a new line (put"),
        ("a = 1,, b = 2", "line 1, column 7: expected a key, found `,`"),
        (", a = 1", "line 1, column 1: expected a key, found `,`"),
        ("a = [1,,2]", "line 1, column 8: a[1]: expected a value, found `,`"),
        ("a = [,1]", "line 1, column 6: a[0]: expected a value, found `,`"),
        ("a = [1,,]", "line 1, column 8: a[1]: expected a value, found `,`"),
        ("a = [b: 1]", "line 1, column 7: a[0]: expected a comma or a new line (put"),
        ("a {b = 1,,}", "line 1, column 10: a: expected a key, found `,`"),
    ];
    for (text, expected) in cases {
        assert!(problem(text).starts_with(expected), "{text:?}: {}", problem(text));
    }
    assert_eq!(json("a = [1,2,], b {c = 1,},"), r#"{"a":[1,2],"b":{"c":1}}"#);
    assert_eq!(json("a = [1\n,2\n\n3], b = 4\n,c = 5"), r#"{"a":[1,2,3],"b":4,"c":5}"#);
}

#[test]
fn a_key_needs_a_value() {
    assert_eq!(problem("a ="), "line 1, column 4: a: expected a value, found the end of the text");
    assert_eq!(problem("a = , b = 1"), "line 1, column 5: a: expected a value, found `,`");
    assert_eq!(problem("x { a = }"), "line 1, column 9: x.a: expected a value, found `}`");
    assert!(problem("name \"x\"\n").contains("expected `=`, `:` or `{` after the key"));
    assert!(problem("= 1").starts_with("line 1, column 1: expected a key, found `=`"));
    assert!(problem("a += ").starts_with("line 1, column 6: a: expected a value"));
}

#[test]
fn reserved_characters_need_quotes() {
    for c in "^?!@*&`\\".chars() {
        let expected = format!("line 1, column 6: `{c}` may only stand inside double quotes");
        assert_eq!(problem(&format!("a = x{c}y")), expected);
    }
    assert!(problem("a = 1+2").starts_with("line 1, column 6: `+` may only"));
    assert!(problem("a = $x").contains("a substitution is written ${name}"));
    assert!(problem("a = ${b//c}").starts_with("line 1, column 8: `//` may only"));
    assert!(problem("a = ${b#c}").starts_with("line 1, column 8: `#` may only"));
    assert!(problem("a+b = 1").starts_with("line 1, column 2: `+` may only"));
}

#[test]
fn escapes_are_jsons() {
    assert!(problem(r#"a = "x\y""#).starts_with(r"line 1, column 7: `\y` is no escape"));
    assert_eq!(problem(r#"a = "\u12g4""#), r"line 1, column 6: \u needs four hexadecimal digits");
    let both = problems(r#"a = "\u12"#);
    assert!(both.len() == 2 && both[1].contains("four hexadecimal digits"), "{both:?}");
    for lone in [r#"a = "\ud800""#, r#"a = "\udc00""#, r#"a = "\ud800A""#] {
        assert!(problem(lone).contains("surrogate"), "{lone}");
    }
    assert_eq!(
        problem("a = \"x\ty\""),
        "line 1, column 7: a tab inside double quotes: write it as \\t"
    );
    assert_eq!(problem("a = \"é\\q\""), problem("a = \"e\\q\""), "columns count characters");
}

#[test]
fn paths_are_complete() {
    assert!(problem("a. = 1").contains("must not end with a dot"));
    assert!(problem(".a = 1").starts_with("line 1, column 1: a part of the path is missing"));
    assert!(problem("é..a = 1").starts_with("line 1, column 3: a part of the path is missing"));
    assert!(problem("a . b = 1").starts_with("line 1, column 3: blanks beside the dot"));
    assert!(problem("a. b = 1").starts_with("line 1, column 3: blanks beside the dot"));
    assert!(problem("a = ${}").starts_with("line 1, column 5: a substitution needs a name"));
    assert!(problem("a = ${ }").starts_with("line 1, column 5: a substitution needs a name"));
    assert!(problem("a = ${b.}").contains("must not end with a dot"));
    assert!(problem("a = ${b[]}").starts_with("line 1, column 8: `[` may only"));
    assert!(problem("${a} = 1").contains("a substitution cannot be part of a key"));
    assert!(problem("a${b} = 1").starts_with("line 1, column 2: a substitution cannot"));
}

#[test]
fn include_is_refused_and_words_like_it_are_not() {
    for text in ["include \"x.conf\"", "include = 1", "include required(file(\"x\"))"] {
        let said = problems(text);
        assert!(said[0].starts_with("line 1, column 1: `include` is not supported"), "{said:?}");
    }
    assert!(problems("a {\n  include \"x\"\n}")[0].starts_with("line 2, column 3: a: `include`"));
    assert_eq!(
        json("includes = 1, include_x = 2, \"include\" = 3, include.x = 4, an include = include"),
        r#"{"includes":1,"include_x":2,"include":{"x":4},"an include":"include"}"#
    );
}

#[test]
fn several_mistakes_come_back_in_one_answer() {
    let text = "a =\nb = = 1\nc { d e\n f = [1,,2]\n g.h = 3 }\ni = 1 {}\nj = 5\nk += [] x";
    let said = problems(text);
    let beginnings = [
        "line 1, column 3: a: expected a value here, found another key on the next line",
        "line 2, column 5: b: expected a value, found `=`",
        "line 3, column 8: c.\"d e\": expected `=`, `:` or `{` after the key, found the end of the line",
        "line 4, column 9: c.f[1]: expected a value, found `,`",
        "line 6, column 7: i: an object cannot be joined to a text",
        "line 8, column 9: k: a text cannot be joined to a list",
    ];
    assert_eq!(said, beginnings);
}

#[test]
fn problems_inside_strings_do_not_hide_each_other() {
    let said = problems("a = \"\\q\"\nb = \"x\nc = @\n");
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].starts_with("line 1, column 6"));
    assert!(said[1].starts_with("line 2, column 5"));
    assert!(said[2].starts_with("line 3, column 5"));
}
