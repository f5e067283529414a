//! Hostile sizes: every document ends soon, on a small stack, with an answer.

mod common;

use common::{json, problem, problems, resolve};

/// The greatest nesting that is allowed, counting the document itself.
const NESTING: usize = 64;

#[test]
fn nesting_is_bounded_and_brackets_are_all_counted() {
    let lists = |depth: usize| format!("a = {}{}", "[".repeat(depth), "]".repeat(depth));
    json(&lists(NESTING - 1));
    assert_eq!(
        problem(&lists(NESTING)),
        format!(
            "line 1, column {}: a{}: objects and lists nest at most 64 deep",
            4 + NESTING,
            "[0]".repeat(NESTING - 1)
        )
    );
    assert!(problem(&lists(NESTING + 1)).contains("nest at most 64 deep"));
    assert!(problem(&format!("a = {}", "[".repeat(500_000))).contains("nest at most 64 deep"));
    assert!(problem(&format!("a {}", "{a ".repeat(300_000))).contains("nest at most 64 deep"));
    let path = |parts: usize| format!("{} = 1", vec!["a"; parts].join("."));
    json(&path(NESTING));
    assert!(problem(&path(NESTING + 1)).contains("at most 64 parts"));
    assert!(
        problem(&format!("x = [[{{{}}}]]", path(NESTING - 2))).contains("nest at most 64 deep")
    );
    json(&format!("x = [[{{{}}}]]", path(NESTING - 3)));
    assert!(
        problem(&format!("a = ${{{}}}", vec!["a"; 100_000].join("."))).contains("at most 64 parts")
    );
}

#[test]
fn size_is_bounded() {
    let padded = |size: usize| format!("a = 1 #{}", "x".repeat(size - 7));
    json(&padded(1024 * 1024));
    assert!(
        problem(&padded(1024 * 1024 + 1)).starts_with("line 1, column 1: the file is too large")
    );
}

#[test]
fn a_document_that_doubles_itself_is_refused() {
    let mut lists = "a0 = [x, x, x, x, x, x, x, x]\n".to_owned();
    let mut texts = "t0 = xxxxxxxxxxxxxxxx\n".to_owned();
    for n in 1..40 {
        lists += &format!("a{n} = ${{a{}}} ${{a{}}}\n", n - 1, n - 1);
        texts += &format!("t{n} = ${{t{}}}${{t{}}}\n", n - 1, n - 1);
    }
    assert!(problem(&lists).contains("more than 250000 values"));
    assert!(problem(&texts).contains("more than"));
    let wide = format!("big = \"{}\"\nl = [{}]", "x".repeat(100_000), "${big},".repeat(50));
    assert!(problem(&wide).contains("more than 4194304 bytes"));
    let mut back = "a = {x = 1}\n".to_owned();
    for n in 0..20 {
        back += &format!("a = ${{a}} {{ k{n} = 1 }}\n");
    }
    assert!(json(&back).contains("\"k19\":1"), "looking back twenty times is no doubling");
}

#[test]
fn substitution_does_not_nest_beyond_the_bound() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let text = |outer: usize| {
        format!("a = {}\nb = {}${{a}}{}", deep(40), "[".repeat(outer), "]".repeat(outer))
    };
    json(&text(23));
    assert!(problem(&text(24)).contains("nests more than 64 deep"));
}

#[test]
fn long_chains_end() {
    let chain = |links: usize| -> String {
        let lines = (0..links).map(|n| format!("a{n} = ${{a{}}}\n", n + 1));
        lines.collect::<String>() + &format!("a{links} = 1")
    };
    json(&chain(100));
    assert!(problem(&chain(30_000)).contains("too deep to follow"));
    let back = format!("a = x\n{}", "a = ${a}y\n".repeat(30_000));
    assert!(problem(&back).contains("too deep to follow"));
    let appended = format!("a = ${{b}}\nb = []\n{}", "a += x\n".repeat(30_000));
    assert_eq!(
        resolve(&appended, &[])
            .expect("valid")
            .root
            .get("a")
            .and_then(|a| a.as_array())
            .map(<[_]>::len),
        Some(30_000)
    );
}

#[test]
fn many_keys_and_layers_do_not_cost_their_square() {
    let keys: String = (0..60_000).map(|n| format!("k{n}=1\n")).collect();
    assert_eq!(resolve(&keys, &[]).expect("valid").root.len(), 60_000);
    let layers: String = (0..20_000).map(|n| format!("a={{k{n}=1}}\na=${{?x}}\n")).collect();
    let resolved = resolve(&layers, &[]).expect("valid");
    assert_eq!(resolved.root.get("a").and_then(|a| a.as_object()).map(|a| a.len()), Some(20_000));
}

#[test]
fn problems_are_bounded() {
    assert_eq!(problems(&"= 1\n".repeat(10_000)).len(), 100);
    assert_eq!(problems(&"a = \"\\q\"\n".repeat(10_000)).len(), 100);
    let missing: String = (0..10_000).map(|n| format!("k{n} = ${{x{n}}}\n")).collect();
    assert_eq!(problems(&missing).len(), 100);
}

#[test]
fn the_deepest_document_fits_a_small_stack() {
    // The deepest recursion there is: long paths through deep objects that lead to further ones.
    let path = |name: &str| format!("{name}{}", ".a".repeat(60));
    let text: String = (0..20)
        .map(|n| format!("{} = ${{{}}}\n", path(&format!("k{n}")), path(&format!("k{}", n + 1))))
        .collect();
    let small = std::thread::Builder::new().stack_size(1024 * 1024);
    let checked = small.spawn(move || {
        assert!(problem(&text).contains("too deep to follow"));
        problems(&format!("a = {}", "[{a=".repeat(31)));
        json(&format!("a = {}{}", "[".repeat(63), "]".repeat(63)));
    });
    checked.expect("a thread").join().expect("no overflow");
}
