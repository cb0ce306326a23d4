//! The search for the divisions of all calls.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{Error, Result, Sharding};

use super::graph::{Node, Numbers, Search, Taking, Use};
use super::{NEVER, PER_BYTE, ROUNDS, Shardings};
use crate::boxing::choice::Pinned;

impl Search<'_> {
    /// Returns how a value is held by the options that are taken.
    fn held(&self, value: usize) -> u32 {
        let (node, result) = self.maker[value];
        let node = &self.nodes[node];
        node.options[node.taken].results[result]
    }

    /// Returns the cost of taking a value that is held so as an operand.
    fn taking(&mut self, node: usize, k: usize, option: usize, held: u32) -> u64 {
        let Node { options, operands, written, .. } = &self.nodes[node];
        let (value, target) = (operands[k], options[option].operands[k]);
        if written[k] && held != target {
            return NEVER;
        }
        self.classes[self.class[value]].received(held, target).saturating_mul(PER_BYTE)
    }

    /// Returns how a requested value is held afterwards, and the bytes received for it.
    fn requested(&mut self, request: usize, held: u32) -> (u32, u64) {
        let (value, entries) = &self.program.requests[request];
        let class = &mut self.classes[self.class[*value]];
        let own = class.shardings[held as usize].clone();
        let sbp = entries.iter().zip(own.sbp()).map(|(entry, own)| entry.unwrap_or(*own));
        let target = Sharding::new(self.program.mesh, sbp);
        let is_legal = |s: &Sharding| s.check(class.dtype, &class.shape).is_ok();
        match target.ok().filter(is_legal) {
            None => (held, NEVER),
            Some(target) => {
                let target = class.number(&target);
                (target, class.received(held, target))
            }
        }
    }

    /// Returns the cost of an option of a node beside the ones that its neighbours have taken. The
    /// neighbours in `but` are left out.
    fn beside(&mut self, node: usize, option: usize, but: [Option<usize>; 2]) -> u64 {
        let is_left_out = |other: usize| but.contains(&Some(other));
        let mut cost = self.nodes[node].options[option].work;
        for k in 0..self.nodes[node].operands.len() {
            let value = self.nodes[node].operands[k];
            let maker = self.maker[value].0;
            if self.follows(maker) {
                let operands = self.nodes[node].operands.iter();
                let own = operands.zip(&self.nodes[node].options[option].operands);
                let own = own.filter(|(of, _)| **of == value).map(|(_, number)| *number);
                let key = (value, own.collect::<Numbers>());
                let known = self.following.get(&key).copied();
                let of_input =
                    known.unwrap_or_else(|| self.following_of(value, Some((node, option))).1);
                self.following.insert(key, of_input);
                cost = cost.saturating_add(of_input);
            } else if !is_left_out(maker) {
                let held = self.held(value);
                cost = cost.saturating_add(self.taking(node, k, option, held));
            }
        }
        for at in 0..self.nodes[node].made.len() {
            let (value, result) = self.nodes[node].made[at];
            let held = self.nodes[node].options[option].results[result];
            for used in 0..self.uses[value].len() {
                cost = cost.saturating_add(match self.uses[value][used] {
                    Use::Operand(other, _) if is_left_out(other) => 0,
                    Use::Operand(other, k) => {
                        let taken = self.nodes[other].taken;
                        self.taking(other, k, taken, held)
                    }
                    Use::Request(request) => {
                        self.requested(request, held).1.saturating_mul(PER_BYTE)
                    }
                });
            }
        }
        cost
    }

    /// Returns for each option of a node the cheapest option of the one before it in a chain, with
    /// the cost of both up to there. `costs` are those of the options before. Options that hand
    /// over alike are looked at together.
    fn ways(&mut self, last: usize, costs: &[u64], node: usize) -> Vec<(u64, usize)> {
        let links = self.nodes[node].operands.iter().enumerate();
        let links = links.map(|(k, value)| (k, self.maker[*value]));
        let links = links.filter(|(_, (maker, _))| *maker == last);
        let links: SmallVec<[(usize, usize); 2]> = links.map(|(k, (_, made))| (k, made)).collect();
        let mut handed: Vec<(Numbers, u64, usize)> = Vec::new();
        let mut known: FxHashMap<Numbers, usize> = FxHashMap::default();
        for (option, cost) in costs.iter().enumerate() {
            let results = &self.nodes[last].options[option].results;
            let numbers: Numbers = links.iter().map(|(_, made)| results[*made]).collect();
            let at = *known.entry(numbers.clone()).or_insert(handed.len());
            match handed.get_mut(at) {
                None => handed.push((numbers, *cost, option)),
                Some(best) if *cost < best.1 => (best.1, best.2) = (*cost, option),
                Some(_) => {}
            }
        }
        let mut taken: FxHashMap<Numbers, (u64, usize)> = FxHashMap::default();
        let mut ways = Vec::with_capacity(self.nodes[node].options.len());
        for option in 0..self.nodes[node].options.len() {
            let operands = &self.nodes[node].options[option].operands;
            let numbers: Numbers = links.iter().map(|(k, _)| operands[*k]).collect();
            if let Some(way) = taken.get(&numbers) {
                ways.push(*way);
                continue;
            }
            let mut best = (u64::MAX, 0);
            for (held, cost, of_last) in &handed {
                let of_links = links.iter().zip(held).fold(*cost, |cost, ((k, _), held)| {
                    cost.saturating_add(self.taking(node, *k, option, *held))
                });
                if of_links < best.0 {
                    best = (of_links, *of_last);
                }
            }
            taken.insert(numbers, best);
            ways.push(best);
        }
        ways
    }

    pub(super) fn run(&mut self) {
        self.forward();
        for round in 0..ROUNDS {
            let mut is_changed = false;
            for chain in self.chains(round % 2 == 0) {
                is_changed |= self.improve(&chain);
            }
            if !is_changed && round > 0 {
                break;
            }
        }
    }

    /// Has each node take what is the cheapest by its operands.
    fn forward(&mut self) {
        for node in 0..self.nodes.len() {
            // Nodes behind this one have taken nothing yet.
            let cost = |search: &mut Search<'_>, option: usize| {
                let mut cost = search.nodes[node].options[option].work;
                for k in 0..search.nodes[node].operands.len() {
                    let value = search.nodes[node].operands[k];
                    let maker = search.maker[value].0;
                    let ways = match search.follows(maker) {
                        true => 0..search.nodes[maker].options.len(),
                        false => search.nodes[maker].taken..search.nodes[maker].taken + 1,
                    };
                    let of_way = |way: usize| {
                        let Taking { results, work, .. } = &search.nodes[maker].options[way];
                        let own = if search.follows(maker) { *work } else { 0 };
                        let held = results[search.maker[value].1];
                        search.taking(node, k, option, held).saturating_add(own)
                    };
                    cost = cost.saturating_add(ways.map(of_way).min().unwrap_or(NEVER));
                }
                cost
            };
            let options = 0..self.nodes[node].options.len();
            let costs: Vec<u64> = options.map(|option| cost(self, option)).collect();
            self.nodes[node].taken = least(&costs);
        }
        self.follow();
    }

    /// Returns whether a node is an input that is open.
    fn follows(&self, node: usize) -> bool {
        self.nodes[node].operands.is_empty() && self.nodes[node].options.len() > 1
    }

    /// Returns the option of an open input that suits its uses best, and its cost with them, if a
    /// node takes another option than it has.
    fn following_of(&mut self, value: usize, other: Option<(usize, usize)>) -> (usize, u64) {
        let node = self.maker[value].0;
        let mut costs = Vec::with_capacity(self.nodes[node].options.len());
        for option in 0..self.nodes[node].options.len() {
            let Taking { results, work, .. } = &self.nodes[node].options[option];
            let (held, mut cost) = (results[0], *work);
            for used in 0..self.uses[value].len() {
                cost = cost.saturating_add(match self.uses[value][used] {
                    Use::Operand(user, k) => {
                        let taken = match other {
                            Some((node, option)) if node == user => option,
                            _ => self.nodes[user].taken,
                        };
                        self.taking(user, k, taken, held)
                    }
                    Use::Request(request) => {
                        self.requested(request, held).1.saturating_mul(PER_BYTE)
                    }
                });
            }
            costs.push(cost);
        }
        let best = least(&costs);
        (best, costs[best])
    }

    /// Has all open inputs take what suits their uses best.
    fn follow(&mut self) {
        for value in 0..self.program.values.len() {
            if self.maker[value].1 == 0 && self.follows(self.maker[value].0) {
                let node = self.maker[value].0;
                self.nodes[node].taken = self.following_of(value, None).0;
            }
        }
    }

    /// Returns chains of nodes that together have each node once. Each node is followed by the
    /// first node that uses its results and follows no other, or by the last one.
    fn chains(&self, first: bool) -> Vec<Vec<usize>> {
        let mut is_next = vec![false; self.nodes.len()];
        let mut next: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for (node, next) in next.iter_mut().enumerate() {
            if self.follows(node) {
                continue;
            }
            let uses = self.nodes[node].made.iter().flat_map(|(value, _)| &self.uses[*value]);
            let users = uses.filter_map(|used| match used {
                Use::Operand(user, _) => Some(*user),
                Use::Request(_) => None,
            });
            let free = users.filter(|user| *user > node && !is_next[*user]);
            *next = if first { free.min() } else { free.max() };
            if let Some(next) = *next {
                is_next[next] = true;
            }
        }
        let starts = (0..self.nodes.len()).filter(|node| !is_next[*node] && !self.follows(*node));
        starts
            .map(|start| std::iter::successors(Some(start), |node| next[*node]).collect())
            .collect()
    }

    /// Has the nodes of a chain take what is the cheapest together, where that is cheaper than what
    /// they have.
    fn improve(&mut self, chain: &[usize]) -> bool {
        // By option of the last node: the least cost of the chain up to it, and the options before.
        let mut costs: Vec<u64> = Vec::new();
        let mut before: Vec<Vec<usize>> = Vec::new();
        for (at, node) in chain.iter().copied().enumerate() {
            let (last, next) = (at.checked_sub(1).map(|at| chain[at]), chain.get(at + 1).copied());
            self.following.clear();
            let own: Vec<u64> = (0..self.nodes[node].options.len())
                .map(|option| self.beside(node, option, [last, next]))
                .collect();
            let Some(last) = last else {
                costs = own;
                continue;
            };
            let ways = self.ways(last, &costs, node);
            costs = own.iter().zip(&ways).map(|(own, (way, _))| own.saturating_add(*way)).collect();
            before.push(ways.into_iter().map(|(_, option)| option).collect());
        }
        let now = self.total();
        let was: Vec<usize> = chain.iter().map(|node| self.nodes[*node].taken).collect();
        let mut option = least(&costs);
        for (at, node) in chain.iter().enumerate().rev() {
            self.nodes[*node].taken = option;
            if let Some(at) = at.checked_sub(1) {
                option = before[at][option];
            }
        }
        self.follow();
        // Nodes of a chain may also be neighbours over others, or share an input.
        if self.total() < now {
            return true;
        }
        for (node, was) in chain.iter().zip(was) {
            self.nodes[*node].taken = was;
        }
        self.follow();
        false
    }

    /// Returns the cost of all options that are taken.
    pub(super) fn total(&mut self) -> u64 {
        let mut cost = 0u64;
        for node in 0..self.nodes.len() {
            let option = self.nodes[node].taken;
            cost = cost.saturating_add(self.nodes[node].options[option].work);
            for k in 0..self.nodes[node].operands.len() {
                let held = self.held(self.nodes[node].operands[k]);
                cost = cost.saturating_add(self.taking(node, k, option, held));
            }
        }
        for request in 0..self.program.requests.len() {
            let held = self.held(self.program.requests[request].0);
            let received = self.requested(request, held).1;
            cost = cost.saturating_add(received.saturating_mul(PER_BYTE));
        }
        cost
    }

    pub(super) fn result(mut self) -> Result<Shardings> {
        let program = self.program;
        let mut received = 0u64;
        for call in 0..self.calls.len() {
            let node = self.calls[call];
            let option = self.nodes[node].taken;
            for k in 0..self.nodes[node].operands.len() {
                let value = self.nodes[node].operands[k];
                let held = self.held(value);
                let cost = self.taking(node, k, option, held);
                if cost >= NEVER {
                    let held = &self.classes[self.class[value]].shardings[held as usize];
                    let message = format!(
                        "it cannot take operand {k}, {}, held as {held}, in a way that the op has; \
                         redistribute it to B first, or call the op that returns a new tensor",
                        program.values[value].spec.brief()
                    );
                    return Err(Error::Op {
                        op: program.calls[call].op.name().to_owned(),
                        message,
                    });
                }
                let target = self.nodes[node].options[option].operands[k];
                received = received
                    .saturating_add(self.classes[self.class[value]].path_bytes(held, target));
            }
        }
        let mut requests = Vec::new();
        for (request, (value, _)) in program.requests.iter().enumerate() {
            let held = self.held(*value);
            let (target, cost) = self.requested(request, held);
            let class = &self.classes[self.class[*value]];
            if cost >= NEVER {
                let message = format!(
                    "{} held as {} cannot become what the program requests",
                    program.values[*value].spec.brief(),
                    class.shardings[held as usize]
                );
                return Err(Error::Invalid { what: "sharding", message });
            }
            received = received.saturating_add(class.path_bytes(held, target));
            requests.push(class.shardings[target as usize].clone());
        }
        let sharding = |value: usize, number: u32| {
            self.classes[self.class[value]].shardings[number as usize].clone()
        };
        let values = (0..program.values.len()).map(|value| sharding(value, self.held(value)));
        let calls = program.calls.iter().zip(&self.calls).map(|(call, node)| {
            let node = &self.nodes[*node];
            let taken = &node.options[node.taken];
            let all = |values: &[usize], numbers: &[u32]| {
                values
                    .iter()
                    .zip(numbers)
                    .map(|(value, number)| sharding(*value, *number))
                    .collect()
            };
            Pinned {
                operands: all(&call.operands, &taken.operands),
                results: all(&call.results, &taken.results),
            }
        });
        Ok(Shardings { values: values.collect(), calls: calls.collect(), requests, received })
    }
}

/// Returns the place of the first least cost.
fn least(costs: &[u64]) -> usize {
    let order = |(_, a): &(usize, &u64), (_, b): &(usize, &u64)| a.cmp(b);
    costs.iter().enumerate().min_by(order).map_or(0, |(at, _)| at)
}
