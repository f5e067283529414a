//! Text into words, each with its place.
//!
//! Everything about single characters is decided here: what is text at all, what needs quotes, what an
//! escape means. The lexer goes on after a problem inside a string, so that several are found at once.

use crate::limits::{MAX_BYTES, MAX_PROBLEMS};
use crate::token::{Bracket, Token, TokenKind};
use crate::{Position, Problem, path};

/// Splits a text into words; the last one is always `End`.
pub(crate) fn lex(bytes: &[u8]) -> Result<Vec<Token>, Vec<Problem>> {
    let text = checked_text(bytes).map_err(|problem| vec![problem])?;
    let mut lexer = Lexer { rest: text, at: Position::START, problems: Vec::new() };
    let mut tokens = Vec::new();
    while lexer.problems.len() < MAX_PROBLEMS {
        let at = lexer.at;
        let Some(c) = lexer.peek() else {
            tokens.push(Token { kind: TokenKind::End, at });
            break;
        };
        match lexer.word(c) {
            Ok(Some(kind)) => tokens.push(Token { kind, at }),
            Ok(None) => {}
            Err(problem) => lexer.problems.push(problem),
        }
    }
    if lexer.problems.is_empty() {
        Ok(tokens)
    } else {
        lexer.problems.sort();
        Err(lexer.problems)
    }
}

/// The bytes as text without the byte order mark, if they are a text of characters that can be seen.
fn checked_text(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is too large: {} bytes of {MAX_BYTES}", bytes.len());
        return Err(problem(Position::START, message));
    }
    let (valid, broken) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => {
            (std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(), true)
        }
    };
    let text = valid.strip_prefix('\u{feff}').unwrap_or(valid);
    let mut at = Position::START;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => {}
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => return Err(problem(at, "a carriage return without a line feed after it")),
            '\0' => return Err(problem(at, "this is not a text file: it holds a NUL byte")),
            '\u{feff}' => {
                return Err(problem(at, "a byte order mark may only stand at the very beginning"));
            }
            c if c.is_control() => {
                let code = u32::from(c);
                let message =
                    format!("a control character: write it as \\u{code:04x} inside double quotes");
                return Err(problem(at, message));
            }
            _ => {}
        }
        advance(&mut at, c);
    }
    if broken {
        return Err(problem(at, "this is not a text file: these bytes are not UTF-8"));
    }
    if text.trim().is_empty() {
        return Err(problem(Position::START, "the file is empty"));
    }
    Ok(text)
}

fn advance(at: &mut Position, c: char) {
    if c == '\n' {
        *at = Position { line: at.line + 1, column: 1 };
    } else {
        at.column += 1;
    }
}

fn problem(at: Position, message: impl Into<String>) -> Problem {
    Problem { at, key: None, message: message.into() }
}

/// Blanks, but not the line feed, which ends things.
fn is_blank(c: char) -> bool {
    c != '\n' && c.is_whitespace()
}

/// Whether a character may stand outside quotes: HOCON's list.
fn is_unquoted(c: char) -> bool {
    !c.is_whitespace() && !"$\"{}[]:=,+#`^?!@*&\\".contains(c)
}

struct Lexer<'t> {
    rest: &'t str,
    at: Position,
    problems: Vec<Problem>,
}

impl<'t> Lexer<'t> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        advance(&mut self.at, c);
        Some(c)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// Takes so many bytes, which have to end between two characters.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        taken.chars().for_each(|c| advance(&mut self.at, c));
        self.rest = rest;
        taken
    }

    /// The word that begins with `c`; `None` for a comment.
    fn word(&mut self, c: char) -> Result<Option<TokenKind>, Problem> {
        let single = match c {
            '{' => TokenKind::Open(Bracket::Curly),
            '}' => TokenKind::Close(Bracket::Curly),
            '[' => TokenKind::Open(Bracket::Square),
            ']' => TokenKind::Close(Bracket::Square),
            ',' => TokenKind::Comma,
            '\n' => TokenKind::Newline,
            '=' | ':' => TokenKind::Assign(c),
            _ => return self.long_word(c),
        };
        self.bump();
        Ok(Some(single))
    }

    fn long_word(&mut self, c: char) -> Result<Option<TokenKind>, Problem> {
        if c == '#' || self.rest.starts_with("//") {
            self.take_while(|c| c != '\n');
            return Ok(None);
        }
        if self.rest.starts_with("+=") {
            self.take(2);
            return Ok(Some(TokenKind::Append));
        }
        if self.rest.starts_with("${") {
            return self.substitution().map(Some);
        }
        self.path_word(c).map(Some)
    }

    /// The words that a path may have: blanks, quoted, unquoted. It always takes something.
    fn path_word(&mut self, c: char) -> Result<TokenKind, Problem> {
        if is_blank(c) {
            Ok(TokenKind::Space(self.take_while(is_blank).to_owned()))
        } else if self.rest.starts_with("\"\"\"") {
            self.triple_quoted().map(TokenKind::Quoted)
        } else if c == '"' {
            self.quoted().map(TokenKind::Quoted)
        } else if self.rest.starts_with("//") {
            let at = self.at;
            self.take(2);
            Err(problem(at, "`//` may only stand inside double quotes"))
        } else if is_unquoted(c) {
            Ok(TokenKind::Unquoted(self.unquoted().to_owned()))
        } else {
            let at = self.at;
            self.bump();
            let hint = if c == '$' { " (a substitution is written ${name})" } else { "" };
            Err(problem(at, format!("`{c}` may only stand inside double quotes{hint}")))
        }
    }

    fn unquoted(&mut self) -> &'t str {
        let mut end = 0;
        for (place, c) in self.rest.char_indices() {
            let ends = match c {
                '/' => self.rest[place..].starts_with("//"),
                '+' => !is_exponent_sign(&self.rest[..place], &self.rest[place + 1..]),
                c => !is_unquoted(c),
            };
            if ends {
                break;
            }
            end = place + c.len_utf8();
        }
        self.take(end)
    }

    fn substitution(&mut self) -> Result<TokenKind, Problem> {
        let start = self.at;
        self.take(2);
        let optional = self.peek() == Some('?');
        if optional {
            self.bump();
        }
        let mut words = Vec::new();
        loop {
            let at = self.at;
            match self.peek() {
                Some('}') => break,
                None | Some('\n') => {
                    return Err(problem(start, "this `${` is not closed by a `}` on its line"));
                }
                Some(c) => words.push(Token { kind: self.path_word(c)?, at }),
            }
        }
        self.bump();
        let words = trim(&words);
        if words.is_empty() {
            return Err(problem(start, "a substitution needs a name: ${name}"));
        }
        let path = path::read(words)?.into_iter().map(|key| key.name).collect();
        Ok(TokenKind::Substitution { path, optional })
    }

    fn triple_quoted(&mut self) -> Result<String, Problem> {
        let start = self.at;
        self.take(3);
        let Some(mut end) = self.rest.find("\"\"\"") else {
            self.take(self.rest.len());
            return Err(problem(start, "this `\"\"\"` is not closed before the end of the text"));
        };
        // Of a longer run of quotes the last three close, so that a string can end with a quote.
        while self.rest[end + 3..].starts_with('"') {
            end += 1;
        }
        let text = self.take(end).to_owned();
        self.take(3);
        Ok(text)
    }

    fn quoted(&mut self) -> Result<String, Problem> {
        let start = self.at;
        self.bump();
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.peek() {
                None | Some('\n') => {
                    return Err(problem(start, "this `\"` is not closed on its line"));
                }
                Some('"') => {
                    self.bump();
                    return Ok(text);
                }
                Some('\\') => match self.escape() {
                    Ok(c) => text.push(c),
                    Err(message) => self.problems.push(problem(at, message)),
                },
                Some('\t') => {
                    self.bump();
                    self.problems.push(problem(at, "a tab inside double quotes: write it as \\t"));
                }
                Some(c) => {
                    self.bump();
                    text.push(c);
                }
            }
        }
    }

    /// One escape, or what is wrong with it; never takes the end of the line.
    fn escape(&mut self) -> Result<char, String> {
        self.bump();
        let c = match self.peek() {
            None | Some('\n' | '\r') => return Err("a backslash at the end of the line".to_owned()),
            Some(c) => c,
        };
        self.bump();
        Ok(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode_escape(),
            c => {
                return Err(format!(
                    "`\\{c}` is no escape; there are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX"
                ));
            }
        })
    }

    /// The digits of a `\u`, and of the second half where the first is one of a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char, String> {
        let first = self.four_digits()?;
        if (0xd800..0xdc00).contains(&first) && self.rest.starts_with("\\u") {
            self.take(2);
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(code).ok_or_else(|| lone(first));
            }
        }
        char::from_u32(first).ok_or_else(|| lone(first))
    }

    fn four_digits(&mut self) -> Result<u32, String> {
        let digits = self.rest.as_bytes().get(..4).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        if digits.is_none() {
            return Err("\\u needs four hexadecimal digits".to_owned());
        }
        // Four hexadecimal digits cannot fail to be a number.
        Ok(u32::from_str_radix(self.take(4), 16).unwrap_or_default())
    }
}

fn lone(code: u32) -> String {
    format!("\\u{code:04x} is one half of a surrogate pair without the other")
}

/// Whether a plus sign is the one of a number such as `1e+5`; anywhere else it needs quotes.
fn is_exponent_sign(before: &str, after: &str) -> bool {
    before.ends_with(['e', 'E'])
        && crate::number::is_number(&before[..before.len() - 1])
        && after.starts_with(|c: char| c.is_ascii_digit())
}

/// The words without blanks at either end.
pub(crate) fn trim(mut words: &[Token]) -> &[Token] {
    while let [Token { kind: TokenKind::Space(_), .. }, rest @ ..] = words {
        words = rest;
    }
    while let [rest @ .., Token { kind: TokenKind::Space(_), .. }] = words {
        words = rest;
    }
    words
}
