// The page: connects timeline, details, tables, search and keys.

class View {
  constructor(profile) {
    this.profile = profile;
    this.selected = -1;
    this.arrows = [];
    this.hits = [];
    this.hit = -1;
    this.cursor = -1;
    this.range = null;
    this.showsPath = false;
    const by = (id) => document.getElementById(id);
    this.by = by;
    this.timeline = new Timeline(profile, this, by('canvas'));
    this.details = new Details(profile, this, by('details'));
    this.tables = new Tables(profile, this, by('tabs'), by('table'));
  }

  select(k, zooms = false) {
    if (k < 0 || k >= this.profile.count) return;
    this.selected = k;
    this.arrows = this.arrowsOf(k);
    this.details.instruction(k);
    if (this.tables.shown === 'Step by step') this.tables.steps.show();
    this.timeline.show(k, zooms);
  }

  unselect() {
    [this.selected, this.arrows, this.range, this.cursor] = [-1, [], null, -1];
    this.details.clear();
    this.timeline.draw();
  }

  // The arrows of an instruction: its waits, and the waits for it.
  arrowsOf(k) {
    const { profile } = this;
    const arrows = [];
    const own = new Set([...profile.waitsOf.of(k), ...profile.waitsOfUser.of(k)]);
    const later = [...profile.waitsUntil.of(k), ...this.details.waitsOfRecord(k)];
    for (const wait of [...own, ...later]) {
      const [until, waiter] = [profile.waitUntil[wait], profile.waitWaiter[wait]];
      if (until === NONE || waiter === NONE) continue;
      const kind = profile.isElided(wait) ? 'elided' : 'wait';
      if (kind === 'elided' && !own.has(wait)) continue;
      const from = profile.workBefore(until);
      if (profile.isTimed(from) && profile.isTimed(waiter)) arrows.push([from, waiter, kind]);
    }
    return arrows.slice(0, 200);
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

  showMemory(arena, time) {
    this.cursor = time;
    this.details.memory(arena, time);
    this.timeline.draw();
  }

  search(text) {
    const { profile } = this;
    const wanted = text.trim().toLowerCase();
    const has = (name) => name.toLowerCase().includes(wanted);
    this.hits = [];
    this.hit = -1;
    if (wanted) {
      const [names, places] = [profile.names.map(has), profile.places.map(has)];
      const tensor = profile.tensors.findIndex(({ name }) => name.toLowerCase() === wanted);
      for (let k = 0; k < profile.count; k++) {
        if (!profile.isTimed(k)) continue;
        let found = names[profile.name[k]] || places[profile.place[k]];
        if (!found && tensor >= 0) {
          const used = profile.operandTensor.subarray(
            profile.operandsFrom[k], profile.operandsTo[k],
          );
          found = used.includes(tensor);
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
    const count = hits.length === 1 ? '1 hit' : `${formatCount(hits.length)} hits`;
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
      t: () => this.toggleTheme(), '?': () => this.by('keys').showModal(),
      Escape: () => this.unselect(),
    };
  }

  listen() {
    const { by, timeline } = this;
    const keys = this.keys();
    document.addEventListener('keydown', (event) => {
      const field = event.target.closest('input, dialog');
      if (field || event.ctrlKey || event.metaKey || event.altKey) {
        if (event.key === 'Escape') event.target.blur();
        return;
      }
      if (event.key === 'Enter' && !event.target.closest('button, tr') && this.selected >= 0) {
        timeline.show(this.selected, true);
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
    by('theme').addEventListener('click', () => this.toggleTheme());
    by('help').addEventListener('click', () => by('keys').showModal());
    window.addEventListener('resize', () => timeline.draw());
    this.listenToCanvas(by('canvas'));
  }

  listenToCanvas(canvas) {
    const { timeline } = this;
    let drag = null;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        timeline.move(event.deltaX / canvas.clientWidth);
      } else {
        timeline.zoom(Math.exp(event.deltaY / 400), event.offsetX);
      }
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      const { from, to } = timeline;
      drag = { x: event.offsetX, from, to, moved: false, measures: event.shiftKey };
      canvas.setPointerCapture?.(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) return this.showTip(event);
      const by = (event.offsetX - drag.x) * timeline.scale;
      drag.moved ||= Math.abs(event.offsetX - drag.x) > 3;
      if (!drag.moved) return undefined;
      if (drag.measures) {
        const ends = [timeline.time(drag.x), timeline.time(event.offsetX)];
        this.range = ends.sort((a, b) => a - b);
        return timeline.draw();
      }
      return timeline.setRange(drag.from - by, drag.to - by);
    });
    canvas.addEventListener('pointerup', (event) => {
      const clicked = drag && !drag.moved;
      drag = null;
      if (!clicked) return;
      const { instruction, arena, time } = timeline.hit(event.offsetX, event.offsetY);
      if (instruction >= 0) this.select(instruction);
      else if (arena >= 0) this.showMemory(arena, time);
      else this.unselect();
    });
    canvas.addEventListener('pointerleave', () => { this.by('tip').hidden = true; });
  }

  showTip(event) {
    const tip = this.by('tip');
    const { instruction: k, arena, time } = this.timeline.hit(event.offsetX, event.offsetY);
    const { profile } = this;
    let text = '';
    if (k >= 0) {
      const takes = formatTime(profile.end[k] - profile.start[k]);
      text = `${profile.nameOf(k)}, ${takes}\n${profile.placeOf(k)}`;
    } else if (arena >= 0) {
      const { bytes } = levelAt(profile, arena, time);
      text = `${formatBytes(bytes)} after ${formatTime(time)}`;
    }
    tip.hidden = !text;
    tip.textContent = text;
    const left = Math.min(event.offsetX + 12, this.by('canvas').clientWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${event.offsetY + 14}px`;
  }
}

// What the page shows, in a line.
function describeRun(profile) {
  const waits = [0, 0];
  profile.waitWaiter.forEach((waiter, wait) => {
    // The program's own waits are no stream's.
    if (waiter === NONE || profile.stream[waiter] !== NONE) waits[+profile.isElided(wait)]++;
  });
  const range = `${formatTime(profile.from)} to ${formatTime(profile.to)}`;
  return [
    `${profile.source.toLowerCase()}: ${formatTime(profile.total)}`,
    ...(profile.isWhole ? [] : [`here ${range}`]),
    `${formatCount(profile.count)} instructions`,
    `${formatCount(waits[0])} waits, ${formatCount(waits[1])} not needed`,
    ...profile.remarks,
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
    by('facts').textContent = `${head.header.source.toLowerCase()}: ${formatTime(total)}`;
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
  view.details.clear();
  view.tables.open('Ops');
  view.timeline.draw();
  window.millstream = { profile, view };
  document.documentElement.dataset.ready = '';
}

open().catch((error) => {
  document.getElementById('facts').textContent = `The profile cannot be shown: ${error.message}`;
  document.documentElement.dataset.ready = 'failed';
});
