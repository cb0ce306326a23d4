// The page: connects timeline, details, tables, search and keys.

class View {
  constructor(profile) {
    this.profile = profile;
    this.selected = -1;
    this.arrows = [];
    this.hits = [];
    this.hit = -1;
    this.cursor = -1;
    // The selected range of the time, if there is one.
    this.range = null;
    this.showsPath = false;
    const by = (id) => document.getElementById(id);
    this.by = by;
    this.families = new Families(profile);
    this.timeline = new Timeline(profile, this, by('canvas'));
    this.pointer = new Pointer(this, by('canvas'), by('tip'));
    this.details = new Details(profile, this, by('details'));
    this.tables = new Tables(profile, this, by('tabs'), by('table'));
  }

  select(k, zooms = false) {
    if (k < 0 || k >= this.profile.count) return;
    this.selected = k;
    this.arrows = arrowsOf(this.profile, k);
    this.details.instruction(k);
    if (this.tables.shown === 'Step by step') this.tables.steps.show();
    this.timeline.show(k, zooms);
  }

  // Leaves the selected instruction, and then the range.
  unselect() {
    this.cursor = -1;
    this.selectRange(this.selected >= 0 ? this.range : null);
  }

  // Shows the sums of a range, or of the run.
  selectRange(range) {
    [this.selected, this.arrows, this.range] = [-1, [], range];
    this.details.overview();
    this.tables.refresh();
    this.timeline.draw();
  }

  // The sums of the selected range, or of all that was read.
  sums() {
    const { profile } = this;
    const [from, to] = this.range ?? [profile.from, profile.from + profile.span];
    if (this.madeSums?.from !== from || this.madeSums.to !== to) {
      this.madeSums = new Sums(profile, this.families, [from, to]);
    }
    return this.madeSums;
  }

  allArrows() { return this.madeArrows ??= allArrows(this.profile); }

  toggleArrows() {
    const { timeline } = this;
    timeline.showsArrows = !timeline.showsArrows;
    this.by('arrows').setAttribute('aria-pressed', String(timeline.showsArrows));
    timeline.draw();
  }

  toggleWorkers() {
    const { timeline } = this;
    if (!timeline.hasWorkers) return;
    timeline.showRows(!timeline.byWorker);
    this.by('workers').setAttribute('aria-pressed', String(timeline.byWorker));
    timeline.draw();
  }

  // The timeline has been painted: what follows it is, too.
  painted() {
    if (this.tables.shown === 'Memory') this.tables.holders.paint();
    const left = this.timeline.arrowsLeft;
    this.by('arrows').title = left ? `All waits as arrows (E): the longest, without ${
      formatCount(left)}` : 'All waits as arrows (E)';
  }

  step(to) {
    const k = Math.min(Math.max(0, to), this.profile.count - 1);
    this.tables.shown === 'Step by step' || this.tables.open('Step by step');
    this.select(k);
  }

  // The neighbour of the selected instruction on its stream.
  neighbour(by) {
    const { profile } = this;
    if (this.selected < 0 || profile.stream[this.selected] === NONE) return;
    const own = profile.byStream.of(profile.stream[this.selected]);
    const at = lowerBound(own, this.selected) + by;
    if (at >= 0 && at < own.length) this.select(own[at]);
  }

  // Shows the holders of an arena's memory at a moment.
  showMemory(arena, time) {
    this.cursor = time;
    this.tables.holders.arena = arena;
    this.tables.open('Memory');
    this.by('tables').scrollIntoView({ block: 'nearest' });
  }

  search(text) {
    const { profile } = this;
    const wanted = text.trim().toLowerCase();
    const has = (name) => name.toLowerCase().includes(wanted);
    this.hits = [];
    this.hit = -1;
    if (wanted) {
      const [names, places] = [profile.names.map(has), profile.places.map(has)];
      const tensors = profile.tensors.map(({ name, spec }) => has(`${name} ${spec}`));
      const anyTensor = tensors.includes(true);
      for (let k = 0; k < profile.count; k++) {
        if (!profile.isTimed(k)) continue;
        let found = names[profile.name[k]] || places[profile.place[k]];
        if (!found && anyTensor) {
          const used = profile.operandTensor.subarray(
            profile.operandsFrom[k], profile.operandsTo[k],
          );
          found = used.some((tensor) => tensors[tensor]);
        }
        if (found) this.hits.push(k);
      }
      this.hits.sort((a, b) => profile.start[a] - profile.start[b] || a - b);
    }
    this.showHits();
    this.timeline.draw();
  }

  showHits() {
    const { hits, hit } = this;
    const count = counted(hits.length, 'hit');
    const text = hit < 0 ? count : `${formatCount(hit + 1)} of ${formatCount(hits.length)}`;
    this.by('hits').textContent = this.by('search').value.trim() ? text : '';
  }

  goToHit(by) {
    if (!this.hits.length) return;
    this.hit = this.hit < 0 && by < 0 ? this.hits.length - 1
      : (this.hit + by + this.hits.length) % this.hits.length;
    this.showHits();
    this.select(this.hits[this.hit]);
  }

  toggleTheme() {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
    this.timeline.draw();
  }

  keys() {
    const { timeline } = this;
    return {
      ArrowLeft: () => timeline.move(-0.15), a: () => timeline.move(-0.15),
      ArrowRight: () => timeline.move(0.15), d: () => timeline.move(0.15),
      ArrowUp: () => timeline.zoom(0.7), w: () => timeline.zoom(0.7),
      ArrowDown: () => timeline.zoom(1 / 0.7), s: () => timeline.zoom(1 / 0.7),
      '+': () => timeline.zoom(0.7), '=': () => timeline.zoom(0.7),
      '-': () => timeline.zoom(1 / 0.7),
      f: () => timeline.fit(), Home: () => timeline.fit(),
      '[': () => this.neighbour(-1), ']': () => this.neighbour(1),
      ',': () => this.step(this.selected - 1), '.': () => this.step(this.selected + 1),
      '/': () => this.by('search').focus(), n: () => this.goToHit(1), N: () => this.goToHit(-1),
      e: () => this.toggleArrows(), l: () => this.toggleWorkers(), t: () => this.toggleTheme(),
      '?': () => this.by('keys').showModal(), Escape: () => this.unselect(),
    };
  }

  listen() {
    const { by, timeline } = this;
    const keys = this.keys();
    document.addEventListener('keydown', (event) => {
      const field = event.target.closest('input, select, dialog');
      if (field || event.ctrlKey || event.metaKey || event.altKey) {
        if (event.key === 'Escape') event.target.blur();
        return;
      }
      if (event.key === 'Enter' && !event.target.closest('button, tr')) {
        if (this.range) timeline.setRange(...this.range);
        else if (this.selected >= 0) timeline.show(this.selected, true);
      } else if (keys[event.key]) {
        keys[event.key]();
        event.preventDefault();
      }
    });
    by('search').addEventListener('input', (event) => this.search(event.target.value));
    by('search-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.goToHit(1);
    });
    by('hit-after').addEventListener('click', () => this.goToHit(1));
    by('hit-before').addEventListener('click', () => this.goToHit(-1));
    by('zoom-in').addEventListener('click', () => timeline.zoom(0.5));
    by('zoom-out').addEventListener('click', () => timeline.zoom(2));
    by('fit').addEventListener('click', () => timeline.fit());
    by('arrows').addEventListener('click', () => this.toggleArrows());
    by('workers').addEventListener('click', () => this.toggleWorkers());
    by('workers').hidden = !timeline.hasWorkers;
    by('theme').addEventListener('click', () => this.toggleTheme());
    by('help').addEventListener('click', () => by('keys').showModal());
    window.addEventListener('resize', () => timeline.draw());
  }
}

// The median and the middle half of the program's repeats, as `Spread` in spread.rs has them.
function describeRepeats(totals) {
  const all = [...totals].sort((a, b) => a - b);
  const last = all.length - 1;
  const quarter = Math.floor(last / 4);
  const [low, median, high] = [quarter, Math.floor(last / 2), last - quarter]
    .map((at) => formatTime(all[at]));
  return `one in the middle of ${all.length} runs: median ${median}, half ${low} to ${high}`;
}

// What the page shows, in a line.
function describeRun(profile) {
  const waits = { made: 0, blocked: 0, elided: 0, host: 0 };
  profile.waitWaiter.forEach((waiter, wait) => {
    const stream = waiter === NONE ? undefined : profile.streams[profile.stream[waiter]];
    if (profile.isElided(wait)) waits.elided++;
    else if (!stream || stream.thread) waits.host++;
    else {
      waits.made++;
      if (profile.end[waiter] > profile.start[waiter]) waits.blocked++;
    }
  });
  const range = `${formatTime(profile.from)} to ${formatTime(profile.to)}`;
  return [
    `${profile.source.toLowerCase()}: ${formatTime(profile.program.program)}`,
    ...(profile.program.reading ? [
      `outputs read in ${formatTime(profile.program.reading)}`] : []),
    ...(profile.runs.totals.length > 1 ? [describeRepeats(profile.runs.totals)] : []),
    ...(profile.isWhole ? [] : [`here ${range}`]),
    counted(profile.count, 'instruction'),
    `${counted(waits.made, 'wait')} between streams, ${formatCount(waits.blocked)} blocked`,
    ...(waits.elided ? [`${formatCount(waits.elided)} more implied`] : []),
    ...(waits.host ? [`${formatCount(waits.host)} of the host`] : []),
  ].join(' · ');
}

async function open() {
  const dark = window.matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  const by = (id) => document.getElementById(id);
  const pieces = by('data').textContent.split('\n');
  by('data').remove();
  const head = await unpack(pieces[0]);
  const { parts, total } = head.header;
  let range = parts.length > AT_ONCE ? rangeOfAddress() : [0, total];
  if (!range) {
    document.documentElement.dataset.ready = 'choosing';
    by('facts').textContent = `${head.header.source.toLowerCase()}: ${formatTime(head.header.program.program)}`;
    range = await new Chooser(head, by('chooser')).choose();
    window.history.replaceState(null, '', `#range=${range.join(',')}`);
  }
  by('range').hidden = parts.length <= AT_ONCE;
  by('range').addEventListener('click', () => {
    window.location.hash = '';
    window.location.reload();
  });
  by('main').hidden = false;
  const profile = link(await decode(head, pieces, range));
  splitLevels(profile);
  by('facts').textContent = describeRun(profile);
  const view = new View(profile);
  view.listen();
  view.families.legend(by('legend'), view.sums(), () => view.timeline.draw());
  view.details.overview();
  view.tables.open('Ops');
  view.timeline.draw();
  window.millstream = { profile, view };
  document.documentElement.dataset.ready = '';
}

open().catch((error) => {
  document.getElementById('facts').textContent = `The profile cannot be shown: ${error.message}`;
  document.documentElement.dataset.ready = 'failed';
});
