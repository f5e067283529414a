//! Words into the tree.
//!
//! Brackets are matched before anything else. After that every container is known to end, and to lie
//! no deeper than allowed, so the parser may recurse, and after a problem it can go on behind the next
//! comma or line end without losing its way: several mistakes come back in one answer.

use crate::lexer::trim;
use crate::limits::{MAX_NESTING, MAX_PROBLEMS};
use crate::path::{self, Key, Step};
use crate::token::{Bracket, Token, TokenKind};
use crate::tree::{Node, Part, Shape, Tree, concatenate};
use crate::value::Kind;
use crate::{Position, Problem, number};

/// Parses the words of a document; the last one has to be `End`.
pub(crate) fn parse(tokens: &[Token]) -> Result<Tree, Vec<Problem>> {
    match_brackets(tokens)?;
    let mut parser = Parser {
        tokens,
        place: 0,
        end: Position::START,
        path: Vec::new(),
        containers: 0,
        problems: Vec::new(),
    };
    parser.end = tokens.last().map_or(Position::START, |token| token.at);
    let tree = parser.root();
    if parser.problems.is_empty() {
        Ok(tree)
    } else {
        parser.problems.sort();
        Err(parser.problems)
    }
}

fn match_brackets(tokens: &[Token]) -> Result<(), Vec<Problem>> {
    let problem = |at, message| Problem { at, key: None, message };
    let mut open: Vec<(Bracket, Position)> = Vec::new();
    for token in tokens {
        match token.kind {
            TokenKind::Open(_) if open.len() == MAX_NESTING => {
                let message = format!("objects and lists nest at most {MAX_NESTING} deep");
                return Err(vec![problem(token.at, message)]);
            }
            TokenKind::Open(bracket) => open.push((bracket, token.at)),
            TokenKind::Close(bracket) => {
                let closing = bracket.closing();
                let message = match open.pop() {
                    Some((opened, _)) if opened == bracket => continue,
                    Some((opened, at)) => {
                        let opening = opened.opening();
                        format!("`{closing}` does not close the `{opening}` of {at}")
                    }
                    None => format!("`{closing}` closes nothing"),
                };
                return Err(vec![problem(token.at, message)]);
            }
            _ => {}
        }
    }
    let unclosed = |(bracket, at): (Bracket, Position)| {
        let opening = bracket.opening();
        problem(at, format!("this `{opening}` is not closed before the end of the text"))
    };
    if open.is_empty() { Ok(()) } else { Err(open.into_iter().map(unclosed).collect()) }
}

/// A part of the place that is being parsed.
enum PathPart {
    Key(String),
    Index(usize),
}

struct Parser<'t> {
    tokens: &'t [Token],
    place: usize,
    end: Position,
    /// Where the parser is, to name the key of a problem.
    path: Vec<PathPart>,
    /// How many containers, those of dotted keys included, lie around the parser.
    containers: usize,
    problems: Vec<Problem>,
}

impl<'t> Parser<'t> {
    fn root(&mut self) -> Tree {
        self.skip_blank_lines();
        let at = self.at();
        match self.kind() {
            TokenKind::Open(Bracket::Square) => {
                self.problems.push(self.problem(at, "a document is an object, not a list"));
                return Tree::default();
            }
            TokenKind::Open(Bracket::Curly) => self.place += 1,
            _ => return self.fields(false),
        }
        let tree = self.fields(false);
        self.place += 1;
        self.skip_blank_lines();
        if self.problems.is_empty() && *self.kind() != TokenKind::End {
            let found = self.found();
            let message = format!("expected nothing after the document's closing `}}`, {found}");
            self.problems.push(self.problem(self.at(), message));
        }
        tree
    }

    /// The fields of an object up to its closing bracket or the end.
    fn fields(&mut self, in_list: bool) -> Tree {
        let mut tree = Tree::default();
        self.entries(|parser| parser.field(&mut tree, in_list));
        tree
    }

    fn elements(&mut self) -> Vec<Node> {
        let mut elements = Vec::new();
        self.entries(|parser| {
            parser.path.push(PathPart::Index(elements.len()));
            elements.push(parser.value(true)?);
            Ok(())
        });
        elements
    }

    /// Entries with a comma or line ends between them, up to the bracket that closes their container,
    /// which is left to the caller.
    fn entries(&mut self, mut entry: impl FnMut(&mut Self) -> Result<(), Problem>) {
        let outside = (self.path.len(), self.containers);
        loop {
            self.skip_blank_lines();
            if matches!(self.kind(), TokenKind::Close(_) | TokenKind::End) {
                return;
            }
            let outcome = entry(self).and_then(|()| self.separator());
            self.path.truncate(outside.0);
            self.containers = outside.1;
            if let Err(problem) = outcome {
                if self.problems.len() < MAX_PROBLEMS {
                    self.problems.push(problem);
                }
                self.skip_entry();
            }
        }
    }

    /// One comma, or at least one line end, or the end of the container.
    fn separator(&mut self) -> Result<(), Problem> {
        let new_line = self.skip_blank_lines();
        match self.kind() {
            TokenKind::Comma => self.place += 1,
            TokenKind::Close(_) | TokenKind::End => {}
            _ if new_line => {}
            TokenKind::Assign(_) | TokenKind::Append => {
                let hint = "put the value in double quotes if this is part of it";
                return Err(self.unexpected(&format!("a comma or a new line ({hint})")));
            }
            _ => return Err(self.unexpected("a comma or a new line")),
        }
        Ok(())
    }

    /// Goes behind the entry that has a problem.
    fn skip_entry(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.kind() {
                TokenKind::End => return,
                TokenKind::Open(_) => depth += 1,
                TokenKind::Close(_) if depth == 0 => return,
                TokenKind::Close(_) => depth -= 1,
                TokenKind::Comma | TokenKind::Newline if depth == 0 => {
                    self.place += 1;
                    return;
                }
                _ => {}
            }
            self.place += 1;
        }
    }

    fn field(&mut self, tree: &mut Tree, in_list: bool) -> Result<(), Problem> {
        let key = self.key()?;
        self.path.extend(key.iter().map(|part| PathPart::Key(part.name.clone())));
        self.containers += key.len() - 1;
        if self.containers >= MAX_NESTING {
            let message = format!("objects and lists nest at most {MAX_NESTING} deep");
            return Err(self.problem(key[0].at, message));
        }
        let behind_key = self.place;
        self.skip_blank_lines();
        match self.kind() {
            TokenKind::Open(Bracket::Curly) => tree.set(&key, self.value(in_list)?),
            TokenKind::Assign(_) => tree.set(&key, self.assigned(in_list)?),
            TokenKind::Append => {
                let value = self.assigned(in_list)?;
                let at = value.at;
                tree.append(&key, value, in_list).map_err(|_| {
                    let message = "`+=` inside a list can only extend a list that stands before it in the same object";
                    self.problem(at, message)
                })?;
            }
            _ => {
                self.place = behind_key;
                return Err(self.unexpected("`=`, `:` or `{` after the key"));
            }
        }
        Ok(())
    }

    /// The value behind a sign, on its line or a later one.
    fn assigned(&mut self, in_list: bool) -> Result<Node, Problem> {
        let at = self.at();
        self.place += 1;
        let behind_sign = self.place;
        let new_line = self.skip_blank_lines();
        let value = self.value(in_list)?;
        if new_line && matches!(self.kind(), TokenKind::Assign(_) | TokenKind::Append) {
            // What was read is the next key, and is parsed again as one.
            self.place = behind_sign;
            return Err(
                self.problem(at, "expected a value here, found another key on the next line")
            );
        }
        Ok(value)
    }

    /// A path as a key. It is never empty.
    fn key(&mut self) -> Result<Vec<Key>, Problem> {
        let start = self.place;
        while matches!(
            self.kind(),
            TokenKind::Unquoted(_) | TokenKind::Quoted(_) | TokenKind::Space(_)
        ) {
            self.place += 1;
        }
        if matches!(self.kind(), TokenKind::Substitution { .. }) {
            return Err(self.problem(self.at(), "a substitution cannot be part of a key"));
        }
        let words = trim(&self.tokens[start..self.place]);
        match words.first() {
            None => Err(self.unexpected("a key")),
            Some(Token { kind: TokenKind::Unquoted(word), at }) if word == "include" => {
                let message = "`include` is not supported: a document is complete in itself, and no other file or address is read (as a key, write it in double quotes)";
                Err(self.problem(*at, message))
            }
            Some(_) => path::read(words).map_err(|problem| Problem { key: self.name(), ..problem }),
        }
    }

    /// A value: one, or several side by side on one line.
    fn value(&mut self, in_list: bool) -> Result<Node, Problem> {
        let mut parts = Vec::new();
        loop {
            let mut space = String::new();
            if let TokenKind::Space(blanks) = self.kind() {
                space.clone_from(blanks);
                self.place += 1;
            }
            let at = self.at();
            let shape = match self.kind() {
                TokenKind::Unquoted(text) => Shape::Scalar(unquoted(text)),
                TokenKind::Quoted(text) => Shape::Scalar(Kind::String(text.clone())),
                TokenKind::Substitution { path, optional } => {
                    Shape::Substitution { path: path.clone(), optional: *optional }
                }
                TokenKind::Open(bracket) => {
                    self.place += 1;
                    self.containers += 1;
                    if self.containers >= MAX_NESTING {
                        let message = format!("objects and lists nest at most {MAX_NESTING} deep");
                        return Err(self.problem(at, message));
                    }
                    let shape = match bracket {
                        Bracket::Curly => Shape::Object(self.fields(in_list)),
                        Bracket::Square => Shape::Array(self.elements()),
                    };
                    self.containers -= 1;
                    shape
                }
                _ => break,
            };
            self.place += 1;
            parts.push(Part { space, node: Node { at, shape } });
        }
        match concatenate(parts) {
            Ok(Some(node)) => Ok(node),
            Ok(None) => Err(self.unexpected("a value")),
            Err((at, message)) => Err(self.problem(at, message)),
        }
    }

    /// Goes over blanks and line ends, and tells whether a line has ended.
    fn skip_blank_lines(&mut self) -> bool {
        let mut new_line = false;
        while let TokenKind::Newline | TokenKind::Space(_) = self.kind() {
            new_line |= *self.kind() == TokenKind::Newline;
            self.place += 1;
        }
        new_line
    }

    fn kind(&self) -> &'t TokenKind {
        self.tokens.get(self.place).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn at(&self) -> Position {
        self.tokens.get(self.place).map_or(self.end, |token| token.at)
    }

    fn found(&self) -> String {
        let found = self.tokens.get(self.place).map(Token::describe);
        format!("found {}", found.unwrap_or_else(|| "the end of the text".to_owned()))
    }

    fn unexpected(&self, expected: &str) -> Problem {
        self.problem(self.at(), format!("expected {expected}, {}", self.found()))
    }

    fn problem(&self, at: Position, message: impl Into<String>) -> Problem {
        Problem { at, key: self.name(), message: message.into() }
    }

    fn name(&self) -> Option<String> {
        path::name(self.path.iter().map(|part| match part {
            PathPart::Key(key) => Step::Key(key),
            PathPart::Index(index) => Step::Index(*index),
        }))
    }
}

/// What an unquoted word is. Nothing but JSON's own spellings is a boolean, a null or a number.
fn unquoted(text: &str) -> Kind {
    match text {
        "null" => Kind::Null,
        "true" => Kind::Bool(true),
        "false" => Kind::Bool(false),
        text if number::is_number(text) => Kind::Number(text.to_owned()),
        text => Kind::String(text.to_owned()),
    }
}
