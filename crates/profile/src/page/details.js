// The panel beside the timeline: one instruction, or the memory at a moment.

function element(tag, content = [], attributes = {}) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'onclick') made.addEventListener('click', value);
    else made.setAttribute(name, value);
  }
  made.append(...[content].flat());
  return made;
}

const facts = (pairs) => element('dl', pairs.flatMap(([term, value]) => [
  element('dt', term), element('dd', value),
]));

class Details {
  constructor(profile, view, panel) {
    Object.assign(this, { profile, view, panel });
  }

  link(k, text = this.describe(k)) {
    const onclick = () => this.view.select(k);
    return element('button', text, { class: 'link', type: 'button', onclick });
  }

  describe(k) {
    const { profile } = this;
    if (profile.stream[k] === NONE) return `${profile.nameOf(k)} by the program`;
    return `${profile.nameOf(k)} on ${profile.streamOf(k)} (${profile.seq[k]})`;
  }

  clear() {
    const hint = 'Click an instruction to see what it waited for and who waited for it, or the '
      + 'memory curve to see who holds it.';
    this.panel.replaceChildren(element('p', hint, { class: 'why' }));
  }

  instruction(k) {
    const { profile } = this;
    const outcome = ['', 'failed: its outputs are poisoned', 'skipped: an operand is poisoned'];
    const parts = [element('h2', this.describe(k))];
    if (profile.outcome[k]) parts.push(element('p', outcome[profile.outcome[k]], { class: 'bad' }));
    const pairs = [];
    const time = (name, value) => { if (value >= 0) pairs.push([name, formatTime(value)]); };
    if (profile.start[k] >= 0) pairs.push(['takes', formatTime(profile.end[k] - profile.start[k])]);
    time('submitted', profile.issued[k]);
    if (profile.ready[k] !== profile.start[k]) time('its turn', profile.ready[k]);
    time('begins', profile.start[k]);
    time('ends', profile.end[k]);
    if (profile.placeOf(k)) pairs.push(['place', profile.placeOf(k)]);
    const asked = profile.arguments[profile.argument[k]];
    if (asked) pairs.push(['arguments', asked]);
    pairs.push(['instruction', formatCount(profile.numbering.global(k))]);
    if (profile.parent[k] !== NONE) pairs.push(['step of', this.link(profile.parent[k])]);
    const submitter = profile.submitter[k];
    if (submitter !== NONE) pairs.push(['submitted by', this.link(submitter)]);
    const submitted = profile.submittedBy.of(k);
    if (submitted.length) {
      pairs.push(['submits', [...submitted.slice(0, 20)].map((own) => this.link(own))]);
    }
    parts.push(facts(pairs));
    parts.push(...this.operands(k), ...this.waits(k));
    this.panel.replaceChildren(...parts);
  }

  operands(k) {
    const { profile } = this;
    const rows = [];
    for (let at = profile.operandsFrom[k]; at < profile.operandsTo[k]; at++) {
      const access = ['', 'reads', 'writes', 'reads and writes'][profile.operandAccess[at]];
      const tensor = profile.tensors[profile.operandTensor[at]];
      const item = element('li', `${access} ${tensor.name} ${tensor.spec}`);
      item.append(element('span', this.placement(tensor.storage), { class: 'why' }));
      rows.push(item);
    }
    if (!rows.length) return [];
    return [element('h3', 'Operands'), element('ul', rows)];
  }

  placement(storage) {
    const { profile } = this;
    const arena = profile.arenas[profile.storageArena[storage]];
    const offset = profile.storageOffset[storage];
    const size = formatBytes(profile.storageSize[storage]);
    // A timeline of another program does not say where its tensors are.
    if (arena === undefined) return `storage ${storage}, at least ${size}`;
    if (offset < 0) return `${size} of ${arena}, from before the run`;
    const earlier = reusedBy(profile, storage);
    const reuse = earlier < 0 ? '' : `; takes over bytes of ${storageName(profile, earlier)}`;
    return `${size} of ${arena} at ${formatCount(offset)}${reuse}`;
  }

  // What an instruction waited for, who waited for it, and which waits were not needed.
  waits(k) {
    const { profile } = this;
    const own = [...new Set([...profile.waitsOf.of(k), ...profile.waitsOfUser.of(k)])];
    const made = own.filter((wait) => !profile.isElided(wait));
    const elided = own.filter((wait) => profile.isElided(wait));
    const later = [...profile.waitsUntil.of(k), ...this.waitsOfRecord(k)];
    const parts = [];
    const list = (title, items) => {
      if (items.length) parts.push(element('h3', `${title} (${items.length})`));
      parts.push(element('ul', items.slice(0, 50)));
    };
    list('Waited for', made.map((wait) => this.madeWait(wait)));
    list('Waited for it', later.filter((wait) => !profile.isElided(wait)).map((wait) => {
      const known = profile.waitUser[wait] !== NONE;
      const user = known ? profile.waitUser[wait] : profile.waitWaiter[wait];
      return element('li', [this.link(user), this.reason(wait)]);
    }));
    list('Waits that were not needed', elided.map((wait) => this.elidedWait(wait)));
    return parts;
  }

  // The waits for records right behind an instruction.
  waitsOfRecord(k) {
    const { profile } = this;
    if (profile.stream[k] === NONE) return [];
    const own = profile.byStream.of(profile.stream[k]);
    const waits = [];
    for (let at = lowerBound(own, k) + 1; at < own.length; at++) {
      if (profile.role[own[at]] !== ROLE.record) break;
      waits.push(...profile.waitsUntil.of(own[at]));
    }
    return waits;
  }

  reason(wait) {
    const { profile } = this;
    const names = [...profile.tensorsOfWait(wait)].map((t) => profile.tensors[t].name);
    const how = profile.waitResolution[wait] === 0 ? 'the device waits' : 'the worker waits';
    const why = names.length ? `for ${names.join(', ')}` : 'as the program asked';
    return element('span', `${why}; ${how}`, { class: 'why' });
  }

  // What a wait is for.
  awaited(wait) {
    const until = this.profile.waitUntil[wait];
    const outside = this.profile.isWhole ? 'something before the list' : 'something out of range';
    return until === NONE ? outside : this.link(this.profile.workBefore(until));
  }

  madeWait(wait) {
    const { profile } = this;
    const waiter = profile.waitWaiter[wait];
    const item = element('li', [this.awaited(wait), this.reason(wait)]);
    const blocked = profile.end[waiter] - profile.start[waiter];
    if (profile.start[waiter] >= 0) {
      const text = blocked > 0 ? `blocked for ${formatTime(blocked)}` : 'did not block';
      item.append(element('span', text, { class: 'why' }));
    }
    return item;
  }

  elidedWait(wait) {
    const { profile } = this;
    const item = element('li', this.awaited(wait));
    const names = [...profile.tensorsOfWait(wait)].map((t) => profile.tensors[t].name).join(', ');
    const covered = profile.waitCoveredBy[wait];
    const why = element('span', [], { class: 'why' });
    switch (profile.waitResolution[wait]) {
      case 2:
        why.append(`${names}: the stream comes after it already`);
        if (covered !== NONE) {
          why.append(', by ', this.link(covered, `an earlier ${this.describe(covered)}`));
        }
        break;
      case 3:
        why.append(`${names}: the host has waited for it, or a barrier stands between`);
        break;
      default:
        why.append(`${names}: another wait of the same instruction implies it`);
    }
    item.append(why);
    return item;
  }

  // Who holds an arena's memory at a moment.
  memory(arena, time) {
    const { profile } = this;
    const { bytes, extent } = levelAt(profile, arena, time);
    const holders = holdersAt(profile, arena, time);
    const free = extent > 0 ? formatShare(extent - bytes, extent) : '0 %';
    const rows = holders.slice(0, 40).map((storage) => {
      const made = profile.storageAllocated[storage];
      const item = element('li', `${formatBytes(profile.storageSize[storage])}: `);
      const name = storageName(profile, storage);
      item.append(profile.isHere(made) ? this.link(made, name) : name);
      const before = `from before the ${made === NONE ? 'run' : 'range'}`;
      const place = profile.isHere(made) ? profile.placeOf(made) : before;
      item.append(element('span', place, { class: 'why' }));
      return item;
    });
    const parts = [
      element('h2', `Memory of ${profile.arenas[arena]}`),
      facts([
        ['at', formatTime(time)], ['taken', formatBytes(bytes)],
        ['up to', formatBytes(extent)], ['free between', free],
      ]),
      element('h3', `Holders (${holders.length})`), element('ul', rows),
    ];
    if (holders.length > rows.length) parts.push(`and ${holders.length - rows.length} more`);
    this.panel.replaceChildren(...parts);
  }
}
