// The panel beside the timeline: one instruction.

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

  // Nothing is selected, or a range.
  overview() { this.panel.replaceChildren(...new Overview(this.profile, this.view).parts()); }

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
    const steps = profile.stepsOf.of(k).filter(profile.isTimed);
    if (steps.length) pairs.push(['runs', this.stepsOf(steps)]);
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

  // The instructions of the list that a launch runs: their number, and the longest.
  stepsOf(steps) {
    const { profile } = this;
    const time = (k) => profile.end[k] - profile.start[k];
    const longest = [...steps].sort((a, b) => time(b) - time(a)).slice(0, 5);
    const links = longest.flatMap((k) => [' ', this.link(k)]);
    return element('span', [`${counted(steps.length, 'instruction')}; the longest:`, ...links]);
  }

  operands(k) {
    const { profile } = this;
    const rows = [];
    for (let at = profile.operandsFrom[k]; at < profile.operandsTo[k]; at++) {
      const access = ['', 'reads', 'writes', 'reads and writes'][profile.operandAccess[at]];
      const tensor = profile.tensors[profile.operandTensor[at]];
      const name = tensorName(profile, profile.operandTensor[at]);
      const item = element('li', `${access} ${name} ${tensor.spec}`);
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
    const later = [...profile.waitsUntil.of(k), ...waitsOfRecord(profile, k)];
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

  reason(wait) {
    const { profile } = this;
    const names = [...profile.tensorsOfWait(wait)].map((t) => tensorName(profile, t));
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
    const names = [...profile.tensorsOfWait(wait)].map((t) => tensorName(profile, t)).join(', ');
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
}
