// The tables below the timeline: streams, ops, waits, the critical path, places, memory, repeats.

const ROWS = 200;

class Tables {
  constructor(profile, view, tabs, panel) {
    Object.assign(this, { profile, view, panel, shown: '' });
    this.steps = new Steps(profile, view, panel);
    this.pages = {
      Streams: () => this.streams(), Ops: () => this.ops(), Waits: () => this.waits(),
      'Critical path': () => this.path(), Places: () => this.places(), Memory: () => this.memory(),
      Repeats: () => this.repeats(),
      'Step by step': () => this.steps.show(),
    };
    this.buttons = Object.keys(this.pages).map((name) => {
      const onclick = () => this.open(name);
      const button = element('button', name, { role: 'tab', type: 'button', onclick });
      tabs.append(button);
      return button;
    });
  }

  open(name) {
    this.shown = name;
    this.view.showsPath = name === 'Critical path';
    for (const button of this.buttons) {
      button.setAttribute('aria-selected', String(button.textContent === name));
    }
    this.pages[name]();
    this.view.timeline.draw();
  }

  // Shows the first rows of a table. Each row is its cells and, if it leads somewhere, a function.
  table(header, all, before = [], count = all.length) {
    const rows = all.slice(0, ROWS);
    const isNumber = (text) => /^[-+]?[\d,.]+( %| [nµm]?s| [KMGT]?i?B)?$/.test(text);
    const numbers = header.map((_, k) => rows.length > 0 && rows.every(([cells]) => {
      return typeof cells[k] !== 'string' || cells[k] === '' || isNumber(cells[k]);
    }) && rows.some(([cells]) => typeof cells[k] === 'string' && cells[k] !== ''));
    const classOf = (k) => (numbers[k] ? { class: 'number' } : {});
    const head = element('tr', header.map((text, k) => element('th', text, classOf(k))));
    const body = rows.map(([cells, go]) => {
      const row = element('tr', cells.map((cell, k) => element('td', cell, classOf(k))));
      if (go) {
        row.dataset.to = '';
        row.tabIndex = 0;
        row.addEventListener('click', go);
        row.addEventListener('keydown', (event) => { if (event.key === 'Enter') go(); });
      }
      return row;
    });
    const table = element('table', [element('thead', head), element('tbody', body)]);
    const left = formatCount(count - rows.length);
    const more = count > rows.length ? [element('p', `and ${left} more`)] : [];
    this.panel.replaceChildren(...before, table, ...more);
  }

  // Sums the time of the instructions that a function keeps, by a key.
  sums(keep, key) {
    const { profile } = this;
    const all = new Map();
    for (let k = 0; k < profile.count; k++) {
      if (!profile.isTimed(k) || !keep(k)) continue;
      const time = profile.end[k] - profile.start[k];
      const sum = all.get(key(k)) ?? { count: 0, time: 0, longest: -1, which: k };
      sum.count++;
      sum.time += time;
      if (time > sum.longest) { sum.longest = time; sum.which = k; }
      all.set(key(k), sum);
    }
    return [...all].sort(([, a], [, b]) => b.time - a.time);
  }

  isWork(k) { return this.profile.role[k] === ROLE.work; }

  streams() {
    const { profile } = this;
    const isWait = (k) => [ROLE.wait, ROLE.fence].includes(profile.role[k]);
    const busy = new Map(this.sums((k) => !isWait(k), (k) => profile.stream[k]));
    const blocked = new Map(this.sums(isWait, (k) => profile.stream[k]));
    const rows = profile.streams.map((stream, k) => {
      const [works, waits] = [busy.get(k), blocked.get(k)];
      const count = (works?.count ?? 0) + (waits?.count ?? 0);
      const bar = element('span', [], {
        class: 'bar', style: `width:${100 * (works?.time ?? 0) / profile.span}px`,
      });
      return [[
        stream.name, formatCount(count), formatTime(works?.time ?? 0),
        formatShare(works?.time ?? 0, profile.span), bar, formatTime(waits?.time ?? 0),
        stream.by_device ? "the device's clock" : '',
      ], count > 0 ? () => this.view.select((works ?? waits).which) : null];
    });
    const used = rows.filter(([cells]) => cells[1] !== '0');
    this.table(['stream', 'instructions', 'busy', 'share', '', 'blocked', 'measured by'], used);
  }

  ops() {
    const { profile } = this;
    const sums = this.sums((k) => this.isWork(k), (k) => profile.name[k]);
    const all = sums.reduce((sum, [, { time }]) => sum + time, 0);
    this.table(['op', 'calls', 'time', 'share', 'mean', 'longest'], sums.map(([name, sum]) => [[
      profile.names[name], formatCount(sum.count), formatTime(sum.time),
      formatShare(sum.time, all), formatTime(sum.time / sum.count), formatTime(sum.longest),
    ], () => this.view.select(sum.which, true)]));
  }

  places() {
    const { profile } = this;
    const sums = this.sums((k) => this.isWork(k), (k) => profile.place[k]);
    this.table(['place', 'instructions', 'time', 'longest is'], sums.map(([place, sum]) => [[
      shortPlace(profile.places[place] ?? 'not known'), formatCount(sum.count), formatTime(sum.time),
      profile.nameOf(sum.which),
    ], () => this.view.select(sum.which, true)]));
  }

  waits() {
    const { profile } = this;
    const all = new Map();
    let elided = 0;
    for (let wait = 0; wait < profile.waitWaiter.length; wait++) {
      if (profile.isElided(wait)) { elided++; continue; }
      const [waiter, until] = [profile.waitWaiter[wait], profile.waitUntil[wait]];
      if (waiter === NONE || until === NONE || profile.stream[waiter] === NONE) continue;
      const user = profile.waitUser[wait] === NONE ? waiter : profile.waitUser[wait];
      const source = profile.workBefore(until);
      const blocked = Math.max(0, profile.end[waiter] - profile.start[waiter]);
      const key = [
        `${profile.nameOf(source)} on ${profile.streamOf(source)}`,
        `${profile.nameOf(user)} on ${profile.streamOf(user)}`, shortPlace(profile.placeOf(user)),
      ];
      const sum = all.get(key.join('\n')) ?? { key, count: 0, blocked: 0, longest: -1, user };
      sum.count++;
      sum.blocked += blocked;
      if (blocked > sum.longest) { sum.longest = blocked; sum.user = user; }
      all.set(key.join('\n'), sum);
    }
    const rows = [...all.values()].sort((a, b) => b.blocked - a.blocked).map((sum) => [
      [...sum.key, formatCount(sum.count), formatTime(sum.blocked)],
      () => this.view.select(sum.user, true),
    ]);
    const text = `${formatCount(elided)} further needs were met without a wait.`;
    this.table(['waits for', 'by', 'at', 'waits', 'blocked'], rows, [element('p', text)]);
  }

  path() {
    const { profile } = this;
    const kinds = [
      '', 'the way to ', 'the program, until it submits ', 'the way to the program, after ',
    ];
    const rows = Array.from(profile.pathKind.subarray(0, ROWS), (kind, k) => {
      const instruction = profile.pathInstruction[k];
      const takes = profile.pathEnd[k] - profile.pathStart[k];
      return [[
        kinds[kind] + profile.nameOf(instruction), profile.streamOf(instruction),
        shortPlace(profile.placeOf(instruction)), formatTime(profile.pathStart[k]),
        formatTime(takes),
        formatShare(takes, profile.span),
      ], () => this.view.select(instruction)];
    });
    const header = ['critical path', 'stream', 'place', 'begins', 'takes', 'share'];
    this.table(header, rows, [], profile.pathKind.length);
  }

  repeats() {
    const { profile } = this;
    const { numbering, repeats } = profile;
    const text = (k) => (numbering.local(k) === NONE ? formatCount(k)
      : shortPlace(profile.placeOf(numbering.local(k))) || formatCount(k));
    const rows = repeats.map(({ calls, rounds, first, depth, around, differing }) => [[
      `${'· '.repeat(depth)}${text(first[0])}`, text(first[1]), formatCount(calls),
      formatCount(rounds), formatShare(calls * rounds, around),
      differing.map(([k]) => text(k)).join(', '),
    ], () => this.view.select(numbering.local(first[0]), true)]);
    const advice = 'Machine::traced replays such calls, and --replay a whole trace. A round '
      + 'behind a dot lies within one of the round before. Give arguments that differ to the '
      + 'function.';
    const header = ['repeats from', 'to', 'calls', 'rounds', 'share', 'other arguments at'];
    this.table(header, rows, [element('p', rows.length ? advice : 'Nothing repeats.')]);
  }

  memory() {
    const { profile } = this;
    const rows = profile.arenas.flatMap((arena, k) => {
      const { at, bytes, extent, peak } = profile.levels[k];
      const when = bytes.indexOf(peak);
      if (when < 0 || peak === 0) return [];
      const free = extent[when] - bytes[when];
      return [[[
        arena, formatBytes(peak), formatTime(at[when]), formatBytes(extent[when]),
        formatShare(free, extent[when]), formatCount(holdersAt(profile, k, at[when]).length),
      ], () => this.view.showMemory(k, at[when])]];
    });
    const header = ['arena', 'peak', 'after', 'up to', 'free between', 'holders'];
    this.table(header, rows, [element('p', 'A click on the memory curve shows who holds it.')]);
  }
}
