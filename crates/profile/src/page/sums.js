// The time of a range by op, by stream and by cause. What overlaps the range counts with its part
// in the range.

class Sums {
  constructor(profile, families, [from, to]) {
    Object.assign(this, { profile, families, from, to, span: Math.max(1, to - from) });
  }

  // The time of an instruction within the range.
  within(k) {
    const { start, end } = this.profile;
    return Math.max(0, Math.min(end[k], this.to) - Math.max(start[k], this.from));
  }

  isHere(k) {
    const { profile } = this;
    return profile.isTimed(k) && profile.start[k] <= this.to && profile.end[k] >= this.from;
  }

  // Sums the time of the instructions that a function keeps, by a key, the most first.
  by(keep, key) {
    const { profile } = this;
    const all = new Map();
    for (let k = 0; k < profile.count; k++) {
      if (!this.isHere(k) || !keep(k)) continue;
      const time = this.within(k);
      const sum = add(all, key(k), time, k);
      // Of a call that is cut, as much as of its time.
      const part = time / (profile.end[k] - profile.start[k] || 1);
      sum.operations += part * profile.operations[k];
      sum.moved += part * profile.moved[k];
    }
    return sorted(all);
  }

  // Each op with its family. The program's threads come last: they overlap what they submit.
  ops() {
    const { profile, families } = this;
    this.madeOps ??= this.by((k) => profile.role[k] === ROLE.work, (k) => {
      return profile.name[k] + profile.names.length * families.of(k);
    }).map((sum) => {
      const [name, family] = [sum.key % profile.names.length, sum.key / profile.names.length];
      return { ...sum, name: profile.names[name], family: Math.floor(family) };
    }).sort((a, b) => {
      return (a.family === families.program) - (b.family === families.program) || b.time - a.time;
    });
    return this.madeOps;
  }

  // The time of all work, without the program's threads.
  work() {
    const isWork = ({ family }) => family !== this.families.program;
    return this.ops().filter(isWork).reduce((sum, { time }) => sum + time, 0);
  }

  // For each stream, how long it works, is blocked, and has nothing to run, and why.
  streams() {
    this.madeStreams ??= this.profile.streams.map((_, stream) => this.ofStream(stream));
    return this.madeStreams;
  }

  ofStream(stream) {
    const { profile, from, to } = this;
    const sum = {
      stream, count: 0, works: 0, collective: 0, launches: 0, blocked: 0, unsubmitted: 0, late: 0,
      idle: 0, longest: -1,
    };
    const collectives = profile.families.indexOf('collectives');
    let covered = from;
    const gap = (until, k) => {
      const end = Math.min(until, to);
      if (end <= covered) return;
      const issued = k < 0 ? -1 : profile.issued[k];
      // Without a time of submission nothing is known about the gap.
      const cut = issued < 0 ? covered : Math.min(Math.max(issued, covered), end);
      sum.unsubmitted += cut - covered;
      sum[issued < 0 ? 'idle' : 'late'] += end - cut;
    };
    let next = -1;
    for (const k of profile.timedOf(stream)) {
      if (profile.start[k] > to) { next = k; break; }
      if (!this.isHere(k)) continue;
      gap(profile.start[k], k);
      const time = this.within(k);
      sum.count++;
      sum[profile.isWait(k) ? 'blocked' : 'works'] += time;
      if (profile.role[k] === ROLE.launch) sum.launches += time;
      else if (this.families.of(k) === collectives) sum.collective += time;
      if (sum.longest < 0 || time > this.within(sum.longest)) sum.longest = k;
      covered = Math.max(covered, Math.min(profile.end[k], to));
    }
    gap(to, next);
    // Instructions of a pool overlap.
    sum.running = this.span - sum.blocked - sum.unsubmitted - sum.late - sum.idle;
    return sum;
  }

  // What the streams did with their time. Only the streams that run something in the whole count.
  causes() {
    const { profile } = this;
    const streams = this.streams().filter(({ stream }) => {
      return profile.timedOf(stream).length > 0 && !this.families.isProgram[stream];
    });
    const total = (part) => streams.reduce((sum, stream) => sum + stream[part], 0);
    const rows = [
      {
        text: 'works', which: -1, time: total('running') - total('collective') - total('launches'),
      },
      { text: 'in collectives, which wait for other ranks', time: total('collective'), which: -1 },
      { text: 'runs a list with streams of its own', time: total('launches'), which: -1 },
      ...this.waits().map(({ key, ...sum }) => ({ text: `waits for ${key}`, ...sum })),
      { text: 'the program has not submitted the next one', time: total('unsubmitted'), which: -1 },
      {
        text: 'submitted, and its worker or device has not begun it', time: total('late'),
        which: -1,
      },
      { text: 'nothing to run, as far as is known', time: total('idle'), which: -1 },
    ];
    return rows.filter(({ time }) => time > 0).sort((a, b) => b.time - a.time);
  }

  // The time for which streams are blocked, by what they wait for.
  waits() {
    const { profile, families } = this;
    const isStreams = (k) => profile.isWait(k) && !families.isProgram[profile.stream[k]];
    return this.by(isStreams, (k) => {
      if (profile.role[k] === ROLE.fence) return 'a barrier';
      const wait = profile.waitsOf.of(k).find((own) => !profile.isElided(own));
      const until = wait === undefined ? NONE : profile.waitUntil[wait];
      if (until === NONE) return profile.isWhole ? 'something unknown' : 'something out of range';
      const source = profile.workBefore(until);
      return `${profile.nameOf(source)} on ${profile.streamOf(source)}`;
    });
  }

  // The program's own waits, by their reason.
  pauses() {
    const all = new Map();
    for (const { reason, rank, begin, end } of this.profile.pauses) {
      const time = Math.min(end, this.to) - Math.max(begin, this.from);
      const ranks = new Set(this.profile.streams.map((stream) => stream.rank)).size;
      if (time > 0) add(all, ranks > 1 ? `rank ${rank} ${reason}` : reason, time, -1);
    }
    return sorted(all);
  }
}

function add(all, key, time, which) {
  const sum = all.get(key) ?? {
    key, count: 0, time: 0, longest: -1, which, operations: 0, moved: 0,
  };
  sum.count++;
  sum.time += time;
  if (time > sum.longest) [sum.longest, sum.which] = [time, which];
  all.set(key, sum);
  return sum;
}

const sorted = (all) => [...all.values()].sort((a, b) => b.time - a.time);
