// Step by step through the list: the state of streams, events, tensors and memory in the order of
// the program.

const AROUND = 7;

class Steps {
  constructor(profile, view, panel) {
    Object.assign(this, { profile, view, panel });
  }

  // The step is the selected instruction.
  show() {
    const { profile, view } = this;
    const { numbering } = profile;
    const last = numbering.global(profile.count - 1);
    const at = Math.max(0, view.selected);
    const go = (to) => () => view.step(to);
    const button = (text, to, title) => element('button', text, {
      type: 'button', onclick: go(to), title,
    });
    const number = element('input', [], {
      type: 'number', min: String(numbering.global(0)), max: String(last),
      value: String(numbering.global(at)), 'aria-label': 'Step',
    });
    number.addEventListener('change', () => {
      const wanted = Math.min(Math.max(Math.round(number.valueAsNumber) || 0, 0), last);
      const to = numbering.local(wanted);
      view.step(to === NONE ? at : to);
    });
    const controls = element('p', [
      button('«', 0, 'First'), ' ', button('‹', at - 1, 'Back (,)'), ' ', number, ' of ',
      formatCount(last), ' ', button('›', at + 1, 'Forward (.)'), ' ',
      button('»', profile.count - 1, 'Last'),
    ]);
    const parts = [this.lines(at), this.streams(at), this.events(at), this.memory(at)];
    this.panel.replaceChildren(controls, element('div', parts, { class: 'state' }));
  }

  line(k) {
    const { profile } = this;
    const names = [];
    for (let o = profile.operandsFrom[k]; o < profile.operandsTo[k]; o++) {
      const arrow = profile.operandAccess[o] & 2 ? '→' : '';
      names.push(arrow + profile.tensors[profile.operandTensor[o]].name);
    }
    const on = profile.stream[k] === NONE ? '' : ` on ${profile.streamOf(k)}`;
    return `${profile.nameOf(k)} ${names.join(' ')}${on}`;
  }

  section(title, header, rows) {
    const head = element('tr', header.map((text) => element('th', text)));
    const table = element('table', [element('thead', head), element('tbody', rows)]);
    return element('div', [element('h3', title), table]);
  }

  lines(at) {
    const { numbering } = this.profile;
    const rows = [];
    const last = Math.min(this.profile.count - 1, at + AROUND);
    for (let k = Math.max(0, at - AROUND); k <= last; k++) {
      const cells = [String(numbering.global(k)), this.line(k)];
      const row = element('tr', cells.map((text) => element('td', text)));
      row.dataset.to = '';
      if (k === at) row.className = 'current';
      row.addEventListener('click', () => this.view.step(k));
      rows.push(row);
    }
    return this.section('List', ['', 'instruction'], rows);
  }

  // For each stream, the last instruction that was submitted.
  streams(at) {
    const { profile } = this;
    const rows = profile.streams.flatMap(({ name }, stream) => {
      const own = profile.byStream.of(stream);
      const given = lowerBound(own, at + 1);
      if (own.length === 0) return [];
      const last = given > 0 ? this.line(own[given - 1]).replace(/ on .*$/, '') : 'nothing yet';
      const cells = [name, `${given} of ${own.length}`, last];
      return [element('tr', cells.map((text) => element('td', text)))];
    });
    return this.section('Streams', ['stream', 'given', 'last'], rows);
  }

  // The records so far, the newest first, and what has waited for each.
  events(at) {
    const { profile } = this;
    const rows = [];
    for (let k = at; k >= 0 && rows.length < 8; k--) {
      if (profile.role[k] !== ROLE.record) continue;
      const waits = [...profile.waitsUntil.of(k)].filter((wait) => {
        return !profile.isElided(wait) && profile.waitWaiter[wait] <= at;
      });
      const by = waits.map((wait) => profile.streamOf(profile.waitWaiter[wait]));
      const cells = [
        String(profile.numbering.global(k)), profile.streamOf(k),
        by.length ? by.join(', ') : 'nobody yet',
      ];
      rows.push(element('tr', cells.map((text) => element('td', text))));
    }
    if (!rows.length) return '';
    return this.section('Events', ['record', 'on', 'awaited by'], rows);
  }

  // The storages that live, with their tensors' names.
  memory(at) {
    const { profile } = this;
    const taken = profile.arenas.map(() => 0);
    const live = [];
    for (let k = 0; k < profile.storageArena.length; k++) {
      const [made, released] = [profile.storageAllocated[k], profile.storageReleased[k]];
      const isLive = (made === NONE || made <= at) && (released === NONE || released > at);
      if (!isLive || profile.storageTensor[k] === NONE) continue;
      live.push(k);
      taken[profile.storageArena[k]] += profile.storageSize[k];
    }
    const newest = live.reverse().slice(0, 14);
    const rows = newest.map((storage) => {
      const last = profile.storageLastUse[storage];
      const until = profile.isHere(last) ? profile.numbering.global(last) : 'after this range';
      const later = last <= at ? 'no later use' : `used until ${until}`;
      const use = last === NONE ? 'never used' : later;
      const size = formatBytes(profile.storageSize[storage]);
      const name = `${storageName(profile, storage)} ${storageSpec(profile, storage)}`;
      const cells = [name, size, use];
      return element('tr', cells.map((text) => element('td', text)));
    });
    const sums = profile.arenas.map((arena, k) => `${arena} ${formatBytes(taken[k])}`).join(', ');
    const title = `Tensors: ${formatCount(live.length)} live; ${sums}`;
    return this.section(title, ['newest', 'bytes', ''], rows);
  }
}
