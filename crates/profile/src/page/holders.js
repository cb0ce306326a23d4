// The table of memory: the holders of an arena's memory over time, stacked, and those of a moment.

const STACK = 170;

class Holders {
  constructor(profile, view, panel) {
    Object.assign(this, { profile, view, panel });
    const peaks = profile.levels.map(({ peak }) => peak);
    this.arenas = [...peaks.keys()].filter((arena) => peaks[arena] > 0);
    this.arena = this.arenas.toSorted((a, b) => peaks[b] - peaks[a])[0] ?? -1;
    this.stack = [];
  }

  // Shows the memory of the chosen arena. The moment is that of the cursor, or the peak.
  show() {
    const { profile, view, arena } = this;
    if (arena < 0) {
      const text = 'The recording does not say which memory its tensors had.';
      return this.panel.replaceChildren(element('p', text, { class: 'why' }));
    }
    const choices = this.arenas.map((own) => element('option', profile.arenas[own], {
      value: String(own), ...(own === arena ? { selected: '' } : {}),
    }));
    const choice = element('select', choices, { 'aria-label': 'Arena' });
    choice.addEventListener('change', () => {
      this.arena = Number(choice.value);
      this.show();
    });
    this.state = element('span');
    this.canvas = element('canvas', [], { class: 'stack', 'aria-label': 'Holders over time' });
    this.tip = element('div', [], { class: 'tip', role: 'status', hidden: '' });
    this.list = element('div', [], { class: 'holders' });
    const box = element('div', [this.canvas, this.tip], { class: 'stack-box' });
    const line = element('p', ['Memory of ', this.arenas.length > 1 ? choice
      : profile.arenas[arena], ', ', this.state]);
    this.panel.replaceChildren(line, box, this.list);
    this.canvas.addEventListener('pointermove', (event) => this.showTip(event));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.canvas.addEventListener('click', (event) => {
      view.showMemory(arena, this.timeline.time(event.offsetX));
    });
    this.showMoment();
    return this.paint();
  }

  get timeline() { return this.view.timeline; }

  // The holders at the cursor or at the peak.
  showMoment() {
    const { profile, view, arena } = this;
    const { at, bytes, extent, peak } = profile.levels[arena];
    const isPeak = view.cursor < 0;
    const time = isPeak ? at[bytes.indexOf(peak)] : view.cursor;
    const k = levelAt(at, time);
    const [taken, upto] = k < 0 ? [0, 0] : [bytes[k], extent[k]];
    const most = profile.mostHeld[arena];
    const held = most < 0 ? '' : `; the program holds at most ${formatBytes(most)}`;
    const free = upto > taken ? `, ${formatShare(upto - taken, upto)} of it free between` : '';
    this.state.textContent = `${isPeak ? 'at its peak, ' : ''}after ${formatTime(time)}: `
      + `${formatBytes(taken)} taken, up to ${formatBytes(upto)}${free}${held}`;
    const rows = holdersAt(profile, arena, time).map((storage) => this.row(storage));
    const header = ['', 'holder', 'allocated at', 'bytes', 'share', 'from', 'for', 'tensor'];
    const count = `${formatCount(rows.length)} holders, the largest first`;
    this.list.replaceChildren(element('h3', count),
      ...makeTable(header, rows.map(([cells, go]) => {
        cells[4] = formatShare(cells[4], taken);
        return [cells, go];
      })));
  }

  row(storage) {
    const { profile } = this;
    const made = profile.storageAllocated[storage];
    const [begin, end] = [profile.heldBegin[storage], profile.heldEnd[storage]];
    const size = profile.storageSize[storage];
    const go = profile.isHere(made) ? () => this.view.select(made) : null;
    const isGiven = made === NONE;
    return [[
      this.swatch(storage), storageName(profile, storage), this.place(storage),
      formatBytes(size), size, isGiven ? 'before the run' : formatTime(begin),
      isGiven ? '' : formatTime(end - begin), storageSpec(profile, storage),
    ], go];
  }

  place(storage) {
    const place = this.profile.places[this.profile.storagePlace[storage]];
    return place ? shortPlace(place) : '';
  }

  // The maker's family, which is the colour; -1 for what was there before the run. A holder is a
  // storage, or by a negative number the smaller ones of a maker.
  family(holder) {
    const { profile } = this;
    const maker = holder < 0 ? -2 - holder : profile.storageMaker[holder];
    return profile.nameFamily[maker] ?? -1;
  }

  name(holder) {
    if (holder >= 0) return storageName(this.profile, holder);
    return `${this.profile.names[-2 - holder] ?? 'given'}, smaller ones`;
  }

  swatch(storage) {
    const family = this.family(storage);
    if (family >= 0) return this.view.families.swatch(family);
    return element('span', [], { class: 'swatch', style: 'background: var(--given)' });
  }

  // Follows the timeline: the same times, from the same left edge.
  paint() {
    const { canvas, timeline, profile, arena } = this;
    if (arena < 0 || !canvas?.isConnected || !timeline.style) return;
    const width = timeline.canvas.clientWidth;
    canvas.style.width = `${width}px`;
    const context = sized(canvas, width, STACK);
    const { left } = timeline;
    const level = profile.levels[arena];
    // The bytes that are a pixel high.
    const pixel = level.peak / (STACK - 4);
    this.layersOf = stackedLayers(profile, arena, timeline, Math.ceil(width - left), pixel);
    context.fillStyle = timeline.color('--panel');
    context.fillRect(left, 0, width - left, STACK);
    const y = (bytes) => STACK - (bytes / (level.peak || 1)) * (STACK - 4);
    this.stack = this.layersOf.map(({ holder, first, last, from, to }) => ({
      holder, x: left + first, right: left + last, top: y(to), bottom: y(from), bytes: to - from,
    }));
    const given = timeline.color('--given');
    for (const { holder, x, right, top, bottom } of this.stack) {
      const gap = bottom - top > 3 ? 1 : 0;
      context.fillStyle = timeline.fills[this.family(holder)] ?? given;
      context.fillRect(x, top + gap, right - x, Math.max(bottom - top - gap, 0.5));
    }
    for (const [holder, { x, right, y: middle }] of this.labels()) {
      const ink = timeline.color(this.family(holder) < 0 ? '--text' : '--on-family');
      writeText(context, this.name(holder), [x + 4, right - 2], middle + 0.5, ink);
    }
    this.paintEdge(context, left);
  }

  // Where each holder has room for its name: its longest part that is high enough.
  labels() {
    const open = new Map();
    const best = new Map();
    for (const { holder, x, right, top, bottom } of this.stack) {
      if (bottom - top < 11) continue;
      let part = open.get(holder);
      if (part?.right === x) part.right = right; else part = { x, right };
      if (x <= part.x + 30) part.y = (top + bottom) / 2;
      open.set(holder, part);
      const longest = best.get(holder);
      const wide = part.right - part.x;
      if (wide > 40 && !(longest && longest.right - longest.x > wide)) best.set(holder, part);
    }
    return best;
  }

  // The scale at the left, and the cursor.
  paintEdge(context, left) {
    const { timeline, view, profile } = this;
    const { peak } = profile.levels[this.arena];
    context.fillStyle = timeline.color('--back');
    context.fillRect(0, 0, left - 1, STACK);
    context.fillStyle = timeline.color('--faint');
    context.textAlign = 'right';
    for (const share of [1, 0.5, 0]) {
      const y = STACK - 4 - share * (STACK - 14);
      context.fillText(formatBytes(Math.round(peak * share)), left - 6, y);
    }
    context.textAlign = 'left';
    if (view.cursor < 0) return;
    const x = Math.round(timeline.x(view.cursor));
    context.fillStyle = timeline.color('--accent');
    if (x >= left) context.fillRect(x, 0, 1, STACK);
  }

  showTip({ offsetX: x, offsetY: y }) {
    const { profile, tip } = this;
    const layer = this.stack.find((one) => x >= one.x && x < one.right && y >= one.top
      && y < one.bottom);
    if (layer === undefined) {
      tip.hidden = true;
      return;
    }
    const { holder } = layer;
    const own = holder >= 0;
        const text = [
      own ? `${this.name(holder)} ${storageSpec(profile, holder)}` : this.name(holder),
      formatBytes(layer.bytes),
      own && this.place(holder) && `allocated at ${this.place(holder)}`,
    ].filter(Boolean).join('\n');
    placeTip(tip, text, [x, y], this.canvas.parentElement);
  }
}
