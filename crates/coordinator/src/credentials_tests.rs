//! Token files, right and wrong.

use super::*;

fn read(text: &str) -> Result<Credentials, Vec<String>> {
    let mut credentials = Credentials::default();
    let told = |problem: &Problem| problem.in_file(Path::new("tokens.conf"));
    match credentials.add(text.as_bytes()) {
        Ok(()) => Ok(credentials),
        Err(problems) => Err(problems.iter().map(told).collect()),
    }
}

fn entry(name: &str, role: Role, token: &str) -> String {
    Entry::of(name, role, token).unwrap().to_string()
}

#[test]
fn a_token_is_known_by_its_hash_alone() {
    // Of "abc", from FIPS 180-2, appendix B.1.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let text = format!(
        "tokens = [{{ name = \"on-call\", role = \"operator\", sha256 = \"{abc}\" }},
           {{ name = dashboard, role = reader, sha256 = \"{}\" }}]",
        abc.to_uppercase().replace('B', "C")
    );
    let credentials = read(&text).unwrap();
    let holder = credentials.holder("abc").unwrap();
    assert_eq!(
        (holder.name(), holder.role(), holder.sha256()),
        ("on-call", Role::Operator, abc.into())
    );
    for stranger in ["", "ab", "abcd", "abc ", "ABC", abc] {
        assert_eq!(credentials.holder(stranger), None, "{stranger}");
    }
}

#[test]
fn what_is_written_for_a_token_is_what_is_read() {
    let lines: Vec<String> = Role::ALL
        .into_iter()
        .map(|role| entry(&format!("the.{role}_1-a"), role, &format!("secret of {role}")))
        .collect();
    let credentials = read(&format!("tokens = [\n{}\n]", lines.join("\n"))).unwrap();
    for role in Role::ALL {
        assert_eq!(Role::named(role.name()), Some(role));
        let holder = credentials.holder(&format!("secret of {role}")).unwrap();
        assert_eq!((holder.name(), holder.role()), (format!("the.{role}_1-a").as_str(), role));
    }
}

#[test]
fn every_problem_of_a_file_is_told_with_its_place_and_key() {
    let good = entry("a", Role::Reader, "1");
    let text = format!(
        "tokens = [
  {good}
  {{ name = \"b c\", role = \"admin\", sha256 = \"12\" }}
  {{ nmae = \"d\", role = \"container\" }}
  7
  {}
  {}
  {{ name = [], role = 1, sha256 = null }}
]
token = []
",
        entry("a", Role::Operator, "2"),
        entry("e", Role::Operator, "1"),
    );
    let refused = read(&text).unwrap_err();
    let expected = [
        "tokens.conf:3:12: tokens[1].name: a token's name is 1 to 64 letters",
        "tokens.conf:3:26: tokens[1].role: expected operator, reader or member",
        "tokens.conf:3:44: tokens[1].sha256: expected the 64 hexadecimal digits",
        "tokens.conf:4:3: tokens[2].name: this key is missing",
        "tokens.conf:4:3: tokens[2].sha256: this key is missing",
        "tokens.conf:4:5: tokens[2].nmae: unknown key; expected name, role, sha256",
        "tokens.conf:4:24: tokens[2].role: expected operator, reader or member; each container is given",
        "tokens.conf:5:3: tokens[3]: expected an object",
        "tokens.conf:6:12: tokens[4].name: another token has the name \"a\"",
        "tokens.conf:7:45: tokens[5].sha256: another name has this token",
        "tokens.conf:8:12: tokens[6].name: expected a string, found a list",
        "tokens.conf:8:23: tokens[6].role: expected a string, found a number",
        "tokens.conf:8:35: tokens[6].sha256: expected a string, found null",
        "tokens.conf:10:1: token: unknown key; expected tokens",
    ];
    assert_eq!(refused.len(), expected.len(), "{refused:#?}");
    for (refused, expected) in refused.iter().zip(expected) {
        assert!(refused.starts_with(expected), "{refused}\n{expected}");
    }
}

#[test]
fn a_file_without_tokens_lets_nobody_in_and_is_refused() {
    for (text, place) in [
        ("", "1:1"),
        ("# nothing", "1:1"),
        ("tokens = []", "1:10"),
        ("tokens = \"none\"", "1:10"),
        ("tokens = [", "1:10"),
        ("tokens = ${TOKENS}", "1:10"),
    ] {
        let refused = read(text).unwrap_err();
        assert!(refused[0].starts_with(&format!("tokens.conf:{place}: ")), "{text}: {refused:?}");
    }
}

#[test]
fn a_token_in_the_place_of_its_hash_is_not_repeated_in_the_message() {
    let text = "tokens = [{ name = \"a\", role = \"s3cret\", sha256 = \"s3cret\" }, \"s3cret\"]";
    let refused = read(text).unwrap_err();
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(refused.iter().all(|problem| !problem.contains("s3cret")), "{refused:?}");
}

#[test]
fn files_are_added_up_and_named_where_one_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let list = |entry: String| format!("tokens = [{entry}]");
    let first = file("first.conf", &list(entry("a", Role::Operator, "1")));
    let second = file("second.conf", &list(entry("b", Role::Member, "2")));
    let both = Credentials::load([&first, &second]).unwrap();
    assert_eq!(both.holder("1").map(Entry::role), Some(Role::Operator));
    assert_eq!(both.holder("2").map(Entry::role), Some(Role::Member));

    let again = file("again.conf", &list(entry("a", Role::Reader, "3")));
    let refused = Credentials::load([&first, &again]).unwrap_err().to_string();
    let place = format!("{}:1:20: tokens[0].name: ", again.display());
    assert!(refused.contains(&place), "{refused}");
    let missing = folder.path().join("missing.conf");
    let refused = Credentials::load([&missing]).unwrap_err().to_string();
    assert!(refused.contains(&missing.display().to_string()), "{refused}");
}
