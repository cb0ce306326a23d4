// The canvas: streams over time, arrows of the selected instruction, memory.

const AXIS = 24;
const GAP = 3;
const RANGE = 18;

class Timeline {
  constructor(profile, view, canvas) {
    Object.assign(this, { profile, view, canvas });
    this.context = canvas.getContext('2d');
    this.rows = makeRows(profile);
    this.from = profile.from;
    this.to = profile.from + profile.span;
    this.rowOf = profile.streams.map(() => []);
    this.rows.forEach((row, k) => { this.rowOf[row.stream][row.lane] = k; });
    this.hues = profile.names.map((name) => {
      let hash = 7;
      for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 3600;
      return (hash * 137) % 360;
    });
    this.hasProgram = profile.ranges.length + profile.pauses.length > 0;
    this.rangeDepth = depths(profile.ranges);
    this.pending = false;
  }

  // The height of each part, from the top. Few rows are high, so that they use the window.
  layout() {
    const room = this.canvas.parentElement.clientHeight - AXIS;
    const lines = this.rows.length + this.profile.arenas.length * 2.5 + 3;
    this.high = Math.round(Math.min(44, Math.max(22, room / lines - GAP)));
    const ROW = this.high;
    const MEMORY = ROW * 2 + 20;
    const deepest = Math.max(-1, ...this.rangeDepth);
    const ranges = (deepest + 1 + (this.profile.pauses.length ? 1 : 0)) * RANGE;
    const rows = AXIS + ranges + GAP;
    const memory = rows + this.rows.length * (ROW + GAP) + GAP;
    const height = memory + this.profile.arenas.length * (MEMORY + GAP);
    return { ranges: AXIS, rows, memory, height, each: MEMORY };
  }

  get left() { return Math.min(170, this.canvas.clientWidth * 0.28); }
  get scale() { return (this.to - this.from) / Math.max(1, this.canvas.clientWidth - this.left); }
  x(time) { return this.left + (time - this.from) / this.scale; }
  time(x) { return this.from + (x - this.left) * this.scale; }
  rowTop(k) { return this.parts.rows + k * (this.high + GAP); }

  setRange(from, to) {
    const { from: first, span } = this.profile;
    const length = Math.min(Math.max(to - from, 4), span * 1.1);
    const begin = Math.min(Math.max(from, first - span * 0.05), first + span * 1.05 - length);
    [this.from, this.to] = [begin, begin + length];
    this.draw();
  }

  // Shows all that was read.
  fit() { this.setRange(this.profile.from, this.profile.from + this.profile.span); }

  zoom(factor, x = this.left + (this.canvas.clientWidth - this.left) / 2) {
    const time = this.time(x);
    this.setRange(time - (time - this.from) * factor, time + (this.to - time) * factor);
  }

  move(share) {
    const by = (this.to - this.from) * share;
    this.setRange(this.from + by, this.to + by);
  }

  // Shows an instruction: zooms only if it would not be seen.
  show(k, zooms = false) {
    const { start, end } = this.profile;
    if (!(start[k] >= 0)) return;
    const length = Math.max(end[k] - start[k], 1);
    const seen = start[k] >= this.from && end[k] <= this.to;
    if (zooms) return this.setRange(start[k] - 2 * length, end[k] + 2 * length);
    if (!seen) {
      const half = Math.max(this.to - this.from, 3 * length) / 2;
      const middle = (start[k] + end[k]) / 2;
      return this.setRange(middle - half, middle + half);
    }
    return this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.paint(); });
  }

  color(name) { return this.style.getPropertyValue(name).trim(); }

  paint() {
    const { canvas, context } = this;
    const layout = this.layout();
    this.parts = layout;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, Math.max(layout.height, 60)];
    canvas.style.height = `${height}px`;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      [canvas.width, canvas.height] = [width * ratio, height * ratio];
    }
    this.style = getComputedStyle(document.documentElement);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.color('--back');
    context.fillRect(0, 0, width, height);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    this.paintAxis(width, height);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, height);
    context.clip();
    this.paintProgram(layout);
    this.rows.forEach((row, k) => this.paintRow(row, this.rowTop(k), width));
    this.paintMemory(layout, width);
    this.paintPath();
    this.paintHits();
    this.paintSelection();
    this.paintCursor(height);
    context.restore();
    this.paintLabels(layout);
  }

  paintAxis(width, height) {
    const { context } = this;
    const step = niceStep(this.scale * 110);
    context.strokeStyle = this.color('--line');
    context.fillStyle = this.color('--faint');
    context.lineWidth = 1;
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      if (x < this.left) continue;
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, height);
      context.stroke();
      if (x + 60 < width) context.fillText(formatTime(at), x + 3, AXIS / 2);
    }
  }

  paintProgram(layout) {
    const { context, profile } = this;
    const high = RANGE;
    const box = (begin, end, top, fill, text) => {
      const [x, right] = [this.x(begin), this.x(end)];
      if (right < this.left || x > this.canvas.clientWidth) return;
      context.fillStyle = fill;
      context.fillRect(x, top, Math.max(right - x, 1), high - 2);
      this.paintText(text, x, right, top + high / 2, this.color('--text'));
    };
    profile.ranges.forEach((range, k) => {
      const top = layout.ranges + this.rangeDepth[k] * high;
      box(range.begin, range.end, top, `${this.color('--accent')}33`, range.name);
    });
    const top = layout.rows - GAP - high;
    profile.pauses.forEach((pause) => {
      box(pause.begin, pause.end, top, `${this.color('--wait')}55`, pause.reason);
    });
  }

  fill(k) {
    const { profile } = this;
    if (profile.outcome[k] !== 0) return this.color('--bad');
    if (profile.role[k] === ROLE.wait || profile.role[k] === ROLE.fence) {
      return this.color('--wait');
    }
    const dark = document.documentElement.dataset.theme === 'dark';
    return `hsl(${this.hues[profile.name[k]]} 55% ${dark ? 42 : 70}%)`;
  }

  paintRow(row, top, width) {
    const ROW = this.high;
    const { context } = this;
    const level = row.level(this.scale);
    const { start, end, busy, longest } = level;
    context.fillStyle = this.color('--panel');
    context.fillRect(this.left, top, width - this.left, ROW);
    let k = Math.max(0, lowerBound(start, this.from) - 1);
    for (; k < start.length && start[k] <= this.to; k++) {
      if (end[k] < this.from) continue;
      const [x, right] = [this.x(start[k]), this.x(end[k])];
      const length = end[k] - start[k];
      context.fillStyle = this.fill(longest[k]);
      const isWait = this.profile.role[longest[k]] === ROLE.wait;
      context.globalAlpha = length > 0 ? Math.max(0.35, Math.min(1, busy[k] / length)) : 1;
      const [inset, high] = isWait ? [ROW / 3, ROW / 3] : [1, ROW - 2];
      context.fillRect(x, top + inset, Math.max(right - x - (right - x > 4 ? 1 : 0), 1), high);
      context.globalAlpha = 1;
      if (right - x > 22 && !isWait) {
        const name = this.profile.nameOf(longest[k]);
        const dark = document.documentElement.dataset.theme === 'dark';
        this.paintText(name, x, right, top + ROW / 2, dark ? '#fff' : '#111');
      }
    }
  }

  // Writes as much of a text as fits.
  paintText(text, from, to, y, color) {
    const { context } = this;
    const x = Math.max(from, this.left) + 4;
    const room = Math.min(to, this.canvas.clientWidth) - x - 2;
    if (room < 14) return;
    const fits = Math.floor(room / 6.2);
    context.fillStyle = color;
    const part = text.length > fits ? `${text.slice(0, Math.max(1, fits - 1))}…` : text;
    context.fillText(part, x, y);
  }

  paintMemory(layout, width) {
    const MEMORY = layout.each;
    const { context, profile } = this;
    profile.levels.forEach((level, arena) => {
      const top = layout.memory + arena * (MEMORY + GAP);
      const bottom = top + MEMORY;
      context.fillStyle = this.color('--panel');
      context.fillRect(this.left, top, width - this.left, MEMORY);
      const y = (bytes) => bottom - (bytes / (level.peak || 1)) * (MEMORY - 4);
      context.fillStyle = `${this.color('--memory')}66`;
      context.strokeStyle = this.color('--memory');
      context.beginPath();
      context.moveTo(this.left, bottom);
      // The highest level of each pixel.
      let k = Math.max(0, lowerBound(level.at, this.from) - 1);
      let before = k < level.at.length && level.at[k] <= this.from ? level.bytes[k] : 0;
      for (let x = this.left; x <= width; x++) {
        const upto = this.time(x + 1);
        let most = before;
        while (k < level.at.length && level.at[k] < upto) {
          most = Math.max(most, level.bytes[k]);
          before = level.bytes[k];
          k++;
        }
        context.lineTo(x, y(most));
      }
      context.lineTo(width, bottom);
      context.fill();
    });
    this.paintExtents(layout, width);
  }

  // The end of the highest taken byte: what lies between it and the curve is fragmentation.
  paintExtents(layout, width) {
    const { context, profile } = this;
    context.strokeStyle = this.color('--memory');
    context.lineWidth = 1;
    profile.levels.forEach((level, arena) => {
      const top = layout.memory + arena * (layout.each + GAP);
      const y = (extent) => {
        const share = Math.min(1, extent / (level.peak || 1));
        return top + layout.each - share * (layout.each - 4);
      };
      context.beginPath();
      for (let x = this.left; x <= width; x += 2) {
        const { extent } = levelAt(profile, arena, this.time(x));
        if (x === this.left) context.moveTo(x, y(extent)); else context.lineTo(x, y(extent));
      }
      context.stroke();
    });
  }

  // The critical path: a line below the instructions that are on it.
  paintPath() {
    const ROW = this.high;
    if (!this.view.showsPath) return;
    const { context, profile } = this;
    const { pathKind, pathInstruction, pathStart, pathEnd } = profile;
    context.fillStyle = this.color('--bad');
    let shown = -1;
    for (let k = Math.max(0, lowerBound(pathStart, this.from) - 1); k < pathKind.length; k++) {
      if (pathStart[k] > this.to) break;
      const [x, right] = [this.x(pathStart[k]), this.x(pathEnd[k])];
      if (pathKind[k] !== 0 || right < shown + 0.5) continue;
      const row = this.rowIndex(pathInstruction[k]);
      if (row < 0) continue;
      context.fillRect(x, this.rowTop(row) + ROW - 2, Math.max(right - x, 1), 3);
      shown = right;
    }
  }

  rowIndex(k) {
    return this.rowOf[this.profile.stream[k]]?.[this.profile.lane[k]] ?? -1;
  }

  paintHits() {
    const ROW = this.high;
    const { context, profile, view } = this;
    if (!view.hits.length) return;
    context.fillStyle = this.color('--accent');
    const last = new Map();
    for (const k of view.hits) {
      if (profile.end[k] < this.from || profile.start[k] > this.to) continue;
      const row = this.rowIndex(k);
      const x = Math.round(this.x(profile.start[k]));
      if (row < 0 || last.get(row) === x) continue;
      last.set(row, x);
      const wide = Math.max(2, this.x(profile.end[k]) - x);
      context.fillRect(x, this.rowTop(row) - 2, wide, 3);
    }
  }

  paintSelection() {
    const ROW = this.high;
    const { context, profile, view } = this;
    const k = view.selected;
    if (k < 0 || !profile.isTimed(k)) return;
    for (const [from, to, kind] of view.arrows) this.paintArrow(from, to, kind);
    const row = this.rowIndex(k);
    if (row < 0) return;
    const x = this.x(profile.start[k]);
    context.strokeStyle = this.color('--text');
    context.lineWidth = 2;
    const wide = Math.max(this.x(profile.end[k]) - x, 2);
    context.strokeRect(x, this.rowTop(row) + 1, wide, ROW - 2);
  }

  // An arrow from the end of one instruction to the begin of another.
  paintArrow(from, to, kind) {
    const ROW = this.high;
    const { context, profile } = this;
    const rows = [this.rowIndex(from), this.rowIndex(to)];
    if (rows[0] < 0 || rows[1] < 0) return;
    const ends = profile.role[to] === ROLE.wait ? profile.end[to] : profile.start[to];
    const [x, y] = [this.x(profile.end[from]), this.rowTop(rows[0]) + ROW / 2];
    const [right, down] = [this.x(ends), this.rowTop(rows[1]) + ROW / 2];
    const bend = Math.max(18, Math.abs(right - x) / 3);
    context.strokeStyle = this.color(kind === 'elided' ? '--elided' : '--wait');
    context.fillStyle = context.strokeStyle;
    context.lineWidth = 1.6;
    context.setLineDash(kind === 'elided' ? [4, 3] : []);
    context.beginPath();
    context.moveTo(x, y);
    context.bezierCurveTo(x + bend, y, right - bend, down, right, down);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(right, down);
    context.lineTo(right - 7, down - 4);
    context.lineTo(right - 7, down + 4);
    context.fill();
  }

  paintCursor(height) {
    const { context, view } = this;
    if (view.range) {
      const [from, to] = view.range;
      context.fillStyle = `${this.color('--accent')}22`;
      context.fillRect(this.x(from), AXIS, this.x(to) - this.x(from), height - AXIS);
      context.fillStyle = this.color('--text');
      const middle = (this.x(from) + this.x(to)) / 2;
      context.textAlign = 'center';
      context.fillText(formatTime(Math.abs(to - from)), middle, AXIS + 8);
      context.textAlign = 'left';
    }
    if (view.cursor >= 0) {
      context.fillStyle = this.color('--accent');
      context.fillRect(Math.round(this.x(view.cursor)), AXIS - 6, 1, height);
    }
  }

  paintLabels(layout) {
    const ROW = this.high;
    const { context, profile, left } = this;
    context.fillStyle = this.color('--back');
    context.fillRect(0, 0, left - 1, layout.height);
    const room = Math.floor((left - 10) / 6.2);
    const label = (text, y, color = '--text') => {
      context.fillStyle = this.color(color);
      const fits = text.length > room ? `…${text.slice(1 - room)}` : text;
      context.fillText(fits, 6, y);
    };
    const half = RANGE / 2;
    if (profile.ranges.length) label('ranges', layout.ranges + half, '--faint');
    if (profile.pauses.length) label('the program waits', layout.rows - GAP - half, '--faint');
    this.rows.forEach((row, k) => {
      const { name } = profile.streams[row.stream];
      const text = row.lane === 0 ? name : `lane ${row.lane + 1}`;
      label(text, this.rowTop(k) + ROW / 2, row.lane === 0 ? '--text' : '--faint');
    });
    profile.arenas.forEach((arena, k) => {
      const top = layout.memory + k * (layout.each + GAP);
      label(`memory of ${arena}`, top + 12);
      label(`peak ${formatBytes(profile.levels[k].peak)}`, top + 28, '--faint');
    });
  }

  // The part of the timeline at a place of the canvas.
  hit(x, y) {
    const layout = this.layout();
    const [ROW, MEMORY] = [this.high, layout.each];
    const time = this.time(x);
    if (x < this.left) return { time, instruction: -1, arena: -1 };
    const row = Math.floor((y - layout.rows) / (ROW + GAP));
    if (y >= layout.rows && row < this.rows.length) {
      return { time, instruction: this.rows[row].at(time, this.scale * 4), arena: -1 };
    }
    const arena = Math.floor((y - layout.memory) / (MEMORY + GAP));
    const isMemory = y >= layout.memory && arena < this.profile.arenas.length;
    return { time, instruction: -1, arena: isMemory ? arena : -1 };
  }
}

// The smallest of 1, 2, 5, 10, … that is not below `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least) ?? power * 10;
}

// How deep each range is nested in others of its thread.
function depths(ranges) {
  const open = [];
  return ranges.map(({ begin, end, thread }) => {
    for (let depth = 0; ; depth++) {
      const last = open[depth];
      if (!last || last.end <= begin) {
        open[depth] = { end, thread };
        return depth;
      }
    }
  });
}
