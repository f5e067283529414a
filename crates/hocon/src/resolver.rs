//! Substitution: the parsed tree into the resolved one.
//!
//! Nothing is resolved before it is asked for, because a document may refer forwards, and may refer to
//! one key of an object that is itself still being put together. A lookup therefore walks the layers of
//! each field on its path, newest first, and stops as soon as it knows. Nothing is remembered either:
//! bounded steps and depth make that affordable, and an answer never depends on the order of questions.
//!
//! The *cursor* says where in the document the value stands that is being resolved. A substitution that
//! asks for its own field, or for something inside it, means what stood there before: it looks only at
//! what is older than the cursor.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{MAX_DEPTH, MAX_NESTING, MAX_PROBLEMS, MAX_RESOLVED_BYTES, MAX_STEPS};
use crate::path;
use crate::tree::{Field, Node, Part, Shape, Tree, variable_name};
use crate::value::{Kind, Object, Value};
use crate::{Position, Problem, Resolved, join};

/// Fills every substitution of a document.
pub(crate) fn resolve(
    root: &Tree,
    variables: &BTreeMap<String, String>,
) -> Result<Resolved, Vec<Problem>> {
    let mut resolver = Resolver {
        root,
        variables,
        used: BTreeSet::new(),
        problems: BTreeSet::new(),
        cursor: Vec::new(),
        links: Vec::new(),
        steps: 0,
        bytes: 0,
        depth: 0,
        nesting: 0,
    };
    // Where the resolver gave up, it has noted the problem before, and the object is not used.
    let object = resolver.object(root, Position::START).unwrap_or_default();
    if resolver.problems.is_empty() {
        Ok(Resolved { root: object, used: resolver.used })
    } else {
        Err(resolver.problems.into_iter().take(MAX_PROBLEMS).collect())
    }
}

/// What a lookup came to.
#[derive(Debug)]
pub(crate) enum Looked {
    Found(Value),
    /// Nothing here; something older may tell.
    Absent,
    /// Nothing here, and nothing older counts: a value that is no object stands in the way.
    Hidden,
    /// A problem has been noted, so that what follows from it need not be.
    Broken,
}

/// A bound was reached, and its problem noted.
struct GiveUp;

type Outcome = Result<Looked, GiveUp>;

/// One step of the cursor.
#[derive(Debug, Clone, Copy)]
enum Step<'t> {
    /// Into a field: its layer, and the part of the layer where that is a concatenation.
    Field { key: &'t str, layer: usize, part: Option<usize> },
    /// Into a list. No path of a document leads there.
    Element(usize),
}

/// The part of a concatenation that the cursor goes through, and its steps below: what is being looked
/// for must be older than that.
#[derive(Clone, Copy)]
struct Before<'c, 't> {
    part: Option<usize>,
    steps: &'c [Step<'t>],
}

/// A substitution that is being followed.
struct Link<'t> {
    node: *const Node,
    /// How many parts of the path were asked for below it.
    below: usize,
    at: Position,
    path: &'t [String],
}

struct Resolver<'t> {
    root: &'t Tree,
    variables: &'t BTreeMap<String, String>,
    used: BTreeSet<String>,
    /// Sorted, and each once, however often its value is asked for.
    problems: BTreeSet<Problem>,
    cursor: Vec<Step<'t>>,
    links: Vec<Link<'t>>,
    steps: usize,
    bytes: usize,
    depth: usize,
    /// Containers around the value that is being built.
    nesting: usize,
}

impl<'t> Resolver<'t> {
    fn object(&mut self, tree: &'t Tree, at: Position) -> Result<Object, GiveUp> {
        let mut object = Object::default();
        self.enter_container(at)?;
        for field in tree.fields() {
            if let Looked::Found(value) = self.field(field, &[], None)? {
                self.count_bytes(field.key.len(), field.at)?;
                object.set(field.key.clone(), field.at, value);
            }
        }
        self.nesting -= 1;
        Ok(object)
    }

    fn array(&mut self, elements: &'t [Node], at: Position) -> Result<Vec<Value>, GiveUp> {
        let mut values = Vec::new();
        self.enter_container(at)?;
        for (index, element) in elements.iter().enumerate() {
            self.cursor.push(Step::Element(index));
            let looked = self.node(element, &[], None)?;
            self.cursor.pop();
            if let Looked::Found(value) = looked {
                values.push(value);
            }
        }
        self.nesting -= 1;
        Ok(values)
    }

    /// A field, or what lies on the path `below` it.
    fn field(
        &mut self,
        field: &'t Field,
        below: &[&'t str],
        before: Option<&[Step<'t>]>,
    ) -> Outcome {
        let mut stack = Stack::default();
        let limit = match before {
            Some([Step::Field { layer, part, .. }, steps @ ..]) => Some((*layer, *part, steps)),
            _ => None,
        };
        for (layer, node) in field.layers.iter().enumerate().rev() {
            let mut inner = None;
            if let Some((own, part, steps)) = limit {
                if layer > own || (layer == own && steps.is_empty()) {
                    continue;
                }
                inner = (layer == own).then_some(Before { part, steps });
            }
            self.cursor.push(Step::Field { key: &field.key, layer, part: None });
            let looked = self.node(node, below, inner);
            // A layer that takes in what stood before has the older layers in it already.
            let complete = inner.is_none() && self.takes_in_previous(node);
            self.cursor.pop();
            if stack.add(looked?) || complete {
                break;
            }
        }
        Ok(stack.finish())
    }

    /// A node, or what lies on the path `below` it.
    fn node(
        &mut self,
        node: &'t Node,
        below: &[&'t str],
        before: Option<Before<'_, 't>>,
    ) -> Outcome {
        self.count_step(node.at)?;
        self.depth += 1;
        let looked = match &node.shape {
            Shape::Substitution { path, optional } => {
                self.substitution(node, path, *optional, below)
            }
            Shape::Concatenation(parts) if below.is_empty() => self.concatenation(parts),
            Shape::Concatenation(parts) => self.inside_concatenation(parts, below, before),
            Shape::Previous if below.is_empty() => self.previous(),
            Shape::Object(tree) => match below.split_first() {
                None => self.object(tree, node.at).map(|object| found(Kind::Object(object), node)),
                Some((key, below)) => match tree.get(key) {
                    Some(field) => self.field(field, below, before.map(|before| before.steps)),
                    None => Ok(Looked::Absent),
                },
            },
            Shape::Scalar(_) | Shape::Array(_) | Shape::Previous if !below.is_empty() => {
                Ok(Looked::Hidden)
            }
            Shape::Array(elements) => {
                self.array(elements, node.at).map(|values| found(Kind::Array(values), node))
            }
            Shape::Scalar(kind) => {
                let bytes = kind.scalar_text().unwrap_or_default().len();
                self.count_bytes(bytes, node.at).map(|()| found(kind.clone(), node))
            }
            Shape::Previous => Ok(Looked::Hidden),
        };
        self.depth -= 1;
        looked
    }

    fn concatenation(&mut self, parts: &'t [Part]) -> Outcome {
        let mut values = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            self.set_part(place);
            values
                .push(join::Part { space: &part.space, looked: self.node(&part.node, &[], None)? });
        }
        join::join(values).or_else(|(at, message)| {
            self.note(at, message);
            Ok(Looked::Broken)
        })
    }

    /// A path that leads into a concatenation: of objects, then, and the last one counts most.
    fn inside_concatenation(
        &mut self,
        parts: &'t [Part],
        below: &[&'t str],
        before: Option<Before<'_, 't>>,
    ) -> Outcome {
        let mut stack = Stack::default();
        for (place, part) in parts.iter().enumerate().rev() {
            let own = before.and_then(|before| before.part);
            if own.is_some_and(|own| place > own) {
                continue;
            }
            self.set_part(place);
            let inner = before.filter(|_| own == Some(place));
            if stack.add(self.node(&part.node, below, inner)?) {
                break;
            }
        }
        Ok(stack.finish())
    }

    fn set_part(&mut self, place: usize) {
        if let Some(Step::Field { part, .. }) = self.cursor.last_mut() {
            *part = Some(place);
        }
    }

    /// What the field at the cursor held before.
    fn previous(&mut self) -> Outcome {
        let own = self.cursor.clone();
        let path: Vec<&'t str> = own.iter().filter_map(|step| step.key()).collect();
        self.look_up(&path, Some(&own))
    }

    /// Looks a path up from the root, and brings the cursor back.
    fn look_up(&mut self, path: &[&'t str], before: Option<&[Step<'t>]>) -> Outcome {
        let Some((first, below)) = path.split_first() else { return Ok(Looked::Absent) };
        let Some(field) = self.root.get(first) else { return Ok(Looked::Absent) };
        let here = std::mem::take(&mut self.cursor);
        let looked = self.field(field, below, before)?;
        self.cursor = here;
        Ok(looked)
    }

    fn substitution(
        &mut self,
        node: &'t Node,
        path: &'t [String],
        optional: bool,
        below: &[&'t str],
    ) -> Outcome {
        let link = Link { node, below: below.len(), at: node.at, path };
        if let Some(first) = self.links.iter().position(|other| link.is(other)) {
            self.note_cycle(first);
            return Ok(Looked::Broken);
        }
        let full: Vec<&'t str> =
            path.iter().map(String::as_str).chain(below.iter().copied()).collect();
        let before = self.is_at_or_above(&full).then(|| self.cursor.clone());
        self.links.push(link);
        let looked = self.look_up(&full, before.as_deref())?;
        self.links.pop();
        match looked {
            Looked::Found(value) => Ok(Looked::Found(Value { at: node.at, ..value })),
            Looked::Broken => Ok(Looked::Broken),
            looked if !below.is_empty() => {
                // A variable is a text, with nothing below it.
                let variable = self.variables.contains_key(&variable_name(path));
                Ok(if variable { Looked::Hidden } else { looked })
            }
            Looked::Absent | Looked::Hidden => self.variable(node.at, path, optional),
        }
    }

    fn variable(&mut self, at: Position, path: &[String], optional: bool) -> Outcome {
        let name = variable_name(path);
        if let Some(text) = self.variables.get(&name) {
            self.count_bytes(text.len(), at)?;
            self.used.insert(name);
            let kind = Kind::String(text.clone());
            return Ok(Looked::Found(Value { kind, at, substituted: true }));
        }
        if optional {
            return Ok(Looked::Absent);
        }
        let message = format!(
            "nothing to put in place of ${{{name}}}: the document has no such key, and no such variable is given"
        );
        self.note(at, message);
        Ok(Looked::Broken)
    }

    /// Whether the cursor stands on the path or at a place above it.
    fn is_at_or_above(&self, path: &[&str]) -> bool {
        !self.cursor.is_empty()
            && self.cursor.len() <= path.len()
            && self.cursor.iter().zip(path).all(|(step, key)| step.key() == Some(key))
    }

    /// Whether a layer of the field at the cursor has the older layers in it.
    fn takes_in_previous(&self, node: &Node) -> bool {
        match &node.shape {
            Shape::Substitution { path, .. } => {
                path.len() == self.cursor.len()
                    && self.is_at_or_above(&path.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Shape::Previous => true,
            Shape::Concatenation(parts) => {
                parts.iter().any(|part| self.takes_in_previous(&part.node))
            }
            Shape::Scalar(_) | Shape::Array(_) | Shape::Object(_) => false,
        }
    }

    fn enter_container(&mut self, at: Position) -> Result<(), GiveUp> {
        self.nesting += 1;
        if self.nesting <= MAX_NESTING {
            return Ok(());
        }
        let message = format!(
            "with its substitutions filled, the document nests more than {MAX_NESTING} deep"
        );
        self.give_up(at, message)
    }

    fn count_step(&mut self, at: Position) -> Result<(), GiveUp> {
        self.steps += 1;
        if self.depth >= MAX_DEPTH {
            return self.give_up(at, format!(
                "substitutions lead to further substitutions, too deep to follow (more than {MAX_DEPTH} steps)"
            ));
        }
        if self.steps > MAX_STEPS {
            return self.give_up(
                at,
                format!(
                    "with its substitutions filled, the document has more than {MAX_STEPS} values"
                ),
            );
        }
        Ok(())
    }

    fn count_bytes(&mut self, bytes: usize, at: Position) -> Result<(), GiveUp> {
        self.bytes += bytes;
        if self.bytes <= MAX_RESOLVED_BYTES {
            return Ok(());
        }
        let message = format!(
            "with its substitutions filled, the document holds more than {MAX_RESOLVED_BYTES} bytes"
        );
        self.give_up(at, message)
    }

    fn give_up(&mut self, at: Position, message: String) -> Result<(), GiveUp> {
        self.note(at, message);
        Err(GiveUp)
    }

    fn note(&mut self, at: Position, message: String) {
        let key = path::name(self.cursor.iter().map(|step| match step {
            Step::Field { key, .. } => path::Step::Key(key),
            Step::Element(index) => path::Step::Index(*index),
        }));
        self.problems.insert(Problem { at, key, message });
    }

    /// Notes a cycle, told from its first place in the text, so that it is one problem wherever it was
    /// entered.
    fn note_cycle(&mut self, first: usize) {
        let cycle = &mut self.links[first..];
        let start = (0..cycle.len()).min_by_key(|&place| cycle[place].at).unwrap_or(0);
        let names: Vec<String> = cycle[start..]
            .iter()
            .chain(&cycle[..=start])
            .map(|link| format!("${{{}}}", variable_name(link.path)))
            .collect();
        let at = cycle[start].at;
        let message = format!("this substitution leads back to itself: {}", names.join(" → "));
        self.problems.insert(Problem { at, key: None, message });
    }
}

impl<'t> Step<'t> {
    fn key(&self) -> Option<&'t str> {
        match self {
            Self::Field { key, .. } => Some(key),
            Self::Element(_) => None,
        }
    }
}

impl Link<'_> {
    fn is(&self, other: &Link<'_>) -> bool {
        std::ptr::eq(self.node, other.node) && self.below == other.below
    }
}

fn found(kind: Kind, node: &Node) -> Looked {
    Looked::Found(Value { kind, at: node.at, substituted: false })
}

/// What the layers of a field add up to, newest first.
#[derive(Default)]
struct Stack {
    objects: Vec<(Position, Object)>,
    end: Option<Looked>,
}

impl Stack {
    /// Adds the next older layer, and tells whether nothing older counts.
    fn add(&mut self, looked: Looked) -> bool {
        match looked {
            Looked::Absent => return false,
            Looked::Found(Value { kind: Kind::Object(object), at, .. }) => {
                self.objects.push((at, object));
                return false;
            }
            Looked::Broken => self.end = Some(Looked::Broken),
            Looked::Found(_) | Looked::Hidden if !self.objects.is_empty() => {}
            looked => self.end = Some(looked),
        }
        true
    }

    fn finish(mut self) -> Looked {
        if let Some(looked) = self.end {
            return looked;
        }
        let Some((at, mut object)) = self.objects.pop() else { return Looked::Absent };
        while let Some((_, newer)) = self.objects.pop() {
            object.merge(newer);
        }
        Looked::Found(Value { kind: Kind::Object(object), at, substituted: false })
    }
}
