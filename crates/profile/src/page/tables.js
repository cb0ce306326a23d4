// The tables below the timeline: streams, ops, waits, the critical path, places, memory, repeats.
// Streams, ops, waits and places are those of the selected range.

const ROWS = 200;
const UNITS = {
  '%': 1, ns: 1, µs: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30,
  TiB: 2 ** 40,
};

// The value by which a cell is sorted: a number with its unit, or a text.
function sortKey(cell) {
  const [, digits, unit] = /^([-+]?[\d,.]+)(?: (\S+))?/.exec(cell) ?? [];
  return digits ? Number(digits.replaceAll(',', '')) * (UNITS[unit] ?? 1) : cell;
}

// Sorts rows by a column: numbers and texts apart, and cells without a text last.
function sortRows(rows, column, sign) {
  const key = ([cells]) => (typeof cells[column] === 'string' && cells[column] !== ''
    ? sortKey(cells[column]) : undefined);
  return rows.toSorted((one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    return sign * (typeof a === 'number' ? a - b : a.localeCompare(b));
  });
}

// A table whose header sorts it: numbers begin with the largest. Each row is its cells and, if it
// leads somewhere, a function.
function makeTable(header, all, count = all.length) {
  const box = element('div');
  const show = (column, sign) => {
    const rows = column < 0 ? all : sortRows(all, column, sign);
    box.replaceChildren(...tableOf(header, rows, count, [column, sign, show]));
  };
  show(-1, 1);
  return [box];
}

// The first rows of a table.
function tableOf(header, all, count, [column, sign, show]) {
  const rows = all.slice(0, ROWS);
  const isNumber = (text) => /^[-+]?[\d,.]+( %| [nµm]?s| [KMGT]?i?B| \(.*%\))?$/.test(text);
  const numbers = header.map((_, k) => rows.length > 0 && rows.every(([cells]) => {
    return typeof cells[k] !== 'string' || cells[k] === '' || isNumber(cells[k]);
  }) && rows.some(([cells]) => typeof cells[k] === 'string' && cells[k] !== ''));
  const classOf = (k) => (numbers[k] ? { class: 'number' } : {});
  const head = element('tr', header.map((text, k) => {
    if (!text) return element('th');
    const next = k === column ? -sign : (numbers[k] ? -1 : 1);
    const sorted = { 'aria-sort': sign > 0 ? 'ascending' : 'descending' };
    const button = element('button', text, { type: 'button', onclick: () => show(k, next) });
    return element('th', button, { ...classOf(k), ...(k === column ? sorted : {}) });
  }));
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
  return count > rows.length ? [table, element('p', `and ${left} more`)] : [table];
}

class Tables {
  constructor(profile, view, tabs, panel) {
    Object.assign(this, { profile, view, panel, shown: '' });
    this.steps = new Steps(profile, view, panel);
    this.holders = new Holders(profile, view, panel);
    this.pages = {
      Streams: () => this.streams(), Ops: () => this.ops(), Waits: () => this.waits(),
      'Critical path': () => this.path(), Places: () => this.places(),
      Memory: () => this.holders.show(), Repeats: () => this.repeats(),
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
    this.refresh();
    this.view.timeline.draw();
  }

  refresh() { this.pages[this.shown](); }

  // Shows a table of the selected range, or of the run.
  table(header, rows, before = []) {
    const { range } = this.view;
    const text = range && `From ${formatTime(range[0])} to ${formatTime(range[1])}:`;
    const note = range ? [element('p', text, { class: 'why' })] : [];
    this.panel.replaceChildren(...note, ...before, ...makeTable(header, rows));
  }

  streams() {
    const { profile, view } = this;
    const sums = view.sums();
    const own = sums.streams().filter(({ count }) => count > 0);
    const rows = own.map((sum) => {
      const { name, by_device: byDevice, worker } = profile.streams[sum.stream];
      const bar = element('span', [], {
        class: 'bar', style: `width:${Math.min(100, 100 * sum.works / sums.span)}px`,
      });
      return [[
        name, formatCount(sum.count), formatTime(sum.works), formatShare(sum.works, sums.span), bar,
        formatTime(sum.blocked), formatTime(sum.unsubmitted), formatTime(sum.late),
        worker === null ? '' : `worker ${worker}`, byDevice ? "the device's clock" : '',
      ], () => view.select(sum.longest)];
    });
    this.table([
      'stream', 'instructions', 'busy', 'share', '', 'blocked', 'not submitted', 'not begun',
      'runs on', 'measured by',
    ], rows);
  }

  ops() {
    const { profile, view } = this;
    const { recorded = {}, peak } = profile;
    const sums = view.sums().ops();
    const all = view.sums().work();
    const { program } = view.families;
    // Nothing is known of PyTorch's times of a part.
    const theirs = !view.range && Object.keys(recorded).length > 0;
    const rate = (units, time, most) => {
      if (!units || !time) return '';
      // In whole percents, as a narrow window has no room for more.
      const share = most ? ` (${Math.round(100 * units / time / most)} %)` : '';
      const digits = units / time < 0.1 ? 3 : 1;
      return `${(units / time).toFixed(digits)}${share}`;
    };
    const header = [
      '', 'op', 'calls', 'time', 'share', ...(theirs ? ['PyTorch'] : []), 'mean', 'longest',
      'GFLOP/s', 'GB/s',
    ];
    const rows = sums.map((sum) => [[
      view.families.swatch(sum.family), sum.name, formatCount(sum.count), formatTime(sum.time),
      sum.family === program ? '' : formatShare(sum.time, all),
      ...(theirs ? [sum.name in recorded ? formatTime(recorded[sum.name]) : ''] : []),
      formatTime(sum.time / sum.count), formatTime(sum.longest),
      rate(sum.operations, sum.time, peak?.gflop_s), rate(sum.moved, sum.time, peak?.gb_s),
    ], () => view.select(sum.which, true)]);
    const note = peak ? [element('p', `In parentheses, the share of what this computer reaches: ${
      peak.gflop_s.toFixed(1)} GFLOP/s in a product of f32, ${peak.gb_s.toFixed(1)} GB/s in a copy.`,
    { class: 'why' })] : [];
    this.table(header, rows, note);
  }

  places() {
    const { profile, view } = this;
    const isWork = (k) => profile.role[k] === ROLE.work;
    const sums = view.sums().by(isWork, (k) => profile.place[k]);
    this.table(['place', 'instructions', 'time', 'longest is'], sums.map((sum) => [[
      shortPlace(profile.places[sum.key] ?? 'not known'), formatCount(sum.count),
      formatTime(sum.time), profile.nameOf(sum.which),
    ], () => view.select(sum.which, true)]));
  }

  waits() {
    const { profile } = this;
    const sums = this.view.sums();
    const all = new Map();
    let elided = 0;
    for (let wait = 0; wait < profile.waitWaiter.length; wait++) {
      const [waiter, until] = [profile.waitWaiter[wait], profile.waitUntil[wait]];
      // The program's own waits have no time here, and count for the whole alone.
      if (this.view.range && (waiter === NONE || !sums.isHere(waiter))) continue;
      if (profile.isElided(wait)) { elided++; continue; }
      if (waiter === NONE || until === NONE || profile.stream[waiter] === NONE) continue;
      const user = profile.waitUser[wait] === NONE ? waiter : profile.waitUser[wait];
      const source = profile.workBefore(until);
      const blocked = sums.within(waiter);
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
    this.panel.replaceChildren(...makeTable(header, rows, profile.pathKind.length));
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
    const note = element('p', rows.length ? advice : 'Nothing repeats.');
    this.panel.replaceChildren(note, ...makeTable(header, rows));
  }
}
