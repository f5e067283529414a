//! One file of the project as the rules look at it: its text, and for Rust the *code* in it, with
//! comments and literals blanked, so that a rule about `todo!` is not set off by a sentence or a
//! string that speaks of it (this very file would be the first to fail).
//!
//! A small scanner instead of a parser: the rules need words, braces and line numbers, and a syntax
//! tree would hide what stands inside macros.

use std::ops::Range;

/// A file of the project, by its path from the root of the checkout.
pub struct SourceFile {
    pub path: String,
    pub text: String,
    /// For Rust: `text`, byte for byte, with comments and literals turned into spaces; else empty.
    pub code: String,
}

/// A word (identifier, keyword, number) or one punctuation character of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub at: usize,
    pub text: &'a str,
}

/// A function with a body, as a range of bytes from its `fn` to its closing brace.
pub struct Function {
    pub name: String,
    pub body: Range<usize>,
}

impl SourceFile {
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { blank(&text) } else { String::new() };
        Self { path, text, code }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is test code: integration tests, and a module of tests with a file of
    /// its own.
    pub fn is_test(&self) -> bool {
        let (folders, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let named = name == "tests.rs" || name.ends_with("_tests.rs");
        named || folders.split('/').any(|folder| folder == "tests")
    }

    /// The code before the inline module of unit tests, which stands last in a file by custom.
    pub fn product_code(&self) -> &str {
        if self.is_test() {
            return "";
        }
        let tests = occurrences(&tokens(&self.code), "#[cfg(test)] mod").into_iter().find(|at| {
            // `mod tests;` names another file, and the product's code may go on after it.
            let rest = &self.code[*at..];
            rest.find('{') < rest.find(';').or(Some(usize::MAX))
        });
        &self.code[..tests.unwrap_or(self.code.len())]
    }

    /// The number, from 1, of the line on which byte `at` stands.
    pub fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }
}

/// The functions that have a body, nested ones included, in the order of their `fn`.
pub fn functions(code: &str) -> Vec<Function> {
    let tokens = tokens(code);
    let mut functions = Vec::new();
    for (index, pair) in tokens.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        if keyword.text != "fn" || !is_word(name.text) {
            continue; // a pointer type `fn(…)` has no name
        }
        if let Some(end) = end_of_body(&tokens[index..]) {
            functions.push(Function { name: name.text.to_owned(), body: keyword.at..end + 1 });
        }
    }
    functions
}

/// Where the item that begins with the first token closes its braces; none if a `;` comes first.
pub fn end_of_body(tokens: &[Token<'_>]) -> Option<usize> {
    let mut round_or_square = 0_usize;
    let mut curly = 0_usize;
    for token in tokens {
        match token.text {
            "(" | "[" => round_or_square += 1,
            ")" | "]" => round_or_square = round_or_square.saturating_sub(1),
            ";" if curly == 0 && round_or_square == 0 => return None,
            "{" => curly += 1,
            "}" if curly <= 1 => return Some(token.at),
            "}" => curly -= 1,
            _ => {}
        }
    }
    None
}

/// Splits code into words and single punctuation characters.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut characters = code.char_indices().peekable();
    while let Some((at, first)) = characters.next() {
        if first.is_whitespace() {
            continue;
        }
        let mut end = at + first.len_utf8();
        while is_word_character(first)
            && let Some((next_at, next)) = characters.next_if(|(_, next)| is_word_character(*next))
        {
            end = next_at + next.len_utf8();
        }
        tokens.push(Token { at, text: &code[at..end] });
    }
    tokens
}

/// Where `pattern`, itself read as code (`todo!(`, `Instant::now`), stands in the tokens. White
/// space does not matter, and a word matches whole words only.
pub fn occurrences(haystack: &[Token<'_>], pattern: &str) -> Vec<usize> {
    let pattern = tokens(pattern);
    haystack
        .windows(pattern.len())
        .filter(|window| window.iter().zip(&pattern).all(|(a, b)| a.text == b.text))
        .map(|window| window[0].at)
        .collect()
}

pub fn is_word(text: &str) -> bool {
    text.chars().all(is_word_character)
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Turns comments and literals into spaces; line breaks stay, so that lines keep their numbers.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        if let Some(length) = blanked_length(text, at) {
            code.extend(text[at..at + length].bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
            at += length;
        } else {
            code.push(character);
            at += character.len_utf8();
        }
    }
    code
}

/// The length in bytes of the comment or literal that begins at `at`, if one does.
fn blanked_length(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_length(rest));
    }
    match rest.as_bytes()[0] {
        b'"' => Some(quoted_length(rest, b'"')),
        b'r' if !is_inside_word(text, at) => raw_string_length(rest),
        b'\'' => {
            let mut inside = rest[1..].chars();
            let first = inside.next()?;
            // Otherwise it is a lifetime.
            (first == '\\' || inside.next() == Some('\'')).then(|| quoted_length(rest, b'\''))
        }
        _ => None,
    }
}

fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted_length(rest: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (index, byte) in rest.bytes().enumerate().skip(1) {
        if !escaped && byte == quote {
            return index + 1;
        }
        escaped = !escaped && byte == b'\\';
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, …; none for a raw identifier such as `r#fn`.
fn raw_string_length(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let content = rest[1 + hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let length = content.find(&close).map_or(content.len(), |end| end + close.len());
    Some(1 + hashes + 1 + length)
}

/// Whether the letter at `at` continues a word; the prefixes of `br"…"` and `cr"…"` do not count.
fn is_inside_word(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches(['b', 'c']);
    let prefix = at - before.len();
    prefix > 1 || before.chars().next_back().is_some_and(is_word_character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let file = SourceFile::new("a.rs", text);
        tokens(&file.code).iter().map(|token| token.text.to_owned()).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(words("a // b \" c\nd /* e /* f */ g */ h"), ["a", "d", "h"]);
        assert_eq!(words(r#"a("b \" {", 'c', '\'', '"', b"d", b'e') f"#).join(""), "a(,,,,b,b)f");
        assert_eq!(words("a(r#\"b \" {\"#, br\"c\") d").join(""), "a(,b)d");
        assert_eq!(
            words("fn r#fn<'a>(x: &'a str)").join(" "),
            "fn r # fn < ' a > ( x : & ' a str )"
        );
    }

    #[test]
    fn blanking_keeps_lines_and_bytes() {
        let text = "a\n\"ü\n\"\nb";
        let file = SourceFile::new("a.rs", text);
        assert_eq!(file.code.len(), text.len());
        assert_eq!(file.line(file.code.find('b').unwrap()), 4);
    }

    #[test]
    fn a_pattern_matches_whole_words_whatever_the_space_between() {
        let tokens = tokens("Instant :: now() MyInstant::now()");
        assert_eq!(occurrences(&tokens, "Instant::now"), [0]);
    }

    #[test]
    fn functions_are_found_with_their_whole_body() {
        let code =
            "trait T { fn a(&self, x: [u8; 2]); fn b() { if x { y } } }\nfn c(f: fn(u8)) {\n}";
        let found: Vec<_> =
            functions(code).into_iter().map(|f| (f.name, code[f.body].to_owned())).collect();
        let expected = [("b", "fn b() { if x { y } }"), ("c", "fn c(f: fn(u8)) {\n}")];
        assert_eq!(found, expected.map(|(name, body)| (name.to_owned(), body.to_owned())));
    }

    #[test]
    fn unit_tests_are_not_product_code_but_a_named_test_file_does_not_hide_what_follows() {
        let inline =
            SourceFile::new("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests { fn t() {} }");
        assert_eq!(inline.product_code().trim(), "fn a() {}");
        let named = SourceFile::new("src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}");
        assert_eq!(named.product_code(), named.code);
        for path in ["crates/a/tests/b.rs", "crates/a/src/tests.rs", "crates/a/src/b_tests.rs"] {
            assert_eq!(SourceFile::new(path, "fn t() {}").product_code(), "", "{path}");
        }
    }
}
