//! The words of a document.

use crate::Position;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bracket {
    Curly,
    Square,
}

impl Bracket {
    pub(crate) fn opening(self) -> char {
        match self {
            Self::Curly => '{',
            Self::Square => '[',
        }
    }

    pub(crate) fn closing(self) -> char {
        match self {
            Self::Curly => '}',
            Self::Square => ']',
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    Open(Bracket),
    Close(Bracket),
    Comma,
    Newline,
    /// `=` or `:`
    Assign(char),
    /// `+=`
    Append,
    /// A run of characters that need no quotes, as written.
    Unquoted(String),
    /// A string in quotes of either sort, with its escapes replaced.
    Quoted(String),
    /// Blanks inside a line. They count between the words of an unquoted text.
    Space(String),
    /// `${path}` or `${?path}`
    Substitution {
        path: Vec<String>,
        optional: bool,
    },
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) at: Position,
}

impl Token {
    /// The token in the words of a message.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            TokenKind::Open(bracket) => format!("`{}`", bracket.opening()),
            TokenKind::Close(bracket) => format!("`{}`", bracket.closing()),
            TokenKind::Comma => "`,`".to_owned(),
            TokenKind::Newline => "the end of the line".to_owned(),
            TokenKind::Assign(sign) => format!("`{sign}`"),
            TokenKind::Append => "`+=`".to_owned(),
            TokenKind::Unquoted(text) => format!("`{}`", beginning(text)),
            TokenKind::Quoted(text) => format!("the string \"{}\"", beginning(text)),
            TokenKind::Space(_) => "blanks".to_owned(),
            TokenKind::Substitution { .. } => "a substitution".to_owned(),
            TokenKind::End => "the end of the text".to_owned(),
        }
    }
}

/// Enough of a text to recognise it by, on one line.
fn beginning(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
