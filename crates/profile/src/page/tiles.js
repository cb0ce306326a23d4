// Rows of the timeline at several levels of detail.
//
// Level 0 has each instruction. Each further level joins neighbours whose common length is below
// its resolution, which is four times that of the level before. So a view has a few blocks for
// each pixel, however many instructions there are.

const FACTOR = 4;

class Row {
  // `members` are instructions of one lane, by their begin.
  constructor(profile, stream, lane, members) {
    Object.assign(this, { profile, stream, lane, members });
    const base = { resolution: 0 };
    base.start = Float64Array.from(members, (k) => profile.start[k]);
    base.end = Float64Array.from(members, (k) => profile.end[k]);
    base.busy = base.end.map((end, k) => end - base.start[k]);
    base.longest = Uint32Array.from(members);
    this.levels = [base];
  }

  // The level for a scale in nanoseconds per pixel.
  level(scale) {
    let level = this.levels[0];
    const finest = this.profile.total / 2 ** 26 || 1;
    for (let k = 0, at = Math.max(finest, 0.25); at <= scale; k++, at *= FACTOR) {
      if (!this.levels[k + 1]) this.levels.push(joined(this.levels[k], at));
      level = this.levels[k + 1];
    }
    return level;
  }

  // The instruction at a moment, or the nearest within `slack`.
  at(time, slack) {
    const { start, end } = this.levels[0];
    const next = lowerBound(start, time);
    let best = -1;
    let distance = slack;
    for (const k of [next - 1, next]) {
      if (k < 0 || k >= start.length) continue;
      const away = time < start[k] ? start[k] - time : Math.max(0, time - end[k]);
      if (away <= distance) { best = this.members[k]; distance = away; }
    }
    return best;
  }
}

function joined(finer, resolution) {
  const count = finer.start.length;
  const start = new Float64Array(count);
  const end = new Float64Array(count);
  const busy = new Float64Array(count);
  const longest = new Uint32Array(count);
  let made = 0;
  let most = 0;
  for (let k = 0; k < count; k++) {
    if (made > 0 && finer.end[k] - start[made - 1] < resolution) {
      end[made - 1] = Math.max(end[made - 1], finer.end[k]);
      busy[made - 1] += finer.busy[k];
      if (finer.busy[k] > most) { most = finer.busy[k]; longest[made - 1] = finer.longest[k]; }
      continue;
    }
    start[made] = finer.start[k];
    end[made] = finer.end[k];
    busy[made] = finer.busy[k];
    longest[made] = finer.longest[k];
    most = finer.busy[k];
    made++;
  }
  // Where nothing was joined, the coarser level is the finer one.
  if (made === count) return { ...finer, resolution };
  return {
    resolution,
    start: start.slice(0, made), end: end.slice(0, made),
    busy: busy.slice(0, made), longest: longest.slice(0, made),
  };
}

// The rows of all streams with instructions.
function makeRows(profile) {
  const rows = [];
  profile.streams.forEach((_, stream) => {
    const lanes = [];
    for (const k of profile.byStream.of(stream)) {
      if (profile.isTimed(k)) (lanes[profile.lane[k]] ??= []).push(k);
    }
    lanes.forEach((members, lane) => {
      members.sort((a, b) => profile.start[a] - profile.start[b] || a - b);
      rows.push(new Row(profile, stream, lane, members));
    });
  });
  return rows;
}
