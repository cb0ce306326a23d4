//! The interpreter of the rules, which reads their text once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use millstream_ops::random::SEED;
use millstream_types::{AttrValue, DType};

use super::create::create;
use super::rules::RULES;
use super::{Made, Node, same};
use crate::et::args::{self, Binder, NodeArgs};
use crate::et::import::{Lowered, Refusal, Val};
use crate::et::value::Arg;

/// A rule.
pub(super) struct Rule {
    overload: Option<&'static str>,
    /// An argument that must be given, and the text that it has.
    needs: Option<(&'static str, Option<&'static str>)>,
    formula: Arc<Term>,
}

/// A part of a formula.
enum Term {
    /// A parameter of PyTorch's op, or the name of a dtype; alone, an op that has all parameters.
    Word(&'static str),
    Value(AttrValue),
    List(Vec<Term>),
    Call(Formula),
}

/// A call of a formula.
struct Formula {
    op: &'static str,
    args: Vec<(Option<&'static str>, Term)>,
    /// Whether the parameters that the rule does not name follow.
    rest: bool,
    /// The only result that counts.
    result: Option<usize>,
}

static BY_NAME: LazyLock<HashMap<&'static str, Vec<Rule>>> = LazyLock::new(|| {
    let mut rules: HashMap<&str, Vec<Rule>> = HashMap::new();
    for (name, rule) in lines().filter_map(parse).flatten() {
        rules.entry(name).or_default().push(rule);
    }
    rules
});

/// Returns the text of each rule.
fn lines() -> impl Iterator<Item = &'static str> {
    let mut rest = RULES.trim_start();
    std::iter::from_fn(move || {
        let starts = |at: &usize| !rest[*at..].starts_with(' ');
        let end = rest.match_indices('\n').map(|(at, _)| at + 1).find(starts)?;
        let (line, next) = rest.split_at(end);
        rest = next;
        Some(line.trim_end())
    })
    .filter(|line| !line.starts_with('#'))
}

/// Reads the rule of one op or several.
fn parse(line: &'static str) -> Option<Vec<(&'static str, Rule)>> {
    let (keys, mut text) = line.split_once(" = ")?;
    let formula = term(&mut text).filter(|_| text.is_empty())?;
    let formula = Arc::new(formula);
    let rule = |key: &'static str| {
        let (name, needs) = match key.split_once('(') {
            Some((name, needs)) => (name, Some(needs.strip_suffix(')')?)),
            None => (key, None),
        };
        let needs = needs.map(|needs| match needs.split_once('=') {
            Some((param, text)) => (param, Some(text.trim_matches('\''))),
            None => (needs, None),
        });
        let (name, overload) = match name.split_once('.') {
            Some((name, overload)) => (name, Some(overload)),
            None => (name, None),
        };
        Some((name, Rule { overload, needs, formula: formula.clone() }))
    };
    keys.split(',').map(|key| rule(key.trim())).collect()
}

/// Takes what a predicate holds for from the start of a text.
fn take(text: &mut &'static str, is_part: impl Fn(char) -> bool) -> &'static str {
    let (part, rest) = text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()));
    *text = rest;
    part
}

fn token(text: &mut &'static str, token: &str) -> bool {
    let rest = text.trim_start().strip_prefix(token);
    *text = rest.unwrap_or(text);
    rest.is_some()
}

fn term(text: &mut &'static str) -> Option<Term> {
    *text = text.trim_start();
    if token(text, "'") {
        let inner = take(text, |c| c != '\'');
        return token(text, "'").then(|| Term::Value(inner.into()));
    }
    if token(text, "[") {
        let mut list = Vec::new();
        while !token(text, "]") {
            list.push(term(text)?);
            token(text, ",");
        }
        return Some(Term::List(list));
    }
    if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        let number = take(text, |c| c == '-' || c == '.' || c.is_ascii_digit());
        let float = || number.parse().ok().map(AttrValue::Float);
        return number.parse().ok().map(AttrValue::Int).or_else(float).map(Term::Value);
    }
    let word = take(text, |c| c == '_' || c.is_ascii_alphanumeric());
    if !token(text, "(") {
        return Some(match word {
            "" => return None,
            "true" | "false" => Term::Value(AttrValue::Bool(word == "true")),
            "pi" => Term::Value(AttrValue::Float(std::f64::consts::PI)),
            _ => Term::Word(word),
        });
    }
    let mut call = Formula { op: word, args: Vec::new(), rest: false, result: None };
    while !token(text, ")") {
        if token(text, "..") {
            call.rest = true;
        } else {
            let first = term(text)?;
            call.args.push(match (token(text, "="), first) {
                (true, Term::Word(name)) => (Some(name), term(text)?),
                (true, _) => return None,
                (false, first) => (None, first),
            });
        }
        token(text, ",");
    }
    if token(text, ".") {
        call.result = Some(take(text, |c| c.is_ascii_digit()).parse().ok()?);
    }
    Some(Term::Call(call))
}

impl Term {
    /// Returns whether the formula names a parameter.
    fn names(&self, param: &str) -> bool {
        match self {
            Term::Word(word) => *word == param,
            Term::Value(_) => false,
            Term::List(list) => list.iter().any(|term| term.names(param)),
            Term::Call(call) => call.args.iter().any(|(_, term)| term.names(param)),
        }
    }
}

/// Returns the rule of a call of an op, named without namespace and overload, if there is one. An
/// op of the program's own that has the name of one of PyTorch's goes before a rule.
pub(super) fn find(node: &Node<'_, '_>, name: &str) -> Option<&'static Rule> {
    let given = node.given;
    let overload = given.signature.name.split_once('.').map_or("", |(_, overload)| overload);
    let overload = overload.strip_suffix("out").unwrap_or(overload).trim_end_matches('_');
    let fits = |rule: &&Rule| {
        rule.overload.is_none_or(|own| own == overload)
            && rule.needs.is_none_or(|(param, text)| match (given.get(param), text) {
                (Some((_, Arg::Str(given))), Some(text)) => given == text,
                (given, text) => {
                    text.is_none() && given.is_some_and(|(_, arg)| *arg != Arg::Undefined)
                }
            })
    };
    let rule = BY_NAME.get(name)?.iter().find(fits)?;
    let is_own = rule.overload.is_some() || rule.needs.is_some() || rule.op() == name;
    let ops = node.import.ops();
    (is_own || ops.find(name).is_none() || ops.is_standard(name)).then_some(rule)
}

impl Rule {
    /// Returns the op of the last call.
    pub(super) fn op(&self) -> &'static str {
        match &*self.formula {
            Term::Word(op) => op,
            Term::Call(call) => call.op,
            Term::Value(_) | Term::List(_) => "",
        }
    }

    /// Returns the op that takes all arguments as they are, if the rule only renames an op.
    pub(super) fn renamed(&self) -> Option<&'static str> {
        matches!(*self.formula, Term::Word(_)).then(|| self.op())
    }

    /// Makes the calls.
    pub(super) fn apply(&self, node: &mut Node<'_, '_>) -> Lowered<Made> {
        match &*self.formula {
            Term::Call(call) => Calls { node, rule: self }.made(call),
            _ => same(node, self.op()),
        }
    }
}

/// Makes the calls of a formula.
struct Calls<'c, 'n, 'i> {
    node: &'c mut Node<'n, 'i>,
    rule: &'c Rule,
}

impl Calls<'_, '_, '_> {
    fn made(&mut self, formula: &Formula) -> Lowered<Made> {
        let given = self.node.given;
        match (formula.op, &formula.args[..]) {
            ("zeros" | "zeros_like", _) => return create(self.node, formula.op),
            // A conversion to a dtype that is given and another one.
            ("as", [(_, x), (_, dtype)]) => {
                let x = self.operand(x)?;
                return Ok(vec![Some(match self.value(dtype)? {
                    Some(AttrValue::DType(dtype)) => self.node.import.cast(x, dtype)?,
                    _ => x,
                })]);
            }
            _ => {}
        }
        let mut binder = Binder::new(self.node, formula.op)?;
        for (name, term) in &formula.args {
            match (name, term) {
                (Some(name), term) => {
                    if let Some(value) = self.value(term)? {
                        binder.set(name, value);
                    }
                }
                (None, Term::Word(param)) => {
                    binder.bind(self.node.import, index(given, param)?, true)?
                }
                (None, term) => {
                    let operand = self.operand(term)?;
                    binder.operand(operand);
                }
            }
        }
        for (k, param) in given.signature.params.iter().enumerate() {
            if formula.rest && !self.rule.formula.names(&param.name) {
                binder.bind(self.node.import, k, false)?;
            }
        }
        if let Some(only) = binder.stands_for() {
            return Ok(vec![Some(only)]);
        }
        let draws = binder.knows(SEED);
        let mut converted = binder.finish(self.node.import)?;
        if draws && converted.attrs.get(SEED).is_none() {
            converted.attrs = self.node.import.next_draw(converted.attrs);
        }
        let mut made = self.node.import.made(formula.op, converted)?;
        if let Some(only) = formula.result {
            made = made.into_iter().skip(only).take(1).collect();
        }
        Ok(made)
    }

    fn operand(&mut self, term: &Term) -> Lowered<Val> {
        match term {
            Term::Word(param) => self.node.tensor(param),
            Term::Call(call) => {
                let made = self.made(call)?.first().copied().flatten();
                made.ok_or_else(|| Refusal::Wrong(format!("'{}' returns no tensor", call.op)))
            }
            Term::Value(_) | Term::List(_) => {
                Err(Refusal::Wrong("expected a tensor, not a value".to_owned()))
            }
        }
    }

    /// Returns the value of an argument; `None` if PyTorch's op lacks it.
    fn value(&mut self, term: &Term) -> Lowered<Option<AttrValue>> {
        Ok(match term {
            Term::Value(value) => Some(value.clone()),
            Term::List(list) => {
                let mut ints = Vec::new();
                for term in list {
                    match self.value(term)? {
                        Some(AttrValue::Int(v)) => ints.push(v),
                        _ => return Err(Refusal::Wrong("expected integers".to_owned())),
                    }
                }
                Some(AttrValue::Ints(ints))
            }
            Term::Word(word) => match word.parse::<DType>() {
                Ok(dtype) if index(self.node.given, word).is_err() => Some(dtype.into()),
                _ => args::value_of(self.node.given, index(self.node.given, word)?)?,
            },
            // `rate` is that of exponential numbers whose whole part is 0 with a probability.
            Term::Call(call) => {
                let [(None, of)] = &call.args[..] else {
                    return Err(Refusal::Wrong(format!("'{}' has one argument", call.op)));
                };
                if call.op == "rate" {
                    let Some(AttrValue::Float(p)) = self.value(of)? else { return Ok(None) };
                    return Ok(Some(AttrValue::Float(-(-p).ln_1p())));
                }
                let of = self.operand(of)?;
                Some(match call.op {
                    "dtype" => self.node.import.spec(of).dtype.into(),
                    _ => self.node.import.shape_of(of).into(),
                })
            }
        })
    }
}

/// Returns the number of a parameter.
fn index(given: &NodeArgs<'_>, name: &str) -> Lowered<usize> {
    let index = given.signature.params.iter().position(|param| param.name == name);
    index.ok_or_else(|| {
        Refusal::Wrong(format!("its schema has no '{name}', which its lowering needs"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rules_are_formulas_of_known_ops() {
        let ops = millstream_ops::standard();
        fn calls<'t>(term: &'t Term, found: &mut Vec<&'t str>) {
            let Term::Call(call) = term else { return };
            found.push(call.op);
            call.args.iter().for_each(|(name, term)| {
                // The formula of an argument is the shape of a tensor.
                if name.is_none() {
                    calls(term, found);
                }
            });
        }
        for line in lines() {
            let rules = parse(line).unwrap_or_else(|| panic!("{line}"));
            let rule = &rules[0].1;
            let mut found = vec![rule.op()];
            calls(&rule.formula, &mut found);
            for op in found {
                let is_composite = millstream_ops::composite::find(op).is_some();
                let is_known = ops.find(op).is_some() || is_composite;
                assert!(is_known || ["as", "zeros", "zeros_like"].contains(&op), "{line}: {op}");
            }
        }
    }
}
