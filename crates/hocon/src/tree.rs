//! The parsed tree, before substitution.
//!
//! A key that is written twice cannot simply be overwritten while there are substitutions: an object
//! has to wait for the one that a `${…}` will bring, and `path = ${path}":x"` needs what stood there
//! before. So a field keeps *layers*, oldest first, and forgets those that a later one is sure to hide.

use std::collections::BTreeMap;

use crate::Position;
use crate::path::Key;
use crate::value::Kind;

/// An object: fields in the order in which their keys first stand in the text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    fields: Vec<Field>,
    index: BTreeMap<String, usize>,
}

/// A key and everything that was said about it and may still matter.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) at: Position,
    /// Oldest first, never empty in a finished tree.
    pub(crate) layers: Vec<Node>,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) shape: Shape,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// Null, boolean, number or string; never a container.
    Scalar(Kind),
    Array(Vec<Node>),
    Object(Tree),
    Substitution {
        path: Vec<String>,
        optional: bool,
    },
    /// What the field held before: the left side of a `+=`.
    Previous,
    /// Values side by side, at least two.
    Concatenation(Vec<Part>),
}

#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// The blanks before it, which count if it turns out to be text.
    pub(crate) space: String,
    pub(crate) node: Node,
}

/// A `+=` inside a list that has nothing in the same object to extend.
pub(crate) struct NothingToExtend;

impl Tree {
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Field> {
        self.index.get(key).map(|&place| &self.fields[place])
    }

    /// `path = node`. The path must not be empty.
    pub(crate) fn set(&mut self, path: &[Key], node: Node) {
        if let Some(field) = self.field_at(path) {
            field.push(node);
        }
    }

    /// `path += node`. The path must not be empty.
    ///
    /// What is extended may come from anywhere in the document, except inside a list, where no path
    /// leads: there it has to be in sight.
    pub(crate) fn append(
        &mut self,
        path: &[Key],
        node: Node,
        in_list: bool,
    ) -> Result<(), NothingToExtend> {
        let Some(field) = self.field_at(path) else { return Ok(()) };
        let list = match field.layers.last_mut().map(|node| &mut node.shape) {
            Some(Shape::Array(elements)) => Some(elements),
            Some(Shape::Concatenation(parts)) => match parts.last_mut() {
                Some(Part { node: Node { shape: Shape::Array(elements), .. }, .. }) => {
                    Some(elements)
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(elements) = list {
            elements.push(node);
        } else if in_list {
            return Err(NothingToExtend);
        } else {
            let at = node.at;
            let part = |shape| Part { space: String::new(), node: Node { at, shape } };
            let parts = vec![part(Shape::Previous), part(Shape::Array(vec![node]))];
            field.push(Node { at, shape: Shape::Concatenation(parts) });
        }
        Ok(())
    }

    /// The field at the end of a path, made with every object on the way where it is not there yet.
    fn field_at(&mut self, path: &[Key]) -> Option<&mut Field> {
        let (last, parents) = path.split_last()?;
        let mut tree = self;
        let mut parents = parents.iter().chain([last]).peekable();
        while let Some(key) = parents.next() {
            let field = tree.field(key);
            if parents.peek().is_none() {
                field.at = key.at;
                return Some(field);
            }
            if !matches!(field.layers.last(), Some(Node { shape: Shape::Object(_), .. })) {
                field.layers.push(Node { at: key.at, shape: Shape::Object(Tree::default()) });
            }
            let Some(Node { shape: Shape::Object(inner), .. }) = field.layers.last_mut() else {
                return None;
            };
            tree = inner;
        }
        None
    }

    fn field(&mut self, key: &Key) -> &mut Field {
        let place = *self.index.entry(key.name.clone()).or_insert_with(|| {
            let field = Field { key: key.name.clone(), at: key.at, layers: Vec::new() };
            self.fields.push(field);
            self.fields.len() - 1
        });
        &mut self.fields[place]
    }

    /// Lays another object over this one.
    pub(crate) fn merge(&mut self, over: Tree) {
        for Field { key, at, layers } in over.fields {
            let field = self.field(&Key { name: key, at });
            field.at = at;
            layers.into_iter().for_each(|layer| field.push(layer));
        }
    }
}

impl Field {
    fn push(&mut self, node: Node) {
        match node.shape {
            Shape::Object(over) => {
                if let Some(Node { shape: Shape::Object(under), .. }) = self.layers.last_mut() {
                    under.merge(over);
                } else {
                    self.layers.push(Node { at: node.at, shape: Shape::Object(over) });
                }
                return;
            }
            // These hide for certain whatever stood there before.
            Shape::Scalar(_) | Shape::Array(_) => self.layers.clear(),
            Shape::Substitution { .. } | Shape::Previous | Shape::Concatenation(_) => {}
        }
        self.layers.push(node);
    }
}

/// What a value without substitution is joined as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Text,
    List,
    Object,
}

impl Sort {
    fn of(shape: &Shape) -> Option<Self> {
        match shape {
            Shape::Scalar(_) => Some(Self::Text),
            Shape::Array(_) => Some(Self::List),
            Shape::Object(_) => Some(Self::Object),
            Shape::Substitution { .. } | Shape::Previous | Shape::Concatenation(_) => None,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }
}

/// Puts values side by side. What needs no substitution is joined at once, so that a field knows that
/// it hides its older layers.
///
/// # Errors
/// The place of the first value that cannot go with what stands before it, and why. Refusing it here
/// also finds it where a later value would hide it.
pub(crate) fn concatenate(mut parts: Vec<Part>) -> Result<Option<Node>, (Position, String)> {
    if parts.len() < 2 {
        return Ok(parts.pop().map(|part| part.node));
    }
    let at = parts[0].node.at;
    let mut sorts =
        parts.iter().filter_map(|Part { node, .. }| Some((node, Sort::of(&node.shape)?)));
    let first = sorts.next().map(|(_, sort)| sort);
    if let Some(first) = first
        && let Some((node, other)) = sorts.find(|(_, other)| *other != first)
    {
        return Err((
            node.at,
            format!("{} cannot be joined to {}", other.describe(), first.describe()),
        ));
    }
    let complete = parts.iter().all(|part| Sort::of(&part.node.shape).is_some());
    let shape = match first.filter(|_| complete) {
        None => Shape::Concatenation(parts),
        Some(Sort::Text) => Shape::Scalar(Kind::String(join_texts(&parts))),
        Some(Sort::List) => {
            let lists = parts.into_iter().filter_map(|part| match part.node.shape {
                Shape::Array(elements) => Some(elements),
                _ => None,
            });
            Shape::Array(lists.flatten().collect())
        }
        Some(Sort::Object) => {
            let mut tree = Tree::default();
            for part in parts {
                if let Shape::Object(over) = part.node.shape {
                    tree.merge(over);
                }
            }
            Shape::Object(tree)
        }
    };
    Ok(Some(Node { at, shape }))
}

fn join_texts(parts: &[Part]) -> String {
    let mut text = String::new();
    for (place, Part { space, node }) in parts.iter().enumerate() {
        if let Shape::Scalar(kind) = &node.shape {
            text.push_str(if place == 0 { "" } else { space });
            text.push_str(kind.scalar_text().unwrap_or_default());
        }
    }
    text
}

/// The name of a path as a variable is named: its parts with dots between.
pub(crate) fn variable_name(path: &[String]) -> String {
    path.join(".")
}
