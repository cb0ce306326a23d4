// Rows of the timeline at several levels of detail.
//
// Level 0 has each instruction. Each further level joins neighbours whose common length is below
// its resolution, which is four times that of the level before. So a view has a few blocks for
// each pixel, however many instructions there are.

const FACTOR = 4;

class Levels {
  // `members` are instructions by their begin.
  constructor(profile, members) {
    Object.assign(this, { profile, members });
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

// A row: work, which does not overlap, and the waits.
class Row {
  constructor(profile, { label, detail }, lane, work, waits) {
    Object.assign(this, { label, detail, lane });
    this.work = new Levels(profile, work);
    this.waits = new Levels(profile, waits);
    this.failed = work.filter((k) => profile.outcome[k] !== 0);
  }

  // The instruction at a moment: work before waits, and what is there before what is near.
  at(time, slack) {
    for (const most of [0, slack]) {
      for (const levels of [this.work, this.waits]) {
        const found = levels.at(time, most);
        if (found >= 0) return found;
      }
    }
    return -1;
  }
}

// The streams of each group of rows: a stream, or those of a worker, which runs one at a time.
function groupsOf(profile, byWorker) {
  const groups = new Map();
  profile.streams.forEach(({ name, device, worker }, stream) => {
    const isShared = byWorker && worker !== null;
    const key = isShared ? worker : `stream ${stream}`;
    const label = isShared ? `worker ${worker}` : name;
    const group = groups.get(key) ?? { label, detail: '', streams: [] };
    group.streams.push(stream);
    if (isShared) group.detail += `${group.detail && ', '}${name.replace(`${device} `, '')}`;
    groups.set(key, group);
  });
  return [...groups.values()];
}

// The rows of all streams with instructions, or of all workers, and the row of each instruction.
function makeRows(profile, byWorker) {
  const rows = [];
  const rowOf = new Int32Array(profile.count).fill(-1);
  for (const group of groupsOf(profile, byWorker)) {
    const { streams } = group;
    const all = streams.length === 1 ? profile.timedOf(streams[0])
      : streams.flatMap((stream) => profile.timedOf(stream)).sort(profile.byBegin);
    const waits = all.filter((k) => profile.isWait(k));
    const lanes = [];
    const ends = [];
    for (const k of all) {
      if (profile.isWait(k)) continue;
      const free = ends.findIndex((end) => end <= profile.start[k]);
      const lane = free < 0 ? ends.length : free;
      (lanes[lane] ??= []).push(k);
      ends[lane] = profile.end[k];
    }
    if (!lanes.length && waits.length) lanes.push([]);
    lanes.forEach((members, lane) => {
      for (const k of members) rowOf[k] = rows.length;
      if (lane === 0) for (const k of waits) rowOf[k] = rows.length;
      rows.push(new Row(profile, group, lane, members, lane === 0 ? waits : []));
    });
  }
  return { rows, rowOf };
}
