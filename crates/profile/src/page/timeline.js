// The canvas: streams over time, arrows of the selected instruction, memory.

const AXIS = 24;
const GAP = 3;
const RANGE = 18;

class Timeline {
  constructor(profile, view, canvas) {
    Object.assign(this, { profile, view, canvas });
    this.context = canvas.getContext('2d');
    this.color = (name) => this.style.getPropertyValue(name).trim();
    this.from = profile.from;
    this.to = profile.from + profile.span;
    this.hasWorkers = profile.streams.some(({ worker }) => worker !== null);
    this.showRows(false);
    this.rangeDepth = depths(profile.ranges);
    // The programs that wait: a row each.
    this.waiting = [...new Set(profile.pauses.map(({ rank }) => rank))].sort((a, b) => a - b);
    this.showsArrows = false;
    this.pending = false;
  }

  // Shows a row for each stream, or one for each worker.
  showRows(byWorker) {
    this.byWorker = byWorker && this.hasWorkers;
    Object.assign(this, makeRows(this.profile, this.byWorker));
  }

  // The height of each part, from the top. Few rows are high, so that they use the window.
  layout() {
    const room = window.innerHeight * 0.5 - AXIS;
    const lines = this.rows.length + this.profile.arenas.length * 2.5 + 3;
    this.high = Math.round(Math.min(44, Math.max(22, room / lines - GAP)));
    const ROW = this.high;
    const MEMORY = ROW * 2 + 20;
    const deepest = Math.max(-1, ...this.rangeDepth);
    const pauses = AXIS + (deepest + 1) * RANGE;
    const rows = pauses + this.waiting.length * RANGE + GAP;
    const memory = rows + this.rows.length * (ROW + GAP) + GAP;
    const height = memory + this.profile.arenas.length * (MEMORY + GAP);
    return { ranges: AXIS, pauses, rows, memory, height, each: MEMORY };
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

  paint() {
    const { canvas, context } = this;
    const layout = this.layout();
    this.parts = layout;
    const [width, height] = [canvas.clientWidth, Math.max(layout.height, 60)];
    sized(canvas, width, height);
    this.style = getComputedStyle(document.documentElement);
    this.fills = this.view.families.titles.map((_, family) => this.color(`--family-${family}`));
    context.fillStyle = this.color('--back');
    context.fillRect(0, 0, width, height);
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
    this.arrowsLeft = this.showsArrows ? paintArrows(this, this.view.allArrows(), true) : 0;
    this.paintSelection();
    this.paintCursor(height);
    context.restore();
    this.paintLabels(layout);
    this.view.painted();
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
    profile.pauses.forEach((pause) => {
      const top = layout.pauses + this.waiting.indexOf(pause.rank) * high;
      box(pause.begin, pause.end, top, `${this.color('--wait')}88`, pause.reason);
    });
  }

  // Waits are thin and pale, below the work; failures stand above it.
  paintRow(row, top, width) {
    const ROW = this.high;
    const { context } = this;
    context.fillStyle = this.color('--panel');
    context.fillRect(this.left, top, width - this.left, ROW);
    context.fillStyle = this.color('--wait');
    this.eachBlock(row.waits, (x, right) => {
      context.fillRect(x, top + ROW / 2 - 2, Math.max(right - x, 1), 4);
    });
    const { families } = this.view;
    const text = this.color('--on-family');
    this.eachBlock(row.work, (x, right, k) => {
      context.fillStyle = this.fills[families.of(k)];
      if (families.isFaint(k)) context.globalAlpha *= 0.15;
      const high = this.profile.role[k] === ROLE.launch ? ROW / 3 : ROW - 2;
      context.fillRect(x, top + 1, Math.max(right - x - (right - x > 4 ? 1 : 0), 1), high);
      context.globalAlpha = 1;
      if (right - x > 22 && high > 8) {
        this.paintText(this.profile.nameOf(k), x, right, top + 1 + high / 2, text);
      }
    });
    for (const k of row.failed) {
      const [x, right] = [this.x(this.profile.start[k]), this.x(this.profile.end[k])];
      if (right < this.left || x > width) continue;
      context.fillStyle = this.color('--bad');
      context.fillRect(x, top + 1, Math.max(right - x - 1, 2), ROW - 2);
      if (right - x > 22) {
        this.paintText(this.profile.nameOf(k), x, right, top + ROW / 2, this.color('--back'));
      }
    }
  }

  // Calls a function for each block in view, with its ends and its longest instruction.
  eachBlock(levels, paint) {
    const { context } = this;
    const { start, end, busy, longest } = levels.level(this.scale);
    for (let k = Math.max(0, lowerBound(start, this.from) - 1); k < start.length; k++) {
      if (start[k] > this.to) break;
      if (end[k] < this.from) continue;
      const length = end[k] - start[k];
      context.globalAlpha = length > 0 ? Math.max(0.35, Math.min(1, busy[k] / length)) : 1;
      paint(this.x(start[k]), this.x(end[k]), longest[k]);
      context.globalAlpha = 1;
    }
  }

  // Writes as much of a text as fits into a block.
  paintText(text, from, to, y, color) {
    const ends = [Math.max(from, this.left) + 4, Math.min(to, this.canvas.clientWidth) - 2];
    writeText(this.context, text, ends, y, color);
  }

  // The bytes that are taken, and as a line the end of the highest taken byte: what lies between is
  // fragmentation.
  paintMemory(layout, width) {
    const { context, profile, left } = this;
    const columns = Math.ceil(width - left);
    const last = Math.min(width, this.x(profile.total));
    profile.levels.forEach(({ at, bytes, extent, top: most }, arena) => {
      const top = layout.memory + arena * (layout.each + GAP);
      const bottom = top + layout.each;
      context.fillStyle = this.color('--panel');
      context.fillRect(left, top, width - left, layout.each);
      const trace = (values) => {
        context.beginPath();
        columnPeaks(at, values, this.from, this.scale, columns).forEach((k, column) => {
          const share = k < 0 ? 0 : values[k] / (most || 1);
          context.lineTo(Math.min(left + column, last), bottom - share * (layout.each - 4));
        });
      };
      context.fillStyle = `${this.color('--memory')}66`;
      trace(bytes);
      context.lineTo(last, bottom);
      context.lineTo(left, bottom);
      context.fill();
      context.strokeStyle = this.color('--memory');
      context.lineWidth = 1;
      trace(extent);
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
      const row = this.rowOf[pathInstruction[k]];
      if (row < 0) continue;
      context.fillRect(x, this.rowTop(row) + ROW - 2, Math.max(right - x, 1), 3);
      shown = right;
    }
  }

  paintHits() {
    const ROW = this.high;
    const { context, profile, view } = this;
    if (!view.hits.length) return;
    context.fillStyle = this.color('--accent');
    const last = new Map();
    for (const k of view.hits) {
      if (profile.end[k] < this.from || profile.start[k] > this.to) continue;
      const row = this.rowOf[k];
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
    paintArrows(this, view.arrows);
    const row = this.rowOf[k];
    if (row < 0) return;
    const x = this.x(profile.start[k]);
    context.strokeStyle = this.color('--text');
    context.lineWidth = 2;
    const wide = Math.max(this.x(profile.end[k]) - x, 2);
    context.strokeRect(x, this.rowTop(row) + 1, wide, ROW - 2);
  }

  paintCursor(height) {
    const { context, view } = this;
    if (view.range) {
      const [x, right] = view.range.map((time) => this.x(time));
      context.fillStyle = this.color('--back');
      context.globalAlpha = 0.6;
      context.fillRect(this.left, AXIS, x - this.left, height);
      context.fillRect(right, AXIS, this.canvas.clientWidth - right, height);
      context.globalAlpha = 1;
      context.fillStyle = this.color('--accent');
      for (const edge of [x, right]) context.fillRect(Math.round(edge) - 1, 0, 1, height);
      context.fillStyle = `${this.color('--accent')}33`;
      context.fillRect(x, 0, right - x, AXIS - 4);
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
    const label = (text, y, color = '--text') => {
      context.fillStyle = this.color(color);
      context.fillText(fittedName(text, left - 10), 6, y);
    };
    const half = RANGE / 2;
    if (profile.ranges.length) label('ranges', layout.ranges + half, '--faint');
    const hasRanks = profile.streams.some((stream) => stream.rank > 0);
    this.waiting.forEach((rank, k) => {
      const who = hasRanks ? `rank ${rank}` : 'the program';
      label(`${who} waits`, layout.pauses + k * RANGE + half, '--faint');
    });
    this.rows.forEach((row, k) => {
      const text = row.lane === 0 ? row.label : `lane ${row.lane + 1}`;
      const hasDetail = row.lane === 0 && row.detail && ROW >= 32;
      const y = this.rowTop(k) + ROW / 2 - (hasDetail ? 7 : 0);
      label(text, y, row.lane === 0 ? '--text' : '--faint');
      if (hasDetail) label(row.detail, y + 14, '--faint');
    });
    profile.arenas.forEach((arena, k) => {
      const top = layout.memory + k * (layout.each + GAP);
      label(`memory of ${arena}`, top + 12);
      const { peak, top: most } = profile.levels[k];
      label(`peak ${formatBytes(peak)}`, top + 28, '--faint');
      if (most > peak) label(`up to ${formatBytes(most)}`, top + 44, '--faint');
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
